"""Speed of every node, measured with the PyTorch of a run's environment."""
