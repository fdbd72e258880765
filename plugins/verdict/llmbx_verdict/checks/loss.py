"""Did it train? Loss, gradient norm, learning rate and skipped steps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from llmbx.api import (
    Answer,
    Check,
    Evidence,
    ModelShape,
    NotPossible,
    Step,
    Training,
    summary_of,
)

from .common import MOST

START = (0.95, 1.12)
"""The first loss as a multiple of ln(vocabulary). Measured in real minis: 1.00 to 1.09."""

INITIAL_STD = 0.02
"""Largest standard deviation of the weights of an untrained model, in the recipes and in Megatron-Core's default."""

ALWAYS = ("loss", "learning_rate", "global_batch_size")
"""Fields of which a log without any is that of a rank which prints times only."""

FEW = 8
"""Fewer steps show no trend of the loss."""

CONSTANT = 10
"""So many losses are never all equal by chance, even if only four digits are printed."""

DIVERGED = 5.0
"""A loss from this multiple of an untrained model's loss on has diverged."""

RISE = 0.05
"""The loss rises if the mean of its last quarter is larger by this fraction than that of its first quarter."""


NO_GRADIENT = NotPossible(reason="no step has a gradient norm")

NO_SKIPS = NotPossible(reason="the format does not print skipped steps")


def missing(evidence: Evidence) -> Answer:
    """A loss that the format always prints is not there."""
    return _missing(evidence, "loss", "loss")


def not_finite(evidence: Evidence) -> Answer:
    """A loss is NaN or infinite."""
    return Training(evidence.steps).loss_not_finite


def negative(evidence: Evidence) -> Answer:
    """A loss is below zero."""
    bad = next((step for step in evidence.steps if step.loss is not None and step.loss < 0), None)
    return f"the loss is negative at step {bad.number} ({bad.loss:g})" if bad else None


def zero(evidence: Evidence) -> Answer:
    """A loss is zero, and not because of the data."""
    if evidence.prints is not None and evidence.prints.zero_loss:
        return NotPossible(reason="the loss of this data may be 0")
    bad = next((step for step in evidence.steps if step.loss == 0), None)
    return f"the loss is 0 at step {bad.number}" if bad else None


def start(evidence: Evidence) -> Answer:
    """The first loss is far from ln(vocabulary)."""
    if evidence.spec is None:
        return NotPossible(reason="the size of the vocabulary is not known")
    if evidence.prints is None or not evidence.prints.cross_entropy:
        return NotPossible(reason="the loss is not known to be a cross entropy over the vocabulary")
    if evidence.resumed:
        return NotPossible(reason="the training continues from a checkpoint")
    first = evidence.steps[0]
    if first.number != evidence.first or not first.loss or not math.isfinite(first.loss):
        return NotPossible(reason="the log has no loss of the first step")
    expected = math.log(evidence.spec.model.vocab_size)
    low, high = START[0] * expected, START[1] * expected + _of_logits(evidence.spec.model)
    if low <= first.loss <= high:
        return None
    return (
        f"the first loss is {first.loss:.4g}, but an untrained model with a vocabulary of "
        f"{evidence.spec.model.vocab_size} and this width has {low:.4g} to {high:.4g}"
    )


def _of_logits(model: ModelShape) -> float:
    """What the logits of an untrained model add to its loss: half of their variance, which grows with the width."""
    return model.hidden_size * INITIAL_STD**2 / 2


def constant(evidence: Evidence) -> Answer:
    """Every loss is the same."""
    losses = _losses(evidence.steps)
    if len(losses) < CONSTANT:
        return NotPossible(reason=f"fewer than {CONSTANT} steps have a loss")
    same = len(set(losses)) == 1 and losses[0] != 0
    return f"the loss is {losses[0]:g} in all of {len(losses)} steps" if same else None


def rising(evidence: Evidence) -> Answer:
    """The loss is higher at the end than at the start."""
    losses = [loss for loss in _losses(evidence.steps) if math.isfinite(loss)]
    if len(losses) < FEW:
        return NotPossible(reason=f"fewer than {FEW} steps have a loss")
    if evidence.resumed:
        return NotPossible(reason="the training continues from a checkpoint")
    quarter = len(losses) // 4
    begin, end = losses[:quarter], losses[-quarter:]
    before, after = sum(begin) / quarter, sum(end) / quarter
    spread = max(summary_of(begin)["std"] or 0.0, summary_of(end)["std"] or 0.0)
    if after - before <= RISE * abs(before) + 3 * spread / math.sqrt(quarter):
        return None
    return f"the loss rises from {before:.4g} to {after:.4g} (means of the first and the last {quarter} steps)"


