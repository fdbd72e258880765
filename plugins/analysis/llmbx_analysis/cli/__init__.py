"""The verbs compare, audit and report."""
