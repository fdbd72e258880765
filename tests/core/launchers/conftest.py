"""Fixtures: small shell programs run through the launchers, from a specification to the end of the job."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from llmbx.launchers.local import LocalLauncher
from llmbx.launchers.processes import look
from llmbx.model import Job, JobStatus, Launch, ModelShape, Parallelism, Phase, RunSpec, Wrapping

from ...patience import PATIENCE_S


def make_spec(**changes: Any) -> RunSpec:
    """A small run with the given changes; `sbatch`, `srun`, `preflight` and `vboost` are settings of Slurm."""
    shape = ModelShape(
        layers=2, hidden_size=8, ffn_hidden_size=16, heads=2, query_groups=2, vocab_size=32, sequence_length=16
    )
    values: dict[str, Any] = {
        "plugin": "toy", "workload": "toy", "folder": "pretrain_toy", "size": "mini", "dtype": "bf16", "mini": True,
        "gpu_type": "cpu", "gpus": 1, "gpus_per_node": 8, "recipe": "toy", "driver": "toy", "model": shape,
        "parallelism": Parallelism(), "micro_batch_size": 1, "global_batch_size": 1, "gradient_accumulation": 1,
        "steps": 5, "window": "auto", "runtime": "host", "launcher": "local",
    }  # fmt: skip
    options = {key: changes.pop(key) for key in ("sbatch", "srun", "preflight", "vboost") if key in changes}
    if options:
        changes["plugin_settings"] = {"slurm": options}
    return RunSpec(**{**values, **changes})


def shell_phase(program: str, role: str = "train", **more: Any) -> Phase:
    """A phase whose ranks are a line of shell."""
    return Phase(role=role, argv=("/bin/sh", "-c", program), **more)


def make_launch(*phases: Phase | str, ranks: int = 1, nodes: int = 1, **more: Any) -> Launch:
    """A launch of these phases (a text is the program of a phase named train)."""
    made = tuple(shell_phase(phase) if isinstance(phase, str) else phase for phase in phases)
    return Launch(nodes=nodes, ranks_per_node=ranks, gpus_per_rank=0, phases=made, **more)


class LocalRun:
    """One real local run in its folder."""

    def __init__(self, folder: Path, launch: Launch, spec: RunSpec, wrappings: tuple[Wrapping, ...] | None) -> None:
        self.folder, self.launcher, self.spec = folder, LocalLauncher(), spec
        wrappings = wrappings or tuple(Wrapping() for _ in launch.phases)
        self.script = folder / "run.sh"
        self.script.write_text(self.launcher.render(spec, launch, wrappings, folder))
        self.job: Job = self.launcher.submit(self.script, spec, folder)

    @property
    def pid(self) -> int:
        """The process id of the script."""
        return int(self.job.job_id.split("-")[0])

    def status(self) -> JobStatus:
        """The current status."""
        return self.launcher.status(self.job, self.folder)

    def end(self, timeout_s: float = PATIENCE_S) -> JobStatus:
        """Wait for the end."""
        deadline = time.monotonic() + timeout_s
        while (status := self.status()).state in ("pending", "running"):
            assert time.monotonic() < deadline, f"still {status}: {self.batch}"
            time.sleep(0.05)
        return status

    def wait_until_gone(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait until no process of the run is left."""
        deadline = time.monotonic() + timeout_s
        while left := look(self.job.job_id, self.folder).all:
            assert time.monotonic() < deadline, f"{left} are still there: {self.batch}"
            time.sleep(0.05)

    def wait_for(self, text: str, name: str | None = None, timeout_s: float = PATIENCE_S) -> None:
        """Wait until the main log (or the named file) contains `text`."""
        path = self.folder / (name or f"log-{self.spec.experiment}.out")
        deadline = time.monotonic() + timeout_s
        while not (path.is_file() and text in path.read_text()):
            assert time.monotonic() < deadline, f"no {text!r} in {path}: {self.batch}"
            time.sleep(0.05)

    @property
    def log(self) -> str:
        """The main log."""
        return (self.folder / f"log-{self.spec.experiment}.out").read_text()

    @property
    def batch(self) -> str:
        """The output of the script itself."""
        path = self.folder / f"sbatch_{self.spec.experiment}.out"
        return path.read_text() if path.is_file() else ""


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., LocalRun]]:
    """`start(launch)` starts a real local run; whatever is left of it at the end of the test is killed."""
    monkeypatch.setenv("LLMBX_STOP_GRACE_S", "2")
    runs: list[LocalRun] = []

    def begin(launch: Launch, spec: RunSpec | None = None, wrappings: tuple[Wrapping, ...] | None = None) -> LocalRun:
        folder = tmp_path / f"run {len(runs)}"
        folder.mkdir()
        runs.append(LocalRun(folder, launch, spec or make_spec(gpus=launch.world_size), wrappings))
        return runs[-1]

    yield begin
    for run in runs:
        run.launcher.cancel(run.job, run.folder)
