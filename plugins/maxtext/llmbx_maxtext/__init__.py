"""The MaxText plugin of llmbx: Llama 2 with profile-guided latency estimation (PGLE), and a mixture of experts."""
