"""Comparisons of runs, audits of published figures, and reports."""
