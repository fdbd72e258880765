"""Did it go on training? Change points of loss, gradient norm, learning rate and loss scale inside a run."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from llmbx.api import Answer, Check, Evidence, Finding, NotPossible, Step, mean_of, median_of

BY_CHANCE = 1e-4
"""Largest probability of a streak of equal values that a training shows by itself."""

SHORTEST = 6
"""Fewer equal values are no streak."""

SMALL_LOSS = 0.5
"""A loss below it may stay the same: its data is known by heart."""

CLIPPED = 1.0
"""The usual bound of the gradient norm: some programs print the norm after it."""

FEW = 12
"""Fewer steps show no change point of the loss."""

KNOWN = 0.5
"""A loss below this part of the first one may go up and down: the training knows its few samples by heart."""

SIDE = 5
"""Number of steps on each side of a change."""

SPIKE = 1.5
"""A loss from this multiple of its neighbours' median on is a spike, if it is `STEADY` times the usual change."""

EARLY = 8
"""Number of steps in which the loss of a healthy training may rise to several times its beginning."""

SPARSE_SPIKE = 3.0
"""The same in a log without the line of every step, which real trainings of thousands of steps have."""

JUMP = 0.12
"""Relative size of a step of the loss that stays."""

STEADY = 8.0
"""Smallest ratio of a spike or jump to the usual change from step to step."""

SCATTER = 0.02
"""Mean rise of the loss from step to step, falls counted as 0, that no training shows over `MANY` steps."""

MANY = 40
"""Fewer steps may scatter at the start."""

FAR = 1e3
"""A gradient norm of this multiple of the first third's median explodes."""

PART = 0.2
"""Share of the steps from which on a fault of single steps is one of the training."""

LEAST_RATE = 1e-12
"""A smaller learning rate changes no weight, in any data type."""

RATE_JUMP = 50.0
"""Ratio of two learning rates in a row that no schedule has."""

HALVINGS = 5
"""So many halvings of the loss scale in a row are not the search for its size at the start."""
COLLAPSE = 1000.0
"""A loss scale that falls by this factor in one step was not halved by the search for its size."""


def frozen(evidence: Evidence) -> Answer:
    """From some step on, the loss stays the same."""
    found = _frozen([(s.number, s.loss) for s in evidence.steps if s.loss is not None and s.loss >= SMALL_LOSS])
    if found is None:
        return None
    first, last, value = found
    return f"the loss is {value:g} in all of the steps {first} to {last}, and changed before or after"


def gradient_frozen(evidence: Evidence) -> Answer:
    """The gradient norm stays the same, in all steps or from some step on."""
    norms = [(s.number, s.grad_norm) for s in evidence.steps if s.grad_norm]
    if not norms:
        return NotPossible(reason="no step has a gradient norm above 0")
    values = {norm for _, norm in norms}
    if len(norms) >= FEW and len(values) == 1 and (_digits(norms[0][1]) >= 3 or norms[0][1] == CLIPPED):
        text = f"the gradient norm is {norms[0][1]:g} in all of {len(norms)} steps"
        return (Finding(rule="gradient-frozen", problem=text, fix="check what the framework prints", warning=True),)
    found = _frozen(norms)
    if found is None or _digits(found[2]) < 3:
        return None
    first, last, value = found
    return f"the gradient norm is {value:g} in all of the steps {first} to {last}, and changed before or after"


def repeated(evidence: Evidence) -> Answer:
    """Every loss is there twice, or the same losses come again and again."""
    losses = [step.loss for step in evidence.steps if step.loss is not None]
    for start in (0, 1):
        pairs = [*zip(losses[start::2], losses[start + 1 :: 2], strict=False)]
        different = sum(a != b for (_, a), (b, _) in pairwise(pairs))
        if len(pairs) >= FEW and all(a == b for a, b in pairs) and different >= 0.8 * len(pairs):
            return "every loss is there twice in a row: a batch is trained twice, or every second step is not one"
    period = period_of(losses) if min(losses, default=0.0) >= SMALL_LOSS else None
    return f"the losses of {period} steps come again and again: they are not computed" if period else None


