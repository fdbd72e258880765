"""Whether a training is broken: a loss or gradient that is not finite, or no step that changed the weights."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..model import Step


def broken(steps: Sequence[Step]) -> str | None:
    """Why a training with these steps is invalid, in one line; None if it is not."""
    if not steps:
        return None
    return loss_not_finite(steps) or last_gradient_not_finite(steps) or all_steps_skipped(steps)


def loss_not_finite(steps: Sequence[Step]) -> str | None:
    """The first step with a loss that is NaN or infinite, in one line."""
    bad = next((step for step in steps if not finite(step.loss)), None)
    return f"the loss is not finite at step {bad.number}" if bad else None


def last_gradient_not_finite(steps: Sequence[Step]) -> str | None:
    """That the gradient norm of the last step is NaN or infinite, which no later loss would show."""
    last = steps[-1]
    return None if finite(last.grad_norm) else f"the gradient norm is not finite at step {last.number}, the last"


def all_steps_skipped(steps: Sequence[Step]) -> str | None:
    """That the optimizer skipped every step."""
    skipped = all(step.skipped for step in steps)
    return f"the optimizer skipped all of the {len(steps)} steps" if skipped else None


def finite(value: float | None) -> bool:
    """False only for NaN and infinity; None counts as finite."""
    return value is None or math.isfinite(value)
