"""What runs inside the image or environment: copied into the run folder, needs nothing of llmbx, Python 3.10+."""
