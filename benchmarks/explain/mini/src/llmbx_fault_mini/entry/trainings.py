"""One step of the trainings that share the batch, the layers or the experts."""

from __future__ import annotations

import random
from typing import Any

import torch
from llmbx_fault_mini.entry.model import WIDTH, Layers, loss_of
from torch import distributed, nn

from llmbx.entry.rank import Rank

Tensor = torch.Tensor
MOVES = 0.1
"""By which share of it an expert's share of the tokens moves from step to step."""


class Data:
    """All ranks have all layers, and reduce their gradients at the end of a step."""

    def __init__(self, settings: dict[str, Any], this: Rank, clock: Any) -> None:
        self.settings, self.this, self.clock = settings, this, clock
        self.model: nn.Module = self.layers()
        self.forward: Any = self.model
        if settings["compiled"]:
            self.forward = torch.compile(self.model, backend="eager", dynamic=False)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.001)

    def layers(self) -> nn.Module:
        """Return the rank's part of the model."""
        return Layers(self.settings, 0, self.settings["depth"])

    def step(self, tokens: Tensor) -> float:
        """Train on a batch."""
        loss = loss_of(self.forward(tokens[:, :-1]), tokens)
        loss.backward()
        self.reduce()
        self.update()
        return loss.item()

    def reduce(self) -> None:
        """Reduce the gradients over all ranks."""
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        with self.clock.meeting():
            flat = torch.cat([gradient.flatten() for gradient in gradients])
            distributed.all_reduce(flat)
        parts = flat.div_(self.this.world).split([g.numel() for g in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    def update(self) -> None:
        """Update the weights."""
        self.optimizer.step()
        self.optimizer.zero_grad()

    @torch.no_grad()
    def evaluate(self, loader: Any, count: int) -> None:
        """Compute the loss of some batches."""
        self.model.eval()
        for _ in range(count):
            tokens = next(loader)
            loss_of(self.forward(tokens[:, :-1]), tokens)
        self.model.train()


class Pipeline(Data):
    """Each rank has a part of the layers: all microbatches forwards, then all backwards."""

    def layers(self) -> nn.Module:
        count, stage, stages = self.settings["depth"], self.this.number, self.this.world
        return Layers(self.settings, count * stage // stages, count * (stage + 1) // stages)

    def step(self, tokens: Tensor) -> float:
        this, last = self.this.number, self.this.world - 1
        inputs, outputs, total = [], [], 0.0
        parts = tokens.chunk(self.settings["microbatches"])
        for part in parts:
            entering = part[:, :-1]
            if this > 0:
                entering = torch.empty(*entering.shape, WIDTH)
                distributed.recv(entering, this - 1)
                entering.requires_grad_()
            leaving = self.forward(entering)
            if this < last:
                distributed.send(leaving.detach(), this + 1)
            inputs.append(entering)
            outputs.append(leaving)
        for part, entering, leaving in zip(parts, inputs, outputs, strict=True):
            if this == last:
                loss = loss_of(leaving, part) / len(parts)
                loss.backward()
                total += loss.item()
            else:
                gradient = torch.empty_like(leaving)
                distributed.recv(gradient, this + 1)
                leaving.backward(gradient)
            if this > 0:
                distributed.send(entering.grad, this - 1)
        self.update()
        value = torch.tensor([total])
        distributed.broadcast(value, last)
        return float(value)


class Exchange(torch.autograd.Function):
    """Send rows to other ranks, and their gradients back."""

    @staticmethod
    def forward(context: Any, rows: Tensor, sent: list[int], received: list[int]) -> Tensor:
        context.sizes = (sent, received)
        output = rows.new_empty(sum(received), rows.shape[1])
        distributed.all_to_all_single(output, rows.contiguous(), received, sent)
        return output

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        sent, received = context.sizes
        return Exchange.apply(gradients[0], received, sent), None, None


class Experts(Data):
    """Each rank has an expert between its layers: tokens go to that of their word, and come back."""

    shares: tuple[float, ...] = ()
    """The share of the tokens that each expert gets; empty: equal ones."""
    chance = random.Random(1)

    def layers(self) -> nn.Module:
        expert = nn.Sequential(nn.Linear(WIDTH, 16 * WIDTH), nn.GELU(), nn.Linear(16 * WIDTH, WIDTH))
        return nn.ModuleDict({"shared": Layers(self.settings, 0, 1), "expert": expert, "logits": nn.Linear(WIDTH, 512)})

    def step(self, tokens: Tensor) -> float:
        parts: Any = self.model
        hidden = parts["shared"](tokens[:, :-1])
        rows = hidden.flatten(0, 1)
        sent = [int(len(rows) * share) for share in self.routed()]
        sent[-1] += len(rows) - sum(sent)
        counts = torch.tensor(sent)
        received = torch.empty_like(counts)
        distributed.all_to_all_single(received, counts)
        there = Exchange.apply(rows, sent, received.tolist())
        back = Exchange.apply(parts["expert"](there), received.tolist(), sent)
        loss = loss_of(parts["logits"](hidden + back.view_as(hidden)), tokens)
        loss.backward()
        self.reduce()
        self.update()
        return loss.item()

    def routed(self) -> list[float]:
        """Return the shares of this step: they move from step to step, as those of a router that learns."""
        equal = (1 / self.this.world,) * self.this.world
        moved = [share * self.chance.uniform(1 - MOVES, 1 + MOVES) for share in self.shares or equal]
        return [share / sum(moved) for share in moved]

    def reduce(self) -> None:
        """Reduce the gradients of what all ranks have; an expert is only on its own."""
        whole, parts = self.model, self.model
        self.model = nn.ModuleList([parts["shared"], parts["logits"]])  # type: ignore[index]
        super().reduce()
        self.model = whole


KINDS = {"data": Data, "pipeline": Pipeline, "experts": Experts}
