"""py-spy as a profiler of llmbx: where the Python code of each rank spends its time."""

import json
import os
import shutil
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from llmbx.api import Check, Finding, Launch, Prefix, Profiler, RunSpec, Section, hookimpl, rank_numbers, settings_of

from .settings import PyspySettings
from .summary import EXPECTED, FOLDER, sections, summarize

LLMBX_API = (3, 0)

SCRIPT = f"{FOLDER}/sample.sh"
ON_HOST = ("host", "venv")
"""Runtimes that use the programs of this machine; a container has its own py-spy or none."""
SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")


@hookimpl
def register_settings() -> type[PyspySettings]:
    return PyspySettings


@hookimpl
def register_profiler() -> Profiler:
    return Profiler(disturbs="time")  # py-spy stops the program while it reads a stack


@hookimpl
def check_spec(spec: RunSpec) -> Sequence[Finding]:
    """Find a missing program, and a kernel that does not allow it to attach, before the run starts."""
    if spec.launcher != "local" or spec.runtime not in ON_HOST:
        return []
    command = settings_of(spec, PyspySettings).command
    if shutil.which(command) is None:
        fix = "pip install py-spy, or name the program with --pyspy-command"
        return [Finding(rule="pyspy", problem=f"{command} is not on PATH", fix=fix)]
    if SCOPE.is_file() and SCOPE.read_text(encoding="utf-8").strip() != "0" and os.getuid() != 0:
        problem = f"the kernel does not allow py-spy to attach to a rank ({SCOPE} is not 0)"
        return [Finding(rule="pyspy", problem=problem, fix="sysctl kernel.yama.ptrace_scope=0, or run as root")]
    return []


@hookimpl
def wrap_command(spec: RunSpec, launch: Launch) -> Launch:
    """Put the script before the last phase that all ranks run, and note which ranks have to write a profile."""
    settings = settings_of(spec, PyspySettings)
    trained = [phase for phase in launch.phases if phase.ranks == "all"][-1:]
    prefix = Prefix(argv=("/bin/sh", SCRIPT, settings.command, str(settings.rate)), ranks=settings.ranks)
    phases = tuple(
        phase.replace(prefixes=(*phase.prefixes, prefix)) if phase in trained else phase for phase in launch.phases
    )
    expected = rank_numbers(settings.ranks, launch.world_size)
    files = {SCRIPT: (resources.files(__package__) / "sample.sh").read_bytes(), EXPECTED: json.dumps(expected).encode()}
    return launch.replace(phases=phases, files={**launch.files, **files})


@hookimpl
def register_checks() -> Sequence[Check]:
    return [
        Check(
            id="profiles",
            reads="The samples of each rank.",
            means="A rank has no profile; or where its program spends its time.",
            do="See the log of py-spy.",
            effect="failed",
            test=lambda evidence: summarize(evidence.run_dir),
            reads_files=True,
        )
    ]


@hookimpl
def report_sections(spec: RunSpec, run_dir: Path) -> Sequence[Section]:
    return sections(run_dir)
