"""Steps to figures: windows, statistics, intervals and the figures of a result."""
