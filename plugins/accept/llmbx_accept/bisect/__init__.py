"""The search for the slow nodes among many, by running parts of them."""
