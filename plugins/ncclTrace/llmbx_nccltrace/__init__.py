"""NCCL tracing: makes NCCL log its calls, and analyzes these logs."""
