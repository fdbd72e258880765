"""The kinds of items, each in a module with its `KIND`."""
