"""Programs that run inside the environment or image.

They need only Python 3.10 and the standard library, in addition to MaxText and JAX.
"""