def period_of(values: Sequence[float]) -> int | None:
    """The number of values after which a series that changes repeats itself exactly, three times or more."""
    for period in range(2, len(values) // 3 + 1):
        if len(values) >= FEW and all(a == b for a, b in zip(values, values[period:], strict=False)):
            return period if len(set(values)) > 1 else None
    return None


def spike(evidence: Evidence) -> Answer:
    """The loss of single steps is far above that of their neighbours."""
    least = SPIKE if evidence.interval == 1 else SPARSE_SPIKE
    return _by_place(evidence, functools.partial(_spikes, least))


def _spikes(least: float, steps: Sequence[Step], losses: Sequence[float]) -> str | None:
    usual = median_of([abs(b - a) for a, b in pairwise(losses)]) or 0.0
    odd = []
    for place in range(EARLY, len(losses)):
        before = median_of(losses[max(0, place - SIDE) : place]) or 0.0
        after = min(losses[place + 1 : place + 1 + SIDE], default=before)
        level = max(before, after)
        if level > KNOWN * losses[0] and losses[place] > max(least * level, level + STEADY * usual):
            odd.append(place)
    if not odd:
        return None
    worst = max(odd, key=lambda place: losses[place])
    more = f", and {len(odd) - 1} more steps" if len(odd) > 1 else ""
    before = median_of(losses[max(0, worst - SIDE) : worst]) or 0.0
    return f"the loss of step {steps[worst].number} is {losses[worst]:.4g}, after {before:.4g}{more}"


def jump(evidence: Evidence) -> Answer:
    """The loss jumps to another level."""
    return _by_place(evidence, _jumps)


def _jumps(steps: Sequence[Step], losses: Sequence[float]) -> str | None:
    for place in range(SIDE, len(losses) - SIDE + 1):
        before, after = losses[place - SIDE : place], losses[place : place + SIDE]
        change = losses[place] - losses[place - 1]
        usual = max(abs(b - a) for side in (before, after) for a, b in pairwise(side))
        level = abs((median_of(after) or 0.0) - (median_of(before) or 0.0))
        large = max(JUMP * losses[place - 1], STEADY * usual, KNOWN * JUMP * losses[0])
        if abs(change) > large and level > abs(change) / 2:
            where = f"from step {steps[place - 1].number} to step {steps[place].number}"
            return f"the loss changes from {losses[place - 1]:.4g} to {losses[place]:.4g} {where}, and stays there"
    return None


def scatter(evidence: Evidence) -> Answer:
    """The loss goes up and down from step to step."""
    if evidence.interval > 1 or len(evidence.steps) < MANY:
        return NotPossible(reason=f"the log does not have {MANY} steps one after the other")
    return _by_place(evidence, _scatters)


def _scatters(steps: Sequence[Step], losses: Sequence[float]) -> str | None:
    half = len(losses) // 2
    for begin in (0, half):
        part = losses[begin : begin + half]
        rises = sorted(max(0.0, after / before - 1) for before, after in pairwise(part) if before > 0)
        mean = mean_of(rises[:-2]) or 0.0  # single ones are spikes
        if mean > SCATTER and (median_of(part) or 0.0) > KNOWN * losses[0]:
            where = f"from step {steps[begin].number} to step {steps[begin + half - 1].number}"
            return f"the loss goes up and down: it rises by {100 * mean:.1f} % a step, and falls again ({where})"
    return None


def _by_place(evidence: Evidence, rule: Callable[[Sequence[Step], Sequence[float]], str | None]) -> Answer:
    steps = [step for step in evidence.steps if step.loss is not None and math.isfinite(step.loss)]
    losses = [step.loss or 0.0 for step in steps]
    if len(steps) < FEW:
        return NotPossible(reason=f"fewer than {FEW} steps have a loss")
    if steps[0].number > evidence.interval:
        return NotPossible(reason="the log does not have the first steps, so the loss at the beginning is not known")
    return rule(steps, losses)


def rate_stops(evidence: Evidence) -> Answer:
    """The learning rate becomes 0."""
    rates = [(s.number, s.learning_rate) for s in evidence.steps if s.learning_rate is not None]
    begun = next((place for place, (_, rate) in enumerate(rates) if rate), None)
    if begun is None:
        return NotPossible(reason="no step has a learning rate above 0")
    zeros = [number for number, rate in rates[begun:] if rate == 0]
    if len(zeros) < 2:  # a schedule may end with 0
        return None
    return _of_training("rate-stops", "the learning rate is 0", zeros, rates, "check the schedule", share=0.3)


def rate_odd(evidence: Evidence) -> Answer:
    """The learning rate jumps, or is too small for any weight."""
    rates = [(s.number, s.learning_rate) for s in evidence.steps if s.learning_rate]
    if not rates:
        return NotPossible(reason="no step has a learning rate above 0")
    if max(rate for _, rate in rates) < LEAST_RATE:
        return f"the learning rate is at most {max(rate for _, rate in rates):g}: no weight changes"
    for (_, before), (number, after) in pairwise(rates):
        if max(after / before, before / after) > RATE_JUMP:
            return f"the learning rate changes from {before:g} to {after:g} at step {number}"
    return None


def gradient_stops(evidence: Evidence) -> Answer:
    """The gradient norm becomes 0."""
    norms = [(s.number, s.grad_norm) for s in evidence.steps if s.grad_norm is not None and not s.skipped]
    zeros = [number for number, norm in norms if norm == 0]
    if len(zeros) < 2 or len(zeros) == len(norms):
        return None
    if evidence.prints is not None and evidence.prints.zero_loss and not (evidence.steps[-1].loss or 0.0):
        return NotPossible(reason="the loss of this data may be 0, and its gradient with it")
    return _of_training("gradient-stops", "the gradient norm is 0", zeros, norms, "check the data and the loss mask")


def gradient_explodes(evidence: Evidence) -> Answer:
    """The gradient norm becomes a thousand times as large."""
    norms = [(s.number, s.grad_norm) for s in evidence.steps if s.grad_norm and math.isfinite(s.grad_norm)]
    if len(norms) < FEW:
        return NotPossible(reason=f"fewer than {FEW} steps have a gradient norm above 0")
    usual = median_of([norm for _, norm in norms[: len(norms) // 3]]) or 0.0
    large = [number for number, norm in norms if norm > FAR * usual]
    if not large:
        return None
    what = f"the gradient norm is over {FAR:g} times that of the first steps ({usual:.3g})"
    return _of_training("gradient-explodes", what, large, norms, "check the precision and the nodes")


def _of_training(
    rule: str, what: str, numbers: Sequence[int], values: Sequence[object], fix: str, share: float = PART
) -> tuple[Finding, ...]:
    """A finding about steps, which is a warning unless they are a large part of the training."""
    text = f"{what} in {len(numbers)} of {len(values)} steps (first: {numbers[0]})"
    return (Finding(rule=rule, problem=text, fix=fix, warning=len(numbers) < share * len(values)),)


def scale(evidence: Evidence) -> Answer:
    """The loss scale becomes 0, or falls without an end."""
    scales = [(s.number, s.loss_scale) for s in evidence.steps if s.loss_scale is not None]
    if not scales:
        return NotPossible(reason="no step has a loss scale")
    zero = next((number for number, value in scales if value <= 0), None)
    if zero is not None:
        text = f"the loss scale is 0 from step {zero} on: every gradient is 0"
        return (Finding(rule="loss-scale", problem=text, fix="check the precision", warning=False),)
    later = scales[len(scales) // 5 :]
    falls = 0
    for (_, before), (number, after) in pairwise(later):
        if after <= before / COLLAPSE:
            text = f"the loss scale falls from {before:g} to {after:g} at step {number}"
            return (Finding(rule="loss-scale", problem=text, fix="check the precision", warning=True),)
        falls = falls + 1 if after <= before / 2 else 0
        if falls >= HALVINGS:
            text = f"the loss scale falls {falls} times in a row, to {after:g} at step {number}"
            return (Finding(rule="loss-scale", problem=text, fix="check for gradients that overflow", warning=True),)
    return None


def mostly_skipped(evidence: Evidence) -> Answer:
    """The optimizer skipped most steps."""
    if not evidence.printed("skipped"):
        return NotPossible(reason="the format does not print skipped steps")
    skipped = sum(step.skipped for step in evidence.steps)
    if skipped == len(evidence.steps) or 2 * skipped <= len(evidence.steps):
        return None
    return f"the optimizer skipped {skipped} of {len(evidence.steps)} steps: a step without it is a shorter one"


def validation_high(evidence: Evidence) -> Answer:
    """A validation loss is far above that of an untrained model."""
    losses = [float(e.facts["loss"]) for e in evidence.events if e.kind == "validation" and "loss" in e.facts]
    first = evidence.steps[0].loss
    if not losses or not first or not math.isfinite(first):
        return NotPossible(reason="the log has no validation loss, or no loss of its first step")
    worst = max((loss for loss in losses if math.isfinite(loss)), default=0.0)
    return f"a validation loss is {worst:.4g}; the training began with {first:.4g}" if worst > SPIKE * first else None


def _frozen(values: Sequence[tuple[int, float]]) -> tuple[int, int, float] | None:
    """The longest streak of one value in a series that usually changes: first and last number, and value."""
    if len(values) < FEW or len({value for _, value in values}) == 1:
        return None
    first, last = max(_streaks([value for _, value in values]), key=lambda streak: streak[1] - streak[0])
    length = last - first + 1
    outside = [*values[: first + 1], *values[last:]]
    pairs = [*pairwise(outside)]
    equal = sum(a[1] == b[1] for a, b in pairs)
    chance = (equal + 1) / (len(pairs) + 2)
    if length < SHORTEST or len(values) * chance ** (length - 1) > BY_CHANCE:
        return None
    return values[first][0], values[last][0], values[first][1]


def _streaks(values: Sequence[float]) -> Iterator[tuple[int, int]]:
    """The places of the first and the last value of each streak of equal values."""
    first = 0
    for place in range(1, len(values) + 1):
        if place == len(values) or values[place] != values[first]:
            yield first, place - 1
            first = place


def _digits(value: float) -> int:
    """The number of significant digits with which a value is printed, as far as they are not 0."""
    return len(f"{value:.6g}".partition("e")[0].replace(".", "").strip("0"))


CHECKS = (
    Check(
        "loss-frozen", f"The longest streak of equal losses, if the loss is above {SMALL_LOSS:g}.",
        "The loss changed from step to step, and then stays the same for longer than chance explains: no weight is "
        "updated, or the loss is not computed any more.", "Look at the log where it begins.", "invalid", frozen,
    ),
    Check(
        "loss-twice", "Losses in pairs, and losses that come again after some steps.",
        "Every loss is there twice in a row, or the same losses come again and again: no weight changes between them.",
        "Check the data loader and the accumulation of gradients.", "warning", repeated,
    ),
    Check(
        "loss-spike", "Every loss, and the five before and after it.",
        f"A loss is at least {SPIKE:g} times that of its neighbours ({SPARSE_SPIKE:g} in a log without every step), "
        f"and {STEADY:g} times the usual change above it.",
        "A damaged batch, or a rank that computes wrongly: repeat on other nodes.", "warning", spike,
    ),
    Check(
        "loss-jump", "The losses of five steps before and after each step.",
        f"The loss changes by more than {100 * JUMP:g} % and {STEADY:g} times the usual change, and stays there: other "
        "data, another mask, or weights that were set back.", "Look at the log at that step.", "warning", jump,
    ),
    Check(
        "loss-scatter", f"The rises of the loss from step to step, in each half of a training of {MANY} steps or more.",
        f"It rises by more than {100 * SCATTER:g} % a step in the mean, and falls again: single batches are far from "
        "the others, or the ranks do not train one model.", "Compare the ranks' losses.", "warning", scatter,
    ),
    Check(
        "validation-high", "The validation losses in the log.",
        f"One is more than {SPIKE:g} times the first loss of the training: not the trained model was validated.",
        "Check the validation data and the loaded weights.", "warning", validation_high,
    ),
    Check(
        "gradient-frozen", "The longest streak of equal gradient norms, of three digits or more.",
        "The gradient norm stays the same for longer than chance explains: it is not computed any more. If it is the "
        "same in all steps, it may be one that the framework does not compute (a warning).",
        "Look at the log where it begins.", "invalid", gradient_frozen,
    ),
    Check(
        "gradient-stops", "Gradient norms of 0 beside others.",
        "Two or more are 0 (a warning), or a fifth of all: the training stopped there.",
        "Check the data, the loss mask and the loss scale.", "invalid", gradient_stops,
    ),
    Check(
        "gradient-explodes", "The gradient norms, and the median of the first third.",
        "One is a thousand times as large (a warning), or a fifth of all: the training diverges.",
        "Check the precision and the nodes.", "invalid", gradient_explodes,
    ),
    Check(
        "rate-stops", "Learning rates of 0 after others.",
        "Two or more are 0 (a warning), or 30 % of all: no weight is updated there.",
        "Check the schedule of the learning rate.", "invalid", rate_stops,
    ),
    Check(
        "rate-odd", "The learning rates of neighbouring steps.",
        f"A learning rate is {RATE_JUMP:g} times that of the step before, or all are too small to change a weight.",
        "Check the schedule of the learning rate.", "warning", rate_odd,
    ),
    Check(
        "loss-scale", "The loss scale of each step.",
        "It is 0, and every gradient with it; or it falls several times in a row, or to a thousandth "
        "at once, after the first fifth (a warning).",
        "Check the precision.", "invalid", scale,
    ),
    Check(
        "mostly-skipped", "The steps that the optimizer skipped.",
        "It skipped more than half: the time of a step without it is not that of a step.",
        "Check the loss scale and the gradients.", "not comparable", mostly_skipped,
    ),
)  # fmt: skip
