"""The commands compare, audit and report."""
