"""Modules of `llmbx.entry` that this plugin brings: they travel into the ranks."""
