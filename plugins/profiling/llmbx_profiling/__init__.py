"""Profiles of runs: Nsight Systems and the frameworks' own profilers, and the reading of what they write."""
