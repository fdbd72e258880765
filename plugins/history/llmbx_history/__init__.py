"""The plugin `history`: all runs of an install, in an index, with their columns and tags."""
