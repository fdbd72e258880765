"""NCCL tracing: the switch that makes NCCL log its calls, and the analysis of such logs."""
