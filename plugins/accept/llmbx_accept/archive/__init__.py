"""Archives of acceptances: one file with what the verdicts are based on, and the check of it."""
