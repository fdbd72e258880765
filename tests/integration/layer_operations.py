"""Count the operations of one training step of each kind of layer with PyTorch: a program for the framework's Python.

Prints one JSON object: name of the layer -> operations of one sample and parameters.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

TOKENS, HIDDEN, HEADS, GROUPS, WIDTH, VOCABULARY = 64, 32, 4, 2, 48, 96


class Attention(nn.Module):
    """Grouped-query attention with a head width of its own, every pair of positions computed."""

    def __init__(self, head_width: int) -> None:
        super().__init__()
        self.head_width = head_width
        self.q, self.k, self.v = (nn.Linear(HIDDEN, n * head_width, bias=False) for n in (HEADS, GROUPS, GROUPS))
        self.out = nn.Linear(HEADS * head_width, HIDDEN, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q = self.q(x).view(1, -1, HEADS, self.head_width).transpose(1, 2)
        k, v = (f(x).view(1, -1, GROUPS, self.head_width).transpose(1, 2) for f in (self.k, self.v))
        k, v = (each.repeat_interleave(HEADS // GROUPS, 1) for each in (k, v))
        mixed = torch.softmax(q @ k.transpose(2, 3), -1) @ v
        return self.out(mixed.transpose(1, 2).reshape(1, -1, HEADS * self.head_width))


class Latent(nn.Module):
    """Multi-head latent attention: key width 8, shared rotary width 4, value width 6, ranks 12 and 20."""

    def __init__(self) -> None:
        super().__init__()
        self.q_down, self.q_up = nn.Linear(HIDDEN, 20, bias=False), nn.Linear(20, HEADS * 12, bias=False)
        self.kv_down, self.kv_up = nn.Linear(HIDDEN, 12 + 4, bias=False), nn.Linear(12, HEADS * 14, bias=False)
        self.out = nn.Linear(HEADS * 6, HIDDEN, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q = self.q_up(self.q_down(x)).view(1, -1, HEADS, 12).transpose(1, 2)
        latent, rope = self.kv_down(x).split([12, 4], -1)
        key, value = self.kv_up(latent).view(1, -1, HEADS, 14).transpose(1, 2).split([8, 6], -1)
        key = torch.cat([key, rope.unsqueeze(1).expand(-1, HEADS, -1, -1)], -1)
        mixed = torch.softmax(q @ key.transpose(2, 3), -1) @ value
        return self.out(mixed.transpose(1, 2).reshape(1, -1, HEADS * 6))


class Gated(nn.Module):
    """SwiGLU."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.gate, self.down = (nn.Linear(a, b, bias=False) for a, b in
                                         ((HIDDEN, width), (HIDDEN, width), (width, HIDDEN)))  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    """Eight experts, two per token, and a shared one; every expert gets an equal share of the tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(HIDDEN, 8, bias=False)
        self.experts = nn.ModuleList(Gated(24) for _ in range(8))
        self.shared = Gated(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        weights = torch.softmax(self.router(x), -1)
        share = x.reshape(-1, HIDDEN).repeat(2, 1).chunk(8)
        routed = torch.cat([expert(part) for expert, part in zip(self.experts, share, strict=True)])
        return self.shared(x) + routed.view(2, 1, -1, HIDDEN).sum(0) * weights[..., :1]


def counted(layer: nn.Module, given: Callable[[], Tensor]) -> dict[str, float]:
    """The operations of forward and backward pass, the gradient of the input included."""
    x = given()
    with FlopCounterMode(display=False) as counter:
        layer(x).sum().backward()
    return {"flops": counter.get_total_flops(), "parameters": sum(p.numel() for p in layer.parameters())}


def text() -> Tensor:
    return torch.randn(1, TOKENS, HIDDEN, requires_grad=True)


def image() -> Tensor:
    return torch.randn(1, 3, 16, 16, requires_grad=True)


if __name__ == "__main__":
    print(json.dumps({
        "attention": counted(Attention(10), text),
        "latent attention": counted(Latent(), text),
        "gated mlp": counted(Gated(WIDTH), text),
        "plain mlp": counted(
            nn.Sequential(nn.Linear(HIDDEN, WIDTH, bias=False), nn.GELU(), nn.Linear(WIDTH, HIDDEN, bias=False)), text
        ),
        "experts": counted(Experts(), text),
        "conv": counted(nn.Conv2d(3, HIDDEN, 4, stride=4, bias=False), image),
        "logits": counted(nn.Linear(HIDDEN, VOCABULARY, bias=False), text),
    }))  # fmt: skip
