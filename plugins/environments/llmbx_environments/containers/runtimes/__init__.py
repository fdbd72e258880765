"""Container runtimes, one module for each container tool."""
