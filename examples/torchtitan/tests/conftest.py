pytest_plugins = ["llmbx.testing"]
