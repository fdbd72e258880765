"""Images as files and digests: getting them whole, proving them, and noticing when they change."""
