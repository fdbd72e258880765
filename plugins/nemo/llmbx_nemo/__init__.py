"""The NeMo plugin of llmbx: Llama 3.1, Llama 4 Maverick and Grok-1 on Megatron-Bridge, or on NeMo 2 in older images."""
