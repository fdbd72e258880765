"""Tools for authors of plugins: create a package, check a plugin, and test it (`llmbx.testing`)."""
