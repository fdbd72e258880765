"""The trace switch: from a launch to the same launch with NCCL told to log its calls. Pure."""

from __future__ import annotations

from llmbx.errors import did_you_mean
from llmbx.model import Finding, Launch, Phase, RunSpec

from .facts import SUBSYSTEMS
from .settings import TraceSettings, trace_settings

FOLDER = "nccl_trace"
"""Where the files of `file_per_rank` lie, relative to the run folder, which is where ranks start."""

FILE = f"{FOLDER}/nccl.%h.%p.log"
"""NCCL puts host and process id in place of %h and %p; nothing else is replaced."""

NOTE = b"nccl.HOST.PID.log is what NCCL logged in one process. Read them with: llmbx nccl .\n"

LINE_BYTES = 195
"""A collective's line, measured on the format with usual lengths of host name and addresses."""

LARGE = 1 << 30


def environment(trace: TraceSettings) -> dict[str, str]:
    """The variables that make NCCL log."""
    found = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": ",".join(trace.subsystems)}
    return {**found, "NCCL_DEBUG_FILE": FILE} if trace.trace_file_per_rank else found


def traced(trace: TraceSettings, launch: Launch) -> Launch:
    """The launch with its training phase traced: the last one that all ranks take part in.

    Without a file per rank the lines go into the run's log, as the recipes have it. Phases that only collect or
    convert a profile stay as they are.
    """
    variables = environment(trace)
    chosen = max((place for place, phase in enumerate(launch.phases) if phase.ranks == "all"), default=None)
    phases = tuple(_with(phase, variables) if place == chosen else phase for place, phase in enumerate(launch.phases))
    files = {**launch.files, f"{FOLDER}/README": NOTE} if trace.trace_file_per_rank else launch.files
    return launch.replace(phases=phases, files=files)


def _with(phase: Phase, variables: dict[str, str]) -> Phase:
    return phase.replace(env={**phase.env, **variables})


def expected_bytes(spec: RunSpec) -> int:
    """Roughly how large the trace becomes, from the calls that each kind of parallelism makes in a step.

    A layer and micro-batch makes about 8 calls for tensor parallelism, 4 for context and 4 per expert group and peer
    for expert parallelism; a micro-batch 4 per virtual stage for the pipeline; a step 4 per layer for its data.
    """
    p, layers = spec.parallelism, max(1, spec.model.layers // spec.parallelism.pp)
    layer = 8 * (p.tp > 1) + 4 * (p.cp > 1) + 4 * (p.ep or 1) * ((p.ep or 1) > 1)
    batch = layers * layer + 4 * (p.vp or 1) * (p.pp > 1)
    step = spec.gradient_accumulation * batch + 4 * layers * (spec.gpus > 1)
    return spec.gpus * spec.steps * step * LINE_BYTES


def advice(spec: RunSpec) -> list[Finding]:
    """What to know before the trace is started; only a subsystem that NCCL does not have stops the run."""
    size, found = expected_bytes(spec), _unknown(trace_settings(spec))
    if spec.gpu_type == "cpu":
        found.append(_warning("nothing uses NCCL on CPUs, so the trace will be empty", "trace a run on GPUs"))
    elif size > LARGE:
        found.append(
            _warning(
                f"the trace of {spec.steps} steps may take {size / 1e9:,.0f} GB",
                "--steps takes fewer",
            )
        )
    else:
        found.append(_warning("the trace can take more than 1 GB", "see that the run folder's disk has room"))
    return found


def _unknown(trace: TraceSettings) -> list[Finding]:
    names = [name for name in trace.subsystems if name.removeprefix("^") not in SUBSYSTEMS]
    fix = f"--trace-subsystems takes {', '.join(SUBSYSTEMS)}"
    return [
        Finding(rule="trace", problem=f"NCCL has no debug subsystem '{name}'{did_you_mean(name, SUBSYSTEMS)}", fix=fix)
        for name in names
    ]


def _warning(problem: str, fix: str) -> Finding:
    return Finding(rule="trace", problem=problem, fix=fix, warning=True)
