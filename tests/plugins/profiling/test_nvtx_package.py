"""The package nvtx: every shipped environment has a suitable one, and a run without it names it as the cause."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.api import Launch, Phase, ProfileSpec, RunSpec, load_environment
from llmbx_environments.lock_file import Pin, files_of
from llmbx_profiling.analysis.model import Analysis, Rank
from llmbx_profiling.collect import collect
from llmbx_profiling.nsys_wrap import wrap
from llmbx_profiling.nvtx_package import is_suitable
from llmbx_profiling.post_run import check_ranges

LOCKS = sorted(Path(__file__).parents[3].glob("plugins/*/llmbx_*/environments/*.toml"))
assert LOCKS
INSTALL = "/env/python -m pip install 'nvtx>=0.2.8,<0.2.12'"
RunDir = Callable[..., Path]


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_a_shipped_environment_has_an_nvtx_whose_ranges_every_nsys_records(path: Path) -> None:
    lock = load_environment(path, whole=True)
    pins = [Pin.of(pin) for step in (*lock.steps, *lock.platforms.values()) for pin in step]
    versions = [version for name, version in pins if name == "nvtx"]
    assert len(versions) == 1 and is_suitable(versions[0]), versions
    files = files_of(lock, f"nvtx=={versions[0]}")
    for machine in (platform.removeprefix("linux-") for platform in lock.platforms):
        for python in lock.pythons:
            tag = f"cp{python.replace('.', '')}"
            assert any(tag in name and machine in name for name in files), (python, machine)


@pytest.mark.parametrize(
    ("version", "suitable"),
    [("0.2.7", False), ("0.2.8", True), ("0.2.11", True), ("0.2.12", False), ("0.2.17", False), ("0.3.0", False),
     ("unknown", True)],
)  # fmt: skip
def test_the_versions_whose_ranges_every_nsys_records(version: str, suitable: bool) -> None:
    assert is_suitable(version) == suitable


@pytest.fixture
def run_dir(make_spec: Callable[..., RunSpec], tmp_path: Path) -> RunDir:
    """`run_dir("cpu", {0: None})`: the folder of a run of two ranks without profiles, and the nvtx that ranks named."""

    def make(gpu_type: str, versions: dict[int, object]) -> Path:
        spec = make_spec(gpu_type=gpu_type, profile=ProfileSpec(tool="nsys", start=4, stop=6, ranks="all"))
        plain = Launch(nodes=1, ranks_per_node=2, gpus_per_rank=0, phases=(Phase(role="train", argv=("x",)),))
        files = wrap(spec, plain)[0].files
        files |= {
            f"nsys_profile/nvtx-{rank}.json": json.dumps({"nvtx": version, "python": "/env/python"}).encode()
            for rank, version in versions.items()
        }
        for name, content in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(content)
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("versions", "why", "fix"),
    [
        ({0: None, 1: None}, "never started, because nvtx is not installed for /env/python", f"install it: {INSTALL}"),
        ({1: None}, "never started, because nvtx is not installed for /env/python", f"install it: {INSTALL}"),
        ({0: "0.2.13"}, "never started; /env/python has nvtx 0.2.13, but only 0.2.8 to 0.2.11 leave ranges in every "
         "tested nsys", f"install another: {INSTALL}"),
    ],
)  # fmt: skip
def test_a_capture_that_never_started_names_the_nvtx_of_its_rank(
    versions: dict[int, object], why: str, fix: str, run_dir: RunDir
) -> None:
    (phase,) = collect(run_dir("cpu", versions), {})
    (finding,) = phase.findings
    assert not finding.warning and finding.problem.endswith(why) and finding.fix == fix


@pytest.mark.parametrize(
    ("gpu_type", "versions"),
    [("cpu", {}), ("cpu", {0: "0.2.11", 1: "0.2.11"}), ("cpu", {0: {}}), ("h100", {0: None})],
    ids=["nothing recorded", "suitable", "damaged", "on a GPU, where no range starts the capture"],
)
def test_another_cause_is_not_blamed_on_nvtx(gpu_type: str, versions: dict[int, object], run_dir: RunDir) -> None:
    (phase,) = collect(run_dir(gpu_type, versions), {})
    (finding,) = phase.findings
    assert finding.problem.endswith("the capture of steps 4-6 never started") and "nvtx" not in finding.fix


def test_a_profile_on_a_gpu_without_step_ranges_names_the_nvtx_of_its_rank(run_dir: RunDir) -> None:
    rank = Rank(rank=0, label="rank 0", file="a", device=0, steps=1, kernels=9, duration_s=1.0)
    (finding,) = check_ranges(Analysis(files=(), ranks=(rank,), steps=()), run_dir("h100", {0: None}))
    assert finding.warning and finding.fix == f"install it: {INSTALL}"
    assert finding.problem == "the profiles have no step ranges, because nvtx is not installed for /env/python"
