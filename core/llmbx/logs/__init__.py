"""Reading training logs: bytes to lines, lines to steps and events."""
