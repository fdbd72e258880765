"""What travels to a node."""
