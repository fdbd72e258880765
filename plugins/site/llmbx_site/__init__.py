"""Look at a machine or cluster before a run: `init`, `doctor`, `list --here`, `catalog diff`."""
