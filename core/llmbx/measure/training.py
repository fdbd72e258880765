"""Whether a training is broken: a loss or gradient that is not finite, or no step that changed the weights."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from ..model import Step


@dataclasses.dataclass(frozen=True)
class Training:
    """What the steps of a training say about its health. Each fault is one line, or None."""

    steps: Sequence[Step]
    """The steps in the order of the log."""

    @property
    def fault(self) -> str | None:
        """Why the training is invalid; None if it is not, or has no step."""
        if not self.steps:
            return None
        return self.loss_not_finite or self.last_gradient_not_finite or self.all_steps_skipped

    @property
    def loss_not_finite(self) -> str | None:
        """The first step with a loss that is NaN or infinite."""
        bad = next((step for step in self.steps if not _finite(step.loss)), None)
        return f"the loss is not finite at step {bad.number}" if bad else None

    @property
    def last_gradient_not_finite(self) -> str | None:
        """That the gradient norm of the last step is NaN or infinite, which no later loss would show."""
        last = self.steps[-1]
        return None if _finite(last.grad_norm) else f"the gradient norm is not finite at step {last.number}, the last"

    @property
    def all_steps_skipped(self) -> str | None:
        """That the optimizer skipped every step."""
        skipped = all(step.skipped for step in self.steps)
        return f"the optimizer skipped all of the {len(self.steps)} steps" if skipped else None


def _finite(value: float | None) -> bool:
    """False only for NaN and infinity; None counts as finite."""
    return value is None or math.isfinite(value)
