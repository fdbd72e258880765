"""The layers of the small trainings, and their data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

WIDTH, HEADS, WORDS = 256, 4, 512


class Block(nn.Module):
    """Attention and a feed-forward layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.qkv(self.norms[0](x)).unflatten(-1, (3 * HEADS, -1)).transpose(1, 2)
        q, k, v = heads.chunk(3, 1)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Layers(nn.Module):
    """Some layers, with the embedding before the first and the logits after the last."""

    def __init__(self, settings: dict[str, Any], first: int, last: int) -> None:
        super().__init__()
        layers = settings["depth"]
        self.embedding = nn.Embedding(WORDS, WIDTH) if first == 0 else None
        self.blocks = nn.ModuleList(Block() for _ in range(first, last))
        self.logits = nn.Linear(WIDTH, WORDS) if last == layers else None
        self.recompute, self.bf16 = settings["recompute"], settings["precision"] == "bf16"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            if self.embedding is not None:
                x = self.embedding(x)
            for block in self.blocks:
                again = self.recompute and self.training
                x = checkpoint(block, x, use_reentrant=False) if again else block(x)
            return x if self.logits is None else self.logits(x)


class Text(Dataset[torch.Tensor]):
    """Made-up samples; `loading` is called for each."""

    def __init__(self, seed: int, sequence: Callable[[int], int], loading: Callable[[], None]) -> None:
        self.seed, self.sequence, self.loading = seed, sequence, loading

    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, number: int) -> torch.Tensor:
        self.loading()
        draw = torch.Generator().manual_seed(self.seed * 1_000_003 + number)
        return torch.randint(64, (self.sequence(number) + 1,), generator=draw)


def batches(text: Text, rows: int) -> Any:
    """Return an iterator of batches."""
    return iter(DataLoader(text, batch_size=rows))


def loss_of(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return the mean cross entropy of the next tokens."""
    return F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
