"""Acceptance of a cluster: what is known of its nodes, and the search for slow ones."""
