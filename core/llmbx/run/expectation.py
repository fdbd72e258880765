"""What a run is expected to measure, before it starts: step time and memory by the plugins that predict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import LlmbxError
from ..model import Expected, Finding, Result, RunSpec

if TYPE_CHECKING:
    from ..config.install import Install
    from ..plugins.manager import Plugins

CPU = "cpu"


def expected(spec: RunSpec, plugins: Plugins, install: Install) -> Expected:
    """The prediction for this run: none for a mini or on a CPU. A plugin that fails is the reason of an unknown."""
    if spec.mini or spec.gpu_type == CPU:
        return Expected(unknown_because=f"nothing is predicted for a {'mini' if spec.mini else 'CPU'}")
    try:
        return plugins.predict_run(spec, install) or Expected(unknown_because="no installed plugin predicts this run")
    except LlmbxError as error:
        return Expected(unknown_because=str(error))


def memory_findings(spec: RunSpec, expected: Expected, gpu_gb: float | None) -> list[Finding]:
    """An error if even the lower end of the predicted memory is more than the GPU has, a warning if the value is.

    `gpu_gb` is the memory of the GPU type, None if it is unknown.
    """
    need = expected.memory_gb
    if spec.gpu_type == CPU or gpu_gb is None or need.value is None or need.low is None or need.value <= gpu_gb:
        return []
    impossible = need.low > gpu_gb
    what = f"the run needs about {need.text(0)} GB (predicted), and {spec.gpu_type} has {gpu_gb:.0f} GB"
    fix = "choose a size that `llmbx list --here` shows, shard more, or use a larger GPU type"
    return [Finding(rule="memory", problem=what, fix=fix, warning=not impossible)]


def sentence(expected: Expected, steps: int | None = None) -> str | None:
    """The prediction in one line, with the time of `steps` steps; None if neither time nor memory is known."""
    parts = []
    if expected.step_time_s.value is not None:
        parts.append(f"{expected.step_time_s.text()} s per step")
        if steps:
            parts[0] += f", {duration(steps * expected.step_time_s.value)} for {steps} steps"
    if expected.memory_gb.value is not None:
        parts.append(f"{expected.memory_gb.text(0)} GB per GPU")
    return "; ".join(parts) or None


def announced(expected: Expected, spec: RunSpec) -> str | None:
    """The line about the prediction before the start; None for minis and on a CPU, for which there is none."""
    text = sentence(expected, spec.steps)
    if text is not None:
        return f"expected: {text} (a prediction)"
    return None if spec.mini or spec.gpu_type == CPU else f"expected: unknown ({expected.unknown_because})"


def beside(result: Result) -> str:
    """How the measured step time stands to the predicted one, with a semicolon after it; empty without either."""
    measured, time = result.step_time_s.mean, result.expected.step_time_s
    if measured is None or time.value is None or time.low is None or time.high is None:
        return ""
    change = 100 * (measured / time.value - 1)
    where = "inside" if time.low <= measured <= time.high else "outside"
    return f"{abs(change):.1f} % {'slower' if change > 0 else 'faster'}, {where} the interval; "


def duration(seconds: float) -> str:
    """A time for people."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
