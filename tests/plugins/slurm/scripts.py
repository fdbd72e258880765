"""Scripts of Slurm, as tests render and compare them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path

from llmbx.model import JOB_NAME, Launch, RunSpec, Wrapping
from llmbx_slurm.allocation import Allocation
from llmbx_slurm.inside import InsideLauncher
from llmbx_slurm.launcher import SlurmLauncher

from ...core.launchers.conftest import make_launch, make_spec, shell_phase
from ...core.launchers.scripts import IN_ADVANCE, RUN_DIR, pgle

PYXIS = Wrapping(
    launcher_flags=("--container-image=/install/images/a b.sqsh", "--container-env=NCCL_DEBUG,LLMBX_RANK", "--mpi=pmix")
)

NAMED = Wrapping(
    launcher_flags=("--container-image=/install/images/a.sqsh", f"--container-name={JOB_NAME}"),
    cleanup=("enroot", "remove", "--force", f"pyxis_{JOB_NAME}"),
)


def slurm(launch: Launch, spec: RunSpec | None = None, *wrappings: Wrapping, run_dir: Path = RUN_DIR) -> str:
    """Slurm's script."""
    wraps = wrappings or tuple(Wrapping() for _ in launch.phases)
    spec = spec or make_spec(gpus=launch.world_size, launcher="slurm")
    return SlurmLauncher().render(spec, launch, wraps, run_dir)


def inside(launch: Launch, spec: RunSpec, allocation: Allocation) -> str:
    """The script of a run inside an allocation."""
    return InsideLauncher(allocation).render(spec, launch, tuple(Wrapping() for _ in launch.phases), RUN_DIR)


WHOLES: dict[str, Callable[[], str]] = {
    "slurm-plain.sh": lambda: slurm(make_launch("echo hello", files={"spec.json": b"{}\n"})),
    "slurm-full.sh": lambda: slurm(
        make_launch(*pgle(), nodes=2, ranks=4, ranks_per_numa_node=2),
        make_spec(
            gpus=8, gpu_type="h100", mini=False, launcher="slurm", walltime_minutes=95, preflight=True, vboost=1,
            srun={"wait": "60"},
        ),
        *(NAMED for _ in range(3)),
        run_dir=IN_ADVANCE,
    ),
}  # fmt: skip
"""A script with one phase and nothing else, and one in a container, with a profiler, three phases and checked nodes.

Their golden files are wholes, which are read as programs; those of all other scripts keep only their own lines.
"""

OTHERS: dict[str, Callable[[], str]] = {
    "slurm-2-nodes-pyxis.sh": lambda: slurm(
        make_launch(shell_phase("work", env={"NCCL_DEBUG": "INFO"}), nodes=2, ranks=8, ranks_per_numa_node=4),
        make_spec(
            gpus=16, gpu_type="h100", mini=False, walltime_minutes=95, setup=("module load slurm-extras",),
            secrets=("HF_TOKEN",), srun={"wait": "60"},
            sbatch={
                "account": "bench", "partition": "gpu", "qos": "high", "reservation": "mine", "gpus-per-node": "8",
                "constraint": "gpu&memory", "nodelist": "node001,node002", "exclude": "node009", "segment": "16",
                "comment": "it's a \"test\" \\ #1", "cpus-per-task": "12",
            },
        ),
        PYXIS,
    ),
    "slurm-preflight.sh": lambda: slurm(
        make_launch(shell_phase("work", env={"HF_HOME": "/hf"}), nodes=2, ranks=8),
        make_spec(
            gpus=16, gpu_type="h100", mini=False, launcher="slurm",
            preflight=True, repositories=("meta-llama/Llama-3.1-8B",),
        ),
        PYXIS,
    ),
    "slurm-three-phases.sh": lambda: slurm(make_launch(*pgle(), nodes=2, ranks=1), make_spec(gpus=2, launcher="slurm")),
    "slurm-in-advance.sh": lambda: slurm(
        make_launch(*pgle(), nodes=2, ranks=1),
        make_spec(gpus=2, launcher="slurm", vboost=1, srun={"wait": "60"}),
        *(NAMED for _ in range(3)),
        run_dir=IN_ADVANCE,
    ),
    "slurm-inside.sh": lambda: inside(
        make_launch(shell_phase("work"), shell_phase("last", "last", ranks="first"), nodes=2, ranks=4),
        make_spec(gpus=8, sbatch={"account": "not here", "gpus-per-node": "4", "cpus-per-task": "2"}),
        Allocation("4711", ("n2", "n3"), 32, 16, overlap=True),
    ),
}  # fmt: skip


@functools.cache
def wholes() -> Mapping[str, str]:
    """The scripts whose golden files are wholes, by name."""
    return {name: render() for name, render in WHOLES.items()}
