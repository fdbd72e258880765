"""Checks of this machine and install just before the start of a run: GPUs, disk space, the checkpoint to load."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..catalog.hardware import detect
from ..catalog.workloads import CPU
from ..files import free_bytes
from ..model import Finding, RunSpec
from ..model.launch import LOCAL

if TYPE_CHECKING:
    from ..config.install import Install


def site_findings(spec: RunSpec, install: Install) -> list[Finding]:
    """Return every unmet precondition with its fix: GPUs, disk space for a checkpoint, a checkpoint to load."""
    return [*_gpus(spec), *_disk_space(spec, install), *_checkpoint(spec, install)]


def _gpus(spec: RunSpec) -> list[Finding]:
    """A run on this machine needs a GPU for each of its GPUs."""
    machine = detect()
    if spec.launcher != LOCAL or spec.gpu_type == CPU or machine is None or spec.gpus <= machine[1]:
        return []
    problem = f"the run needs {spec.gpus} GPUs, and this machine has {machine[1]} x {machine[0]}"
    fix = f"use --gpus {machine[1]}, or a launcher for several machines"
    return [Finding(rule="local_gpus", problem=problem, fix=fix)]


def _disk_space(spec: RunSpec, install: Install) -> list[Finding]:
    facts = spec.checkpoint_facts
    if not spec.checkpoint.save or facts is None:
        return []
    free = free_bytes(install.experiments(spec.folder))
    if free is None or free >= facts.size_gb * 1e9:
        return []
    problem = f"the checkpoint takes about {facts.size_gb:g} GB and {install.root} has {free / 1e9:.0f} GB free"
    return [Finding(rule="disk", problem=problem, fix="free space, or set LLMB_INSTALL to a larger file system")]


def _checkpoint(spec: RunSpec, install: Install) -> list[Finding]:
    if spec.checkpoint.load is None:
        return []
    folder = Path(spec.checkpoint.load)
    weights = folder / "weights"
    if not any(weights.glob("*.distcp")):
        inside = any(folder.glob("*.distcp"))
        fix = f"use its parent {folder.parent}" if inside else "use the folder that contains weights/*.distcp"
        problem = f"LOAD_CHECKPOINT_PATH={folder}: there is no checkpoint in {weights}"
        return [Finding(rule="checkpoint", problem=problem, fix=fix)]
    if not folder.resolve().is_relative_to(install.path.resolve()):
        problem = f"LOAD_CHECKPOINT_PATH={folder} is not under {install.root}"
        return [
            Finding(rule="checkpoint", problem=problem, fix="move it there, so that every node and container sees it")
        ]
    return []
