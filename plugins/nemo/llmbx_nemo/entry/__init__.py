"""Programs that run inside the image or environment.

They are copied into the run folder, do not need an installed llmbx, and support Python 3.10 and newer.
"""
