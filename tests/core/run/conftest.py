"""Fixtures: runs in a temporary install, whose plugins are stand-ins."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pluggy
import pytest

from llmbx import hookspecs
from llmbx.clock import boot_id
from llmbx.config.install import Install
from llmbx.launchers.supervisor import read_process
from llmbx.model import Job, Owner, RunSpec
from llmbx.plugins.manager import Plugins
from llmbx.record.folder import Run, claim_folder, new_record, write_record
from llmbx.run.pipeline import Runner

from .stand_ins import WHOLE_LOG, Bare, Cluster, Tools, Trainer, Watch

StoreRun = Callable[..., Run]

GONE = Owner(pid=2**22 + 1, started=1.0, host=platform.node())
"""A process that has ended: no system has a process of this number."""

ELSEWHERE = GONE.replace(host="another")
"""A process on another host, of which this host cannot say whether it is alive."""


def made_job(job_id: str) -> Job:
    """A job of the stand-in `Cluster`."""
    return Job(launcher="cluster", job_id=job_id, submitted=900.0)


@pytest.fixture
def trainer() -> Trainer:
    return Trainer()


@pytest.fixture
def profiler() -> Watch:
    return Watch()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def bare() -> Bare:
    return Bare()


def load_stand_ins(trainer: Trainer, profiler: Watch, cluster: Cluster, bare: Bare) -> Plugins:
    registry = pluggy.PluginManager("llmbx")
    registry.add_hookspecs(hookspecs)
    registry.register(trainer, name="toy")
    registry.register(profiler, name="watch")
    registry.register(Tools(cluster, bare), name="tools")
    return Plugins(registry, [])


@pytest.fixture
def plugins(trainer: Trainer, profiler: Watch, cluster: Cluster, bare: Bare) -> Plugins:
    return load_stand_ins(trainer, profiler, cluster, bare)


@pytest.fixture
def install(tmp_path: Path) -> Install:
    return Install(root=str(tmp_path / "install"), origin="test")


@pytest.fixture
def spec(make_spec: Callable[..., RunSpec]) -> RunSpec:
    """A run of 20 steps with the stand-ins."""
    return make_spec(launcher="cluster", runtime="bare")


@pytest.fixture
def store_run(install: Install, spec: RunSpec) -> StoreRun:
    """`store_run(log=..., job=..., **record)`: a run that another process has started, whose result is not written."""

    def store(log: str = WHOLE_LOG, job: str | None = "1", **members: Any) -> Run:
        members = {"spec": spec, "owner": GONE, "job": made_job(job) if job else None, **members}
        run_id, short_id, folder = claim_folder(install, members["spec"])
        record = new_record(run_id, id=short_id, command=("run",), spec=spec).replace(**members)
        write_record(folder, record)
        run = Run(folder=str(folder), record=record)
        if job:
            run.log.write_text(log)
        return run

    return store


@pytest.fixture
def runner(spec: RunSpec, plugins: Plugins, install: Install) -> Runner:
    """The plugins that `spec` uses."""
    record = new_record("run_1", spec, id="x1", command=("run",))
    return Runner.of(Run(folder="/nowhere", record=record), plugins, install)


@pytest.fixture
def living() -> Iterator[Owner]:
    """Another process of this host, which lives until the test ends."""
    with subprocess.Popen(["sleep", "600"]) as process:
        found = read_process(process.pid)
        assert found is not None
        yield Owner(pid=process.pid, started=0.0, host=platform.node(), ticks=found.start, boot_id=boot_id())
        process.kill()


@pytest.fixture
def as_stranger(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """`as_stranger()`: from then on this process is another user, who may write everywhere."""
    return lambda: monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)


@pytest.fixture
def as_reader(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """`as_reader()`: from then on the system denies this process to write anywhere."""
    access = os.access
    return lambda: monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and access(path, mode))


def files_of(run: Run) -> dict[str, bytes]:
    """Name and content of every file of a run."""
    return {str(path.relative_to(run.path)): path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
