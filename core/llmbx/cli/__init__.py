"""The command line: one module a verb, each found by entry point and loaded when it is used."""
