"""Reading of profiles: where a step's time went, on every rank, and what the ranks waited for."""
