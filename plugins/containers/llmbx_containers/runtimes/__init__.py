"""One module a container tool."""
