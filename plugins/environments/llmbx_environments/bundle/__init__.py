"""Bundles: images, wheels and tokenizers of an install in one file, for machines without network.

A bundle is a plain tar file. Its first member is the manifest: the path in the install, the sha256
and the size of each file, and the entries of `images.lock`.
"""