def diverged(evidence: Evidence) -> Answer:
    """A loss is many times that of an untrained model."""
    losses = [step for step in evidence.steps if step.loss is not None and math.isfinite(step.loss)]
    if not losses or losses[0].loss is None:
        return NotPossible(reason="no step has a loss")
    if evidence.spec is None and losses[0].number > evidence.interval:
        return NotPossible(
            reason="the log does not have the first steps, so the loss of an untrained model is not known"
        )
    untrained = abs(losses[0].loss)
    if evidence.spec is not None and evidence.prints is not None and evidence.prints.cross_entropy:
        untrained = max(untrained, math.log(evidence.spec.model.vocab_size))
    if not untrained:
        return NotPossible(reason="the first loss is 0")
    worst = max(losses, key=lambda step: step.loss or 0.0)
    if (worst.loss or 0.0) <= DIVERGED * untrained:
        return None
    return f"the loss of step {worst.number} is {worst.loss:.4g}, {DIVERGED:g} times that of an untrained model or more"


def validation(evidence: Evidence) -> Answer:
    """A validation loss is negative or not finite."""
    losses = [float(e.facts["loss"]) for e in evidence.events if e.kind == "validation" and "loss" in e.facts]
    if not losses:
        return NotPossible(reason="the log has no validation loss")
    bad = next((loss for loss in losses if not math.isfinite(loss) or loss < 0), None)
    return f"a validation loss is {bad}" if bad is not None else None


def gradient_missing(evidence: Evidence) -> Answer:
    """A gradient norm that the format always prints is not there."""
    return _missing(evidence, "grad_norm", "gradient norm")


def gradient_zero(evidence: Evidence) -> Answer:
    """Every gradient norm is zero."""
    return _all_zero([step.grad_norm for step in evidence.steps], "gradient norm")


def gradient_last(evidence: Evidence) -> Answer:
    """The last gradient norm is NaN or infinite; no later loss would show it."""
    if _no_gradient(evidence):
        return NO_GRADIENT
    return Training(evidence.steps).last_gradient_not_finite


def gradient_not_finite(evidence: Evidence) -> Answer:
    """A gradient norm before the last is NaN or infinite."""
    if _no_gradient(evidence):
        return NO_GRADIENT
    bad = [s.number for s in evidence.steps if s.grad_norm is not None and not math.isfinite(s.grad_norm)]
    if not bad:
        return None
    return f"the gradient norm was not finite in {len(bad)} of {len(evidence.steps)} steps (first: {bad[0]})"


def gradient_negative(evidence: Evidence) -> Answer:
    """A gradient norm is below zero."""
    bad = next((step for step in evidence.steps if step.grad_norm is not None and step.grad_norm < 0), None)
    return f"the gradient norm is negative at step {bad.number} ({bad.grad_norm:g})" if bad else None


def rate_impossible(evidence: Evidence) -> Answer:
    """A learning rate is negative or not finite."""
    for step in evidence.steps:
        if step.learning_rate is not None and not 0 <= step.learning_rate < math.inf:
            return f"the learning rate is {step.learning_rate:g} at step {step.number}"
    return None


def rate_missing(evidence: Evidence) -> Answer:
    """A learning rate that the format always prints is not there."""
    return _missing(evidence, "learning_rate", "learning rate")


def rate_zero(evidence: Evidence) -> Answer:
    """Every learning rate is zero."""
    return _all_zero([step.learning_rate for step in evidence.steps], "learning rate")


def all_skipped(evidence: Evidence) -> Answer:
    """The optimizer skipped every step."""
    if _no_skips(evidence):
        return NO_SKIPS
    return Training(evidence.steps).all_steps_skipped


def some_skipped(evidence: Evidence) -> Answer:
    """The optimizer skipped steps."""
    if _no_skips(evidence):
        return NO_SKIPS
    skipped = [step.number for step in evidence.steps if step.skipped]
    if not skipped or len(skipped) == len(evidence.steps):
        return None
    return (
        f"the optimizer skipped {len(skipped)} of {len(evidence.steps)} steps (first: {skipped[0]}); "
        "they are not measured"
    )


def _no_gradient(evidence: Evidence) -> bool:
    return all(step.grad_norm is None for step in evidence.steps)


def _no_skips(evidence: Evidence) -> bool:
    return not evidence.printed("skipped") and not any(step.skipped for step in evidence.steps)


def _missing(evidence: Evidence, field: str, name: str) -> Answer:
    steps = [step for step in evidence.steps if not step.skipped]
    have = sum(1 for step in steps if getattr(step, field) is not None)
    if not evidence.printed(field):
        return None if have else NotPossible(reason=f"the format does not print the {name}")
    if have >= MOST * len(steps):
        return None
    if evidence.spec is None and not any(getattr(step, each) is not None for step in steps for each in ALWAYS):
        return NotPossible(reason="the log has nothing but the times of its steps")
    return f"{len(steps) - have} of {len(steps)} steps have no {name}, which this format always prints"


