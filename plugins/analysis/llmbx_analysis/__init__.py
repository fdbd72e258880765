"""What people read of runs: comparisons, audits of published figures, reports."""
