"""Settings of nsys: GPU counters, and the command that starts it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from llmbx.api import Finding, Option, RunSpec, Settings, settings_of

VARIABLE = "LLMBX_NSYS"
"""Environment variable with the nsys command, on this machine and for the ranks, if it is not on PATH."""

METRICS_VARIABLE = "ENABLE_GPU_METRICS"
"""The recipes' variable."""


class NsysSettings(Settings, frozen=True):
    """The table `[clusters.NAME.nsys]`."""

    plugin: ClassVar[str] = "nsys"
    synonyms: ClassVar[Mapping[str, str]] = {"nsys": "nsight nsight-systems"}

    gpu_metrics: Annotated[
        bool,
        Option(help="Sample GPU counters on one rank per node.", name="--gpu-metrics",
               variables=(METRICS_VARIABLE,)),
    ] = False  # fmt: skip
    command: Annotated[
        str | None,
        Option(help="nsys command, on this machine and for the ranks. [default: nsys on PATH]", name="",
               variables=(VARIABLE,)),
    ] = None  # fmt: skip

    @classmethod
    def unused(cls, spec: RunSpec) -> list[Finding]:
        """Return a warning if a variable requests GPU metrics, but nothing is profiled with nsys."""
        if not settings_of(spec, cls).gpu_metrics or spec.origins.get("nsys.gpu_metrics") != METRICS_VARIABLE:
            return []
        problem = f"{METRICS_VARIABLE} requests GPU metrics, but nothing is profiled with nsys"
        fix = "use --tool nsys, or unset it" if spec.profile else "add --profile, or unset it"
        return [Finding(rule="gpu_metrics", problem=problem, fix=fix, warning=True)]


def samples_gpus(spec: RunSpec) -> bool:
    """Whether the profile of the run includes GPU counters."""
    return spec.profile is not None and spec.gpu_type != "cpu" and settings_of(spec, NsysSettings).gpu_metrics


def tool_environ(spec: RunSpec, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return `environ` with the nsys command of the run's settings, unless `environ` names another one."""
    command = settings_of(spec, NsysSettings).command
    return environ if environ.get(VARIABLE) or not command else {**environ, VARIABLE: command}
