"""The distribution's Nsight Systems, unpacked once, and a run folder whose ranks are profiled with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from llmbx.launchers.shim import render_shim
from llmbx.model import Launch, ModelShape, Parallelism, Phase, ProfileSpec, RunSpec
from llmbx.run_files import RunFolder
from llmbx_profiling.nsys_wrap import wrap

from ...patience import PATIENCE_S
from .. import apt

HERE = Path(__file__).parent
SUITES = ("bookworm", "trixie")
"""Debian's releases with Nsight Systems 2022.4 and 2023.4: two schemas of the export."""

Profiled = Callable[..., Path]
Done = subprocess.CompletedProcess[str]


def files_below(folder: Path) -> list[Path]:
    """The files of a run; nsys removes its temporary folders some time after the run has ended."""
    return [file.path for file in RunFolder(path=folder).all_files()]


@pytest.fixture(autouse=True)
def one_at_a_time() -> Iterator[None]:
    """Test processes that run side by side take turns: the older nsys hangs beside another of itself."""
    with FileLock(Path(tempfile.gettempdir()) / f"llmbx-tests-nsys-{os.getuid()}.lock", timeout=1800):
        yield


@pytest.fixture(scope="session", params=SUITES)
def nsys(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The nsys command of one release."""
    return unpacked(request.param, tmp_path_factory)


@pytest.fixture(scope="session")
def one_nsys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The nsys command of the newer release, for what does not differ: the older one hangs beside another of itself."""
    return unpacked(SUITES[1], tmp_path_factory)


@pytest.fixture(scope="session")
def old_nsys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The nsys command of the older release."""
    return unpacked(SUITES[0], tmp_path_factory)


def unpacked(suite: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = os.environ.get("LLMBX_TEST_ROOT")
    folder = (Path(root) if root else tmp_path_factory.getbasetemp()) / f"nsys-{suite}"
    with apt.alone():
        if not folder.is_dir():
            subprocess.run([HERE / "install.sh", folder, suite], check=True)
    return folder / "usr" / "bin" / "nsys"


def until_nsys_stays(profile: Callable[[], Done]) -> Done:
    """The outcome of `profile()`, which is called again if nsys lost its agent, as it sometimes does on a busy machine.

    llmbx says so (`test_a_program_goes_on_without_an_nsys_that_loses_its_agent`), and nothing else is tried again.
    """
    for _ in range(2):
        done = profile()
        if "nsys ended before the program" not in done.stdout:
            return done
    return profile()


IMPORTER = "usr/lib/nsight-systems/host-linux-x64"
"""Folder of `QdstrmImporter` in an unpacked nsys."""


def without_importer(nsys: Path, folder: Path) -> Path:
    """The same nsys as an image may have it: without the part that makes a report of a stream."""
    prefix = nsys.parents[2]
    shutil.copytree(prefix, folder, symlinks=True, copy_function=os.link)
    (folder / "usr/lib/x86_64-linux-gnu/nsight-systems/host-linux-x64").unlink()
    shutil.rmtree(folder / IMPORTER)
    return folder / nsys.relative_to(prefix)


FAILING_IMPORTER = """#!/bin/sh
[ "$1" != --version ] || exec "$0.real" "$@"
echo try >> "$(dirname "$0")/tries"
if [ "$(wc -l < "$(dirname "$0")/tries")" -le FAILS ]; then
  echo "Import Failed with unexpected exception: /build/main.cpp(34): Throw in function Importer()" >&2
  echo "std::exception::what: RuntimeException" >&2
  exit 2
fi
exec "$0.real" "$@"
"""
"""Stands for nsys's importer on a busy machine, where about 1 of 600 imports fails and the next one succeeds."""


def with_failing_importer(nsys: Path, folder: Path, fails: int) -> Path:
    """The same nsys with an importer whose first `fails` imports fail."""
    prefix = nsys.parents[2]
    shutil.copytree(prefix, folder, symlinks=True, copy_function=os.link)
    importer = folder / IMPORTER / "QdstrmImporter"
    importer.rename(f"{importer}.real")
    importer.write_text(FAILING_IMPORTER.replace("FAILS", str(fails)))
    importer.chmod(0o755)
    return folder / nsys.relative_to(prefix)


@pytest.fixture
def profiled(make_spec: Callable[..., RunSpec], tmp_path: Path) -> Profiled:
    """`profiled(nsys, ranks=1, code=0, …)`: the folder of a run of ranks that train nothing, profiled with `nsys`.

    `during` is called with the folder while they run.
    """

    def run(
        nsys: Path, ranks: int = 1, code: int = 0, keep_secrets: bool = False,
        during: Callable[[Path], None] = lambda _: None, **env: str,
    ) -> Path:  # fmt: skip
        folder = tmp_path / "run"
        name = "{workload}-{size}_{job}_{node}_{local_rank}"
        profile = ProfileSpec(tool="nsys", start=45, stop=50, ranks="all", name=name, keep_secrets=keep_secrets)
        spec = make_spec(gpu_type="cpu", gpus=ranks, gpus_per_node=ranks, steps=60, profile=profile)
        phase = Phase(role="train", argv=(sys.executable, str(HERE / "steps.py"), "45", "50", "60"))
        plain = Launch(nodes=1, ranks_per_node=ranks, gpus_per_rank=0, phases=(phase,))
        launch = wrap(spec, plain, str(nsys))[0]
        shim = render_shim(launch.phases[0], launch).encode()
        for name, content in {**launch.files, "rank-train.sh": shim}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        started = [start_rank(folder, rank, ranks, env) for rank in range(ranks)]
        during(folder)
        ended = [(process.wait(timeout=PATIENCE_S), process) for process in started]
        assert {rc for rc, _ in ended} == {code}, (folder / "rank-0.log").read_text()
        return folder

    return run


def start_rank(folder: Path, rank: int, ranks: int, env: dict[str, str]) -> subprocess.Popen[bytes]:
    place = {"LLMBX_RANK": str(rank), "LLMBX_LOCAL_RANK": str(rank), "LLMBX_WORLD_SIZE": str(ranks)}
    temporary = folder / f"tmp-{rank}"
    temporary.mkdir()
    with (folder / f"rank-{rank}.log").open("wb") as log:
        return subprocess.Popen(
            ["/bin/sh", folder / "rank-train.sh"], env={**os.environ, **env, **place, "TMPDIR": str(temporary)},
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip


@pytest.fixture
def make_spec() -> Callable[..., RunSpec]:
    """`make_spec(**changes)`: a run of the CPU's size."""

    def make(**changes: object) -> RunSpec:
        shape = ModelShape(
            layers=1, hidden_size=8, ffn_hidden_size=8, heads=1, query_groups=1, vocab_size=8, sequence_length=8
        )
        values: dict[str, object] = {
            "plugin": "toy", "workload": "line", "folder": "fit_line", "size": "mini", "dtype": "fp32",
            "gpu_type": "cpu", "gpus": 1, "gpus_per_node": 1, "recipe": "plain", "driver": "python", "model": shape,
            "parallelism": Parallelism(), "micro_batch_size": 1, "global_batch_size": 1, "gradient_accumulation": 1,
            "steps": 60, "window": "auto", "runtime": "host", "launcher": "local",
        }  # fmt: skip
        return RunSpec(**{**values, **changes})  # type: ignore[arg-type]

    return make
