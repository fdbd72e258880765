"""What a framework's FLOPs formula returns."""

from __future__ import annotations

from .model import Convention, Value


class Flops(Value, frozen=True):
    """Model FLOPs of ONE sample (forward and backward, batch 1) under both conventions of counting attention.

    `formula` identifies the formula and its version, so that two results can be told to be comparable; `parts` holds
    the named summands of the `full` convention divided by the sequence length, as the recipes' worked examples print.
    """

    full: float
    causal: float
    formula: str
    parts: dict[str, float] = {}

    def by(self, convention: Convention) -> float:
        """The figure under one convention."""
        return self.full if convention == "full" else self.causal
