"""Explain a failed run: who failed first, what followed, and what to do."""
