"""The command line: one module per verb, found by entry point and loaded when it is used."""
