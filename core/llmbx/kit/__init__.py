"""Tools for authors of plugins: create a package, check a plugin, use one without installing it."""
