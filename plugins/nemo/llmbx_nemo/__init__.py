"""The NeMo plugin of llmbx: Llama, Grok-1 and the newest models on Megatron-Bridge, or on NeMo 2 in older images."""
