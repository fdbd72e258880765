"""Facts of every node, and the limits that they are judged by."""
