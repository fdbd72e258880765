"""What the runs of an install say about the nodes that they ran on."""
