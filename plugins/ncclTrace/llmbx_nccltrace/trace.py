"""Enable NCCL logging in a launch, and check the settings of the trace. Pure."""

from __future__ import annotations

from llmbx.api import Finding, Launch, RunSpec, did_you_mean, settings_of

from .definitions import SUBSYSTEMS
from .settings import TraceSettings

FOLDER = "nccl_trace"
"""Folder of the files of `trace_file_per_rank`, relative to the run folder, the working directory of the ranks."""

FILE = f"{FOLDER}/nccl.%h.%p.log"
"""NCCL replaces %h with the host and %p with the process id, and nothing else."""

README = b"nccl.HOST.PID.log is the NCCL log of one process. To analyze all of them: llmbx nccl .\n"

LINE_BYTES = 195
"""Bytes of a collective's line, measured on the format with typical lengths of host name and addresses."""

LARGE = 1 << 30


def environment(trace: TraceSettings) -> dict[str, str]:
    """Return the environment variables that enable NCCL logging."""
    variables = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": ",".join(trace.subsystems)}
    return {**variables, "NCCL_DEBUG_FILE": FILE} if trace.trace_file_per_rank else variables


def enable_tracing(trace: TraceSettings, launch: Launch) -> Launch:
    """Return the launch with tracing enabled in its training phase, the last phase that runs on all ranks.

    Without `trace_file_per_rank`, the lines go to the run's log, as in the recipes. Phases that only collect or convert
    a profile are unchanged.
    """
    variables = environment(trace)
    chosen = max((index for index, phase in enumerate(launch.phases) if phase.ranks == "all"), default=None)
    phases = tuple(
        phase.replace(env={**phase.env, **variables}) if index == chosen else phase
        for index, phase in enumerate(launch.phases)
    )
    files = {**launch.files, f"{FOLDER}/README": README} if trace.trace_file_per_rank else launch.files
    return launch.replace(phases=phases, files=files)


def expected_bytes(spec: RunSpec) -> int:
    """Estimate the size of the trace in bytes from the calls that each kind of parallelism makes per step.

    Per layer and micro-batch: about 8 calls for tensor parallelism, 4 for context parallelism, and 4 per expert group
    and peer for expert parallelism. Per micro-batch: 4 per virtual pipeline stage. Per step: 4 per layer for data
    parallelism.
    """
    p, layers = spec.parallelism, max(1, spec.model.layers // spec.parallelism.pp)
    layer = 8 * (p.tp > 1) + 4 * (p.cp > 1) + 4 * (p.ep or 1) * ((p.ep or 1) > 1)
    batch = layers * layer + 4 * (p.vp or 1) * (p.pp > 1)
    step = spec.gradient_accumulation * batch + 4 * layers * (spec.gpus > 1)
    return spec.gpus * spec.steps * step * LINE_BYTES


def check_trace(spec: RunSpec) -> list[Finding]:
    """Return warnings about the size of the trace, and an error for each unknown NCCL subsystem."""
    size, findings = expected_bytes(spec), _unknown(settings_of(spec, TraceSettings))
    if spec.gpu_type == "cpu":
        findings.append(_warning("NCCL is not used on CPUs, so the trace will be empty", "trace a run on GPUs"))
    elif size > LARGE:
        findings.append(
            _warning(
                f"the trace of {spec.steps} steps may take {size / 1e9:,.0f} GB",
                "use --steps to trace fewer",
            )
        )
    else:
        findings.append(
            _warning("the trace can take more than 1 GB", "check the free space on the disk of the run folder")
        )
    return findings


def _unknown(trace: TraceSettings) -> list[Finding]:
    names = [name for name in trace.subsystems if name.removeprefix("^") not in SUBSYSTEMS]
    fix = f"valid values of --trace-subsystems: {', '.join(SUBSYSTEMS)}"
    return [
        Finding(rule="trace", problem=f"NCCL has no debug subsystem '{name}'{did_you_mean(name, SUBSYSTEMS)}", fix=fix)
        for name in names
    ]


def _warning(problem: str, fix: str) -> Finding:
    return Finding(rule="trace", problem=problem, fix=fix, warning=True)
