"""Read training logs: split bytes into lines, and parse lines into steps and events."""
