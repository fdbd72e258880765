"""What programs inside an environment or image may import: Python 3.10 and the standard library, nothing of llmbx.

Where they run llmbx is not installed: these modules travel into the run folder with the launch
(see `llmbx.launchers.payload`).
"""
