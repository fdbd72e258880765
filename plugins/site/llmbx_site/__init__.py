"""Before a run: `init`, `doctor`, `list --here`, `catalog diff`, and `show` of its settings."""
