"""How many ranks a node of each GPU type gets under Slurm, from every framework plugin alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from llmbx.catalog.hardware import GpuType
from llmbx.testing import render_spec, resolve_spec


def tasks(plugin: str, workload: str, gpu_type: str, environ: Mapping[str, str]) -> str:
    """The options of sbatch and srun that say how many ranks go where, for 16 GPUs."""
    spec = resolve_spec(workload, environ=environ, plugin=plugin, size="mini", dtype="bf16", gpu_type=gpu_type, gpus=16,
                        launcher="slurm", runtime="host")  # fmt: skip
    script = render_spec(spec).script
    header = re.findall(r"^#SBATCH (--n(?:odes|tasks)\S*)$", script, re.MULTILINE)
    started = re.findall(r"exec srun .*?(--nodes=\S+ --ntasks=\S+ --ntasks-per-node=\S+) --kill-on-bad-exit=1", script)
    return f"{' '.join(header)} | srun {' '.join(started)}"


def test_tasks_per_node(golden: Callable[[str, str], None]) -> None:
    """Eight on most systems, four on those with four GPUs a node; GPUS_PER_NODE says otherwise."""
    lines = []
    for plugin, workload in (("nemo", "llama3.1"), ("maxtext", "llama2")):
        for gpu_type in (name for name in GpuType.builtin() if name != "cpu"):
            for environ in ({}, {"GPUS_PER_NODE": "2"}):
                told = " GPUS_PER_NODE=2" if environ else ""
                lines.append(f"{plugin} {gpu_type}{told}: {tasks(plugin, workload, gpu_type, environ)}")
    golden("tasks-per-node.txt", "\n".join(lines) + "\n")