def _all_zero(values: Sequence[float | None], name: str) -> Answer:
    numbers = [value for value in values if value is not None]
    if not numbers:
        return NotPossible(reason=f"no step has a {name}")
    return f"the {name} is 0 in all of {len(numbers)} steps" if not any(numbers) else None


def _losses(steps: Sequence[Step]) -> list[float]:
    return [step.loss for step in steps if step.loss is not None]


CHECKS = (
    Check(
        "loss-missing", "The loss of each step, if the format always prints it.",
        "Fewer than 80 % of the steps have one: nothing shows that the model was trained.",
        "Look at the log: does another program write it, or is its format new?", "invalid", missing,
    ),
    Check(
        "loss-not-finite", "Every loss.", "A NaN or infinite loss: training diverged, or a kernel is broken.",
        "Repeat on other nodes; compare with bf16 or another image.", "invalid", not_finite,
    ),
    Check(
        "loss-negative", "Every loss.", "A cross entropy is never negative: the value is damaged or not a loss.",
        "Look at the line of that step in the log.", "invalid", negative,
    ),
    Check(
        "loss-zero", "Every loss, unless the data of the recipe makes it 0.",
        "The labels are masked or empty, or no batch was read.", "Check the data set and the loss mask.", "invalid",
        zero,
    ),
    Check(
        "loss-start",
        "The loss of the first step: from 0.95 to 1.12 times ln(vocabulary), and half of the logits' variance above "
        "it, which the recipe's width and initial weights (a standard deviation of at most 0.02) give.",
        "An untrained model knows nothing about the next token, so its loss is about ln(vocabulary). Another value "
        "means another vocabulary, loaded weights, or another loss.",
        "Compare the vocabulary and the checkpoint in the framework's final configuration.", "invalid", start,
    ),
    Check(
        "loss-constant", f"All losses, from {CONSTANT} steps on.", "A loss that never changes: no weight is updated.",
        "Check the learning rate and the optimizer.", "invalid", constant,
    ),
    Check(
        "loss-rising", f"The means of the first and the last quarter of the losses, from {FEW} steps on.",
        "The loss rises by more than 5 % and three standard errors: training diverges.",
        "Check the learning rate, the precision and the nodes.", "invalid", rising,
    ),
    Check(
        "loss-diverged", "Every loss.",
        f"A loss is at least {DIVERGED:g} times that of an untrained model (the first loss, or ln(vocabulary)).",
        "As for loss-rising.", "invalid", diverged,
    ),
    Check(
        "validation-loss", "The validation losses in the log.", "A validation loss is NaN, infinite or negative.",
        "As for loss-not-finite.", "invalid", validation,
    ),
    Check(
        "gradient-missing", "The gradient norm of each step, if the format always prints it.",
        "Fewer than 80 % of the steps have one.", "Check the version of the framework.", "warning", gradient_missing,
    ),
    Check(
        "gradient-zero", "All gradient norms.", "Every gradient is 0: the model does not learn.",
        "Check the data, the loss mask and frozen layers.", "invalid", gradient_zero,
    ),
    Check(
        "gradient-last", "The gradient norm of the last step.",
        "It is NaN or infinite, and no later loss would show it.", "As for loss-not-finite.", "invalid", gradient_last,
    ),
    Check(
        "gradient-not-finite", "All gradient norms.", "Some are NaN or infinite; the loss survived.",
        "Check the precision and the loss scale.", "warning", gradient_not_finite,
    ),
    Check(
        "gradient-negative", "Every gradient norm.", "A norm is never negative: the value is damaged or not a norm.",
        "Look at the line of that step in the log.", "invalid", gradient_negative,
    ),
    Check(
        "rate-impossible", "Every learning rate.", "It is negative, NaN or infinite: the weights go the wrong way.",
        "Check the schedule of the learning rate.", "invalid", rate_impossible,
    ),
    Check(
        "rate-missing", "The learning rate of each step, if the format always prints it.",
        "Fewer than 80 % of the steps have one.", "Check the version of the framework.", "warning", rate_missing,
    ),
    Check(
        "rate-zero", "All learning rates.", "Every learning rate is 0: no weight is updated.",
        "Check the schedule of the learning rate.", "invalid", rate_zero,
    ),
    Check(
        "all-skipped", "The steps that the optimizer skipped.", "It skipped all of them: nothing was trained.",
        "Check the loss scale and the gradients.", "invalid", all_skipped,
    ),
    Check(
        "some-skipped", "The steps that the optimizer skipped.", "They are left out of the measurement.",
        "A few at the start are usual with a dynamic loss scale; otherwise check the gradients.", "warning",
        some_skipped,
    ),
)  # fmt: skip
