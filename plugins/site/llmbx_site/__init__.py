"""Look at a machine or cluster before a run: `init`, `list --here`, `catalog diff`."""
