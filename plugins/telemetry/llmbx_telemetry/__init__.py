"""What the machine did while the ranks ran: a sampler on each node, and its files read."""
