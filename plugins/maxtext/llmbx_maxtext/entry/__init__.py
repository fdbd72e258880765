"""What runs inside the environment or image: Python 3.10 and the standard library, beside MaxText and JAX."""
