"""Does the window stand for the run, and is its figure possible at all?"""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.api import Answer, Check, Evidence, NotPossible, Step, median_of

APART = 0.12
"""Relative difference of the steps outside of the window from those in it, from which on they tell another story."""

WARM = 3
"""Number of first steps that are always slower."""

LEAST = 5
"""Number of steps on one side of the window that tell something."""

SHORTEST_S = 2e-5
"""A step launches some kernels, and each takes microseconds."""

FASTEST_TFLOPS = 1e5
"""TFLOP/s that no GPU reaches in any data type."""

FASTEST_CPU_TFLOPS = 1e3


def whole(evidence: Evidence) -> Answer:
    """The steps outside of the window take another time than those in it."""
    window = evidence.figures.window if evidence.figures is not None else None
    if window is None or not window.span or window.policy == "auto":
        return NotPossible(reason="the window is chosen from all steps, or nothing was measured")
    if evidence.figures is not None and evidence.figures.stability.verdict not in (None, "stable"):
        return NotPossible(reason="the window is not stable by itself")
    if evidence.spec is not None and (evidence.spec.profile is not None or evidence.spec.mini):
        return NotPossible(reason="profiles take time, and the steps of a mini are short and noisy")
    timed = [step for step in evidence.steps if step.time_s is not None and not step.skipped]
    inside = median_of(_times([step for step in timed if window.holds(step.number)]))
    sides = {
        "before": [step for step in timed[WARM:] if step.number < (window.first or 0)],
        "after": [step for step in timed if step.number > (window.last or 0)],
    }
    parts = []
    for where, steps in sides.items():
        outside = median_of(_slower(_times(steps), inside or 0.0))
        if len(steps) >= LEAST and inside and outside and abs(outside / inside - 1) > APART:
            parts.append(f"the steps {steps[0].number} to {steps[-1].number} {where} it take {outside:.4g} s")
    if not parts:
        return None
    return f"in the window a step takes {inside:.4g} s, but {' and '.join(parts)} (medians)"


def _slower(times: Sequence[float], usual: float) -> Sequence[float]:
    """The slower ones, if they are a third or more; else all times."""
    slow = [time for time in times if time > (1 + APART) * usual]
    return slow if len(slow) >= max(LEAST, len(times) / 3) else times


def _times(steps: Sequence[Step]) -> list[float]:
    return [step.time_s for step in steps if step.time_s is not None]


def impossible(evidence: Evidence) -> Answer:
    """A plugin answered with a number that cannot be true."""
    spec, figures = evidence.spec, evidence.figures
    sample = figures.flops_per_sample.causal if figures is not None else None
    if spec is not None and sample is not None and sample < spec.model.sequence_length:
        return f"{sample:.3g} FLOPs a sample are fewer than its {spec.model.sequence_length} tokens"
    return "; ".join(evidence.impossible) or None


def too_fast(evidence: Evidence) -> Answer:
    """A step is shorter, or computes more, than any machine."""
    figures = evidence.figures
    time = figures.step_time_s.mean if figures is not None else None
    if figures is None or time is None:
        return NotPossible(reason="nothing was measured")
    if time < SHORTEST_S:
        return f"a step takes {time:.3g} s, in which no training step can be started"
    spec, sample = evidence.spec, figures.flops_per_sample.causal
    if spec is None or not sample:
        return None
    rate = sample * spec.global_batch_size / (time * spec.gpus) / 1e12
    most = FASTEST_CPU_TFLOPS if spec.gpu_type == "cpu" else FASTEST_TFLOPS
    return f"{rate:.3g} TFLOP/s are more than any machine computes" if rate > most else None


CHECKS = (
    Check(
        "whole-run", f"The steps before the window (without the first {WARM}) and after it, {LEAST} or more.",
        f"Their median, or that of the slower third, is more than {100 * APART:g} % from the window's: the window does "
        "not stand for the run.", "Look at the steps; choose another --window, or find out what changed.", "warning",
        whole,
    ),
    Check(
        "plugin-value", "What the plugins answered.",
        "A number cannot be true (FLOPs below one a token, or no number): the other figures are not to be trusted.",
        "Report it to the author of the plugin (`llmbx plugins check`).", "invalid", impossible,
    ),
    Check(
        "too-fast", "The step time, and the FLOP/s of a GPU or a rank's CPU.",
        f"A step is shorter than {1e6 * SHORTEST_S:g} microseconds, or computes more than any machine: the time or the "
        "FLOPs are wrong.", "Check the unit of the times and the formula.", "invalid", too_fast,
    ),
)  # fmt: skip
