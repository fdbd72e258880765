"""The check of a run's nodes before its ranks start."""

from __future__ import annotations

from pathlib import PurePosixPath

from llmbx.api import GpuType, Launch, RunSpec, settings_of

from ..settings import AcceptSettings
from .checks import checks_for, configuration, program

NAME = "node-facts"
"""The folder in the run folder."""


def node_check(spec: RunSpec, launch: Launch) -> Launch.Companion:
    """The probe as a program that runs on each node, in the run's container, with the Python that the ranks have."""
    gpu_type = spec.gpu_type if spec.gpu_type in GpuType.builtin() else None
    checks = checks_for(spec.gpu_type, settings_of(spec, AcceptSettings).checks)
    config = configuration(
        [check for check in checks if check.fact != "clock.skew"],  # by the time of a call
        gpus=min(spec.gpus, spec.gpus_per_node),
        gpu_type=gpu_type,
        folders=["."],
    )
    words = [phase.argv[0] for phase in launch.phases]
    python = next((word for word in words if PurePosixPath(word).name.startswith("python")), "python3")
    return Launch.Companion(
        name=NAME,
        argv=(python, "-I", "-S", f"{NAME}/probe.py", f"@{NAME}/limits.json", "lines"),
        files={"probe.py": program().encode(), "limits.json": f"{config}\n".encode()},
        before=True,
    )
