"""Suites: what an acceptance checks, as data, and what came of it."""
