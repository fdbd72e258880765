"""Explain a slow run: what its steps lost, to which causes, by which evidence."""
