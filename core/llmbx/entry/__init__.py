"""Modules for programs that run inside an environment or image: Python 3.10 and the standard library, nothing of llmbx.

llmbx is not installed there: these modules are copied into the run folder with the launch (see
`llmbx.launchers.payload`).
"""
