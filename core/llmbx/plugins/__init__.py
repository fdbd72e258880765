"""Plugins: discovery, validation of what they return, isolation of their errors."""
