"""What runs on a node, in the environment."""
