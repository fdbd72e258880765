"""A run from its specification to its result: start, follow, retry, finalize."""
