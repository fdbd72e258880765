"""Profile runs with Nsight Systems or a framework's own profiler, and analyze Nsight Systems profiles."""
