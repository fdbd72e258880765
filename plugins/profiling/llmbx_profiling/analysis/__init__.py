"""Analysis of Nsight Systems profiles: time breakdown of each step on every rank, and stragglers."""
