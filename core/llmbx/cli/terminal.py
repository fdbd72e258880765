"""Format a result as text for the terminal."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Sequence
from pathlib import PurePath

from ..catalog.hardware import GpuType
from ..model import Reference, Result
from ..model.result import MeasureFacts, Timing
from ..phrases import format_number as number
from ..phrases import plural
from ..run.expectation import beside, sentence
from .progress import clock

WIDTH = 80
LABEL = 17

PATH = 70
"""Room for a path beside a short label."""


def render(
    result: Result, folder: str, reference: Reference | None = None, unlike: Sequence[str] = (),
    judged: str | None = None, next_step: str | None = None,
) -> str:  # fmt: skip
    """Format the result in lines of at most 80 columns; only paths and ids may be longer.

    The verdict comes first, then the figures, then the next step. `unlike` lists the differences between the run and
    the published `reference`; `judged` is the verdict against it.
    """
    lines = [*_headline(result, judged), ""]
    if result.cause:
        lines += entry("cause", result.cause)
    lines += _measured(result)
    if reference is not None:
        lines += entry("published", _published(result, reference, unlike, judged))
    if reference is None or unlike:
        lines += _expected(result)
    lines += [line for reason in _reasons(result) for line in entry("not comparable", reason)]
    lines += [line for warning in result.warnings for line in entry("warning", warning)]
    lines += [*entry("run", result.id or result.run_id, whole=True), *entry("files", folder, whole=True)]
    if next_step:
        lines += ["", *entry("next", next_step, whole=True)]
    return "\n".join(lines) + "\n"


def _headline(result: Result, judged: str | None) -> list[str]:
    """What was run and the verdict: status, validity of the data, stability, and against which figure."""
    w = result.workload
    where = f"{w.gpus} x {w.gpu_type}" if w.gpu_type != "cpu" else f"CPU, {plural(w.gpus, 'ranks')}"
    verdict = [_state(result)]
    if result.data_valid and result.stability.verdict is not None:
        verdict.append(result.stability.verdict)
    if w.size == "mini":
        verdict.append("a mini")
    elif not result.comparable and result.data_valid:
        verdict.append("not comparable")
    lines = textwrap.wrap(f"{w.name} {w.size} {w.dtype} on {where}: {', '.join(verdict)}", WIDTH)
    return [*lines, *(textwrap.wrap(judged, WIDTH) if judged else [])]


def _state(result: Result) -> str:
    """The status, and whether the measured data is valid."""
    state = result.status.replace("_", " ")
    if result.status == "completed":
        return "completed, valid" if result.data_valid else "completed, data not valid"
    return f"{state} after its last step, data valid" if result.data_valid else state


def _measured(result: Result) -> list[str]:
    time = result.step_time_s
    if time.mean is None:
        return entry(
            "measured", f"no steps in the window {result.window.policy or ''} ({result.steps_seen} steps seen)"
        )
    digits = 3 if time.mean >= 0.1 else 5
    spread = f" ± {time.std:.{digits}f}" if time.std is not None else ""
    lines = entry(
        "step time",
        f"{time.mean:.{digits}f} s{spread} (median {time.median:.{digits}f}, {plural(result.steps_measured, 'steps')}, "
        f"{result.window.first}-{result.window.last})",
    )
    if result.stability.verdict is not None:
        lines += entry("stability", f"{result.stability.verdict}: {result.stability.reason}")
    elif result.stability.reason is not None:
        lines += entry("stability", result.stability.reason)
    if result.tokens_per_s is not None:
        each = f", {result.tokens_per_s_per_gpu:,.0f} per {_unit(result)}" if (result.workload.gpus or 1) > 1 else ""
        lines += entry("throughput", f"{result.tokens_per_s:,.0f} tokens/s{each}")
    lines += _compute(result)
    for name, measure in result.measures.items():
        lines += entry(name.replace("_", " "), measure_text(measure))
    if result.loss.last is not None and result.loss.first is not None:
        lines += entry("loss", f"{result.loss.first:.3f} to {result.loss.last:.3f}")
    if result.peak_memory_gb is not None:
        lines += entry("peak memory", f"{result.peak_memory_gb:.1f} GB per {_unit(result)}")
    if result.phase_step_time_s:
        phases = ", ".join(f"{role} {seconds:.3f} s" for role, seconds in result.phase_step_time_s.items())
        lines += entry("by phase", f"{phases} per step")
    if result.timing.total_s is not None:
        lines += entry("wall time", _wall_time(result.timing))
    return lines


def measure_text(measure: MeasureFacts) -> str:
    """A measure in one line: of a count the rate first, of others mean and standard deviation."""
    if measure.mean is None:
        return "unknown: no measured step has a value"
    spread = f" ± {number(measure.std)}" if measure.std is not None else ""
    mean = f"{number(measure.mean)}{spread} {measure.unit}"
    if measure.per_second is None:
        return mean
    return f"{number(measure.per_second)} {measure.unit}/s ({mean} per step)"


def _unit(result: Result) -> str:
    return "rank" if result.workload.gpu_type == "cpu" else "GPU"


def _wall_time(timing: Timing) -> str:
    """Setup, queue and run together, and each of them."""
    parts = [("setup", timing.prepare_s), ("queue", timing.queue_s), ("run", timing.total_s)]
    long = [(name, time) for name, time in parts if time is not None and (time >= 1 or name == "run")]
    named = [*(long if len(long) > 1 else []), ("first step", timing.first_step_s)]
    shown = [f"{name} {clock(time)}" for name, time in named if time is not None]
    whole = clock(sum(time for _, time in long))
    return f"{whole} ({', '.join(shown)})" if shown else whole


def _hardware(result: Result) -> list[str]:
    """The MFU at the real clock, the energy, and the rank that the others wait for, as far as they are known."""
    lines, hardware, ranks = [], result.hardware, result.stragglers
    if hardware.mfu is not None:
        at = f"{hardware.clock_mhz:,.0f} MHz, where the peak is for {hardware.peak_clock_mhz:,.0f} MHz"
        lines += entry("MFU at clock", f"{100 * hardware.mfu:.2f} % ({at})")
    if hardware.joules_per_step is not None:
        rate = f", {hardware.tokens_per_joule:.3g} tokens/J" if hardware.tokens_per_joule is not None else ""
        lines += entry("energy", f"{hardware.joules_per_step:,.0f} J per step{rate}, {hardware.power_w:.0f} W per GPU")
    if ranks.slowest_rank is not None and ranks.lost_s_per_step is not None:
        where = f"rank {ranks.slowest_rank} on {ranks.slowest_node}"
        lines += entry("slowest rank", f"{where}: the others wait {ranks.lost_s_per_step:.3f} s longer per step")
    return lines


def _compute(result: Result) -> list[str]:
    lines = []
    tflops, mfu = result.tflops_per_gpu, result.mfu
    if tflops.mean is not None:
        how = "from the log" if tflops.source == "log" else "recomputed from step time and the FLOPs formula"
        figure = f"{tflops.mean:.1f}" if tflops.mean >= 10 else f"{tflops.mean:.3g}"
        lines += entry(f"TFLOP/s per {_unit(result)}", f"{figure} ({how})")
    if mfu.value is not None:
        peak = "an unknown peak" if mfu.peak_tflops is None else f"{mfu.peak_tflops:g}"
        named = f"{mfu.peak_name}; " if mfu.peak_name else ""
        lines += entry("MFU", f"{100 * mfu.value:.2f} % of {peak} ({named}{mfu.convention} attention)")
    elif mfu.peak_tflops is None:
        lines += entry("MFU", f"n/a ({_no_peak(result)})")
    lines += _hardware(result)
    if result.days_per_1t_tokens is not None and result.comparable:
        lines += entry("1T tokens", f"{result.days_per_1t_tokens:.2f} days")
    return lines


def _no_peak(result: Result) -> str:
    if result.workload.gpu_type == "cpu":
        return "no CPU peak configured"
    return GpuType.how_to_set_peak(result.workload.gpu_type or "?", result.workload.dtype or "?")


def _published(result: Result, reference: Reference, unlike: Sequence[str], judged: str | None) -> str:
    text = f"{reference.step_time_s:g} s per step" if reference.step_time_s else "no step time published"
    if unlike:
        text += f", not comparable with this run: {'; '.join(unlike)}"
    elif reference.step_time_s and result.step_time_s.mean and judged is None:
        slower = 100 * (result.step_time_s.mean / reference.step_time_s - 1)
        text += f"; this run is {abs(slower):.1f} % {'slower' if slower > 0 else 'faster'}"
    return f"{text} ({reference.source}{'; disputed: ' + reference.disputed if reference.disputed else ''})"


def _expected(result: Result) -> list[str]:
    """The prediction beside what was measured, of a run that no published figure is for."""
    prediction = sentence(result.expected)
    if prediction is None or not result.data_valid:
        return []
    return entry("expected", f"{prediction} ({beside(result)}a prediction, not a reference)")


def _reasons(result: Result) -> list[str]:
    return ["; ".join(result.not_comparable_because)] if result.not_comparable_because else []


def entry(label: str, text: str, whole: bool = False) -> list[str]:
    """The lines of a labelled text; `whole` keeps it in one line."""
    head = f"  {label:<{LABEL}}" if len(label) < LABEL else f"  {label} "
    if whole:
        return [head + text if len(head + text) <= WIDTH else f"  {label} {text}"]
    indent = " " * len(head)
    return textwrap.wrap(text, WIDTH, initial_indent=head, subsequent_indent=indent, break_on_hyphens=False)


def short_path(folder: str, home: str) -> str:
    """The folder of a run: whole if it has room, else a pattern that a shell expands to it.

    The timestamp names the run; the pattern leaves out as many of the names before it as necessary.
    """
    if len(folder) <= WIDTH - LABEL - 2:
        return folder
    path = PurePath(folder)
    if not path.parent.name.startswith(f"{path.name}_"):
        return _shell_path(folder, home)
    time = path.parent.name.removeprefix(path.name)
    patterns = [
        f"{_shell_path(str(above), home)}/{'*/' * stars}*{time}/*"
        for stars, above in enumerate(path.parents[2:5], start=1)
    ]
    return next((pattern for pattern in patterns if len(pattern) <= PATH), patterns[-1])


def _shell_path(path: str, home: str) -> str:
    """A path as a shell word, with `~` for the home folder."""
    if home not in ("", "/") and path.startswith(f"{home}/"):
        return f"~/{shlex.quote(path.removeprefix(f'{home}/'))}"
    return shlex.quote(path)
