"""Import, verify, build and bundle container images, and detect changed digests."""
