"""The plugin that judges what a run measured: checks, stability, and the comparison with published figures."""
