"""One real Slurm for the tests of this folder, and runs of tiny programs submitted to it."""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from llmbx.model import Job, JobStatus, Launch, ModelShape, Parallelism, Phase, RunSpec, Wrapping
from llmbx_slurm.launcher import SlurmLauncher

from ...patience import PATIENCE_S
from . import cluster

JOBS = 500
"""More jobs than a test process submits: the numbers of clusters that run side by side stay apart."""


@pytest.fixture(scope="session")
def slurm() -> Iterator[Any]:
    """A running Slurm (a `cluster.Cluster`); `SLURM_CONF` names it for as long as the tests run."""
    why = cluster.install()
    if why:
        if os.environ.get("CI"):
            pytest.fail(f"{why}; CI must run the Slurm tests")
        pytest.skip(why)
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    with tempfile.TemporaryDirectory(prefix="llmbx-slurm-") as folder, pytest.MonkeyPatch.context() as patch:
        private = cluster.Cluster(Path(folder), accounts=True, first_job=1 + JOBS * process)
        try:
            private.start()
            patch.setenv("SLURM_CONF", str(private.config))
            yield private
        finally:
            private.stop()


def make_spec(**changes: Any) -> RunSpec:
    """A small run on two nodes with two ranks each; `sbatch`, `srun`, `preflight`, `vboost`: settings of Slurm."""
    shape = ModelShape(
        layers=2, hidden_size=8, ffn_hidden_size=16, heads=2, query_groups=2, vocab_size=32, sequence_length=16
    )
    values: dict[str, Any] = {
        "plugin": "toy", "workload": "toy", "folder": "pretrain_toy", "size": "mini", "dtype": "bf16", "mini": True,
        "gpu_type": "cpu", "gpus": 4, "gpus_per_node": 2, "recipe": "toy", "driver": "toy", "model": shape,
        "parallelism": Parallelism(), "micro_batch_size": 1, "global_batch_size": 1, "gradient_accumulation": 1,
        "steps": 5, "window": "auto", "runtime": "host", "launcher": "slurm",
    }  # fmt: skip
    options = {key: changes.pop(key) for key in ("sbatch", "srun", "preflight", "vboost") if key in changes}
    if options:
        changes["plugin_settings"] = {"slurm": options}
    return RunSpec(**{**values, **changes})


def shell_phase(program: str, role: str = "train", **more: Any) -> Phase:
    """A phase whose ranks are a line of shell."""
    return Phase(role=role, argv=("/bin/sh", "-c", program), **more)


def make_launch(*phases: Phase | str, nodes: int = 2, ranks: int = 2, **more: Any) -> Launch:
    """A launch of these phases (a text is the program of a phase named train)."""
    made = tuple(shell_phase(phase) if isinstance(phase, str) else phase for phase in phases)
    return Launch(nodes=nodes, ranks_per_node=ranks, gpus_per_rank=0, phases=made, **more)


class SlurmRun:
    """One job in its run folder."""

    def __init__(self, folder: Path, launch: Launch, spec: RunSpec, wrappings: tuple[Wrapping, ...] | None) -> None:
        self.folder, self.launcher, self.spec = folder, SlurmLauncher(), spec
        wrappings = wrappings or tuple(Wrapping() for _ in launch.phases)
        self.script = folder / "run.sh"
        self.script.write_text(self.launcher.render(spec, launch, wrappings, folder))
        self.job: Job = self.launcher.submit(self.script, spec, folder)

    def status(self) -> JobStatus:
        """How it stands now."""
        return self.launcher.status(self.job, self.folder)

    def wait(self, *states: str, timeout_s: float = PATIENCE_S) -> JobStatus:
        """Wait for one of these states."""
        deadline = time.monotonic() + timeout_s
        while (status := self.status()).state not in states:
            assert time.monotonic() < deadline, f"still {status}: {self.batch}"
            time.sleep(0.2)
        return status

    def end(self, timeout_s: float = PATIENCE_S) -> JobStatus:
        """Wait for the end."""
        return self.wait("ended", "lost", timeout_s=timeout_s)

    def wait_for(self, text: str, timeout_s: float = PATIENCE_S) -> None:
        """Wait until the main log holds `text`."""
        deadline = time.monotonic() + timeout_s
        while text not in self.log:
            assert time.monotonic() < deadline, f"no {text!r} in {self.log!r}: {self.status()} {self.batch}"
            time.sleep(0.1)

    @property
    def log(self) -> str:
        """The main log."""
        path = self.folder / f"log-{self.spec.experiment}.out"
        return path.read_text() if path.is_file() else ""

    @property
    def batch(self) -> str:
        """What the job's script and srun said."""
        path = self.folder / f"sbatch_{self.spec.experiment}.out"
        return path.read_text() if path.is_file() else ""


@pytest.fixture
def submit(slurm: Any, tmp_path: Path) -> Iterator[Callable[..., SlurmRun]]:
    """`submit(launch, spec)` submits a real job; whatever is left of it at the end of the test is cancelled."""
    runs: list[SlurmRun] = []
    numbers = itertools.count()  # a submission that is refused leaves its folder, too

    def begin(launch: Launch, spec: RunSpec | None = None, wrappings: tuple[Wrapping, ...] | None = None) -> SlurmRun:
        folder = tmp_path / f"run {next(numbers)} %j"
        folder.mkdir()
        runs.append(SlurmRun(folder, launch, spec or make_spec(gpus=launch.world_size), wrappings))
        return runs[-1]

    yield begin
    for run in runs:
        run.launcher.cancel(run.job, run.folder)
