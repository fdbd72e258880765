"""NeMo and Megatron for llmbx: Llama 3.1, Llama 4 Maverick and Grok-1 on Megatron-Bridge, or NeMo 2 in older images."""
