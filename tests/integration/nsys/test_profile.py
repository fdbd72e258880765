"""`llmbx profile`, as typed: the real minis with real nsys, the last run again, and a capture that never starts."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..test_nemo_entry import nemo_python
from .conftest import files_below, until_nsys_stays

__all__ = ["nemo_python"]

Llmbx = Callable[..., subprocess.CompletedProcess[str]]
Result = Callable[[Path], dict[str, Any]]
TOKEN = "hf_planted_token_of_the_tests_0123456789"


@pytest.fixture
def profile(one_nsys: Path, llmbx: Llmbx) -> Llmbx:
    """`profile("llama3.1", …)`: `llmbx profile` where nsys is installed and a token is exported."""

    def call(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        env = {"LLMBX_NSYS": str(one_nsys), "HF_TOKEN": TOKEN, **options.pop("env", {})}
        return llmbx("profile", *arguments, env=env, **options)

    return call


def newest(install: Path) -> Path:
    records = install.glob("workloads/*/experiments/*/*/*/run.json")
    return max(records, key=lambda path: path.stat().st_mtime).parent


@pytest.mark.parametrize("workload", ["llama3.1", "llama2"])
def test_a_real_mini_is_profiled(
    workload: str, profile: Llmbx, llmbx: Llmbx, shared_install: Path, read_result: Result
) -> None:
    """50 steps of which 45 to 49 are profiled: in the file are those and no others, and none of them in the window.

    The run's report says so, and where the time of those steps went.
    """
    done = until_nsys_stays(lambda: profile(workload, "--steps", "45-50", install=shared_install, timeout=1200))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the profile will be 1 file of about" in done.stderr
    folder = newest(shared_install)
    result = read_result(folder)
    assert (result["status"], result["profiled"], result["steps_seen"]) == ("completed", True, 50)
    assert not result["comparable"] and "profiled" in result["not_comparable_because"]
    first = 1 if workload == "llama3.1" else 0
    assert result["window"]["last"] < 45 + first, "no profiled step is measured"
    assert any("profiled steps took" in text for text in result["warnings"])

    analysis = json.loads((folder / "nsys_profile" / "analysis.json").read_text())
    assert [step["step"] for step in analysis["steps"]] == [45, 46, 47, 48, 49]
    assert all(file["secrets"] == [] for file in analysis["files"])
    report = json.loads(llmbx("report", str(folder), "--format", "json", install=shared_install).stdout)
    assert (
        report["verdicts"][0]["word"] == "not a benchmark result" and "profiled" in report["verdicts"][0]["reasons"][0]
    )
    section = next(section for section in report["sections"] if section["name"] == "nsys")
    every = next(chart for chart in section["charts"] if chart["name"] == "by-step")["series"][-1]
    assert [point["x"] for point in every["points"]] == [45, 46, 47, 48, 49]
    assert [point["y"] for point in every["points"]] == pytest.approx(
        [1e3 * s["duration_s"] for s in analysis["steps"]]
    )

    assert llmbx("report", str(folder), install=shared_install).returncode == 0
    assert (folder / "report.html").is_file()
    assert not any(TOKEN.encode() in path.read_bytes() for path in files_below(folder) if path.is_file())


@pytest.mark.parametrize("recipe", ["bridge-0.6-mini", "nemo2-mini"])
def test_the_other_environments_capture_their_steps(recipe: str, profile: Llmbx, shared_install: Path) -> None:
    """Those of the other two are captured above: each has its own loop and its own packages."""
    asked = ("llama3.1", "--recipe", recipe, "--steps", "3-6", "--max-steps", "8")
    done = until_nsys_stays(lambda: profile(*asked, install=shared_install))
    assert done.returncode == 0, done.stdout + done.stderr
    analysis = json.loads((newest(shared_install) / "nsys_profile" / "analysis.json").read_text())
    assert [step["step"] for step in analysis["steps"]] == [3, 4, 5]


@pytest.fixture
def python_without_nvtx(nemo_python: str, tmp_path: Path) -> str:
    """The interpreter of an environment with all packages of Megatron-Bridge's but nvtx, as links to them."""
    environment, copy = Path(nemo_python).parents[1], tmp_path / "environment"
    (packages,) = environment.glob("lib/python3.*/site-packages")
    target = copy / packages.relative_to(environment)
    target.mkdir(parents=True)
    for package in packages.iterdir():
        if not package.name.startswith("nvtx"):
            (target / package.name).symlink_to(package)
    shutil.copytree(environment / "bin", copy / "bin", symlinks=True)
    shutil.copy(environment / "pyvenv.cfg", copy)
    return str(copy / "bin" / "python")


def test_a_missing_nvtx_is_the_named_cause(
    python_without_nvtx: str, profile: Llmbx, install: Path, read_result: Result
) -> None:
    """nsys exits with 0 and says nothing: no range has started the capture."""
    asked = ("llama3.1", "--recipe", "mini", "--runtime", "host", "--steps", "1-2", "--max-steps", "3")
    done = profile(*asked, env={"LLMBX_PYTHON": python_without_nvtx})
    assert done.returncode == 1, done.stdout + done.stderr
    result = read_result(newest(install))
    assert (result["status"], result["data_valid"]) == ("failed", True)
    assert f"never started, because nvtx is not installed for {python_without_nvtx}; install it" in result["cause"]
    assert "'nvtx>=0.2.8,<0.2.12'" in " ".join(done.stdout.split())


def test_without_nsys_and_tool_the_frameworks_own_profiler_records_the_steps(
    llmbx: Llmbx, install: Path, shared_install: Path
) -> None:
    """It needs nothing but the framework; a second run without a workload would use it, too."""
    env = {"LLMBX_NSYS": "/nowhere/nsys"}
    asked = ("profile", "llama3.1", "--recipe", "nemo2-mini", "--steps", "3-6", "--max-steps", "8")
    done = llmbx(*asked, install=shared_install, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    note = "note: nsys is not on PATH (/nowhere/nsys), so torch profiles the steps; nsys would add "
    assert " ".join(done.stderr.split()).count("nsys is not on PATH") == 1
    assert note in " ".join(done.stderr.split())
    folder = newest(shared_install)
    (trace,) = folder.rglob("*.pt.trace.json.gz")
    marks = set(re.findall(r"ProfilerStep#(\d+)", gzip.decompress(trace.read_bytes()).decode()))
    assert marks == {"3", "4", "5"} and not (folder / "nsys_profile").exists()
    report = json.loads(llmbx("report", str(folder), "--format", "json", install=shared_install).stdout)
    assert trace.name in next(one for one in report["sections"] if one["name"] == "torch")["text"][0]

    again = llmbx("profile", "--steps", "4-6", "--dry-run", "--format", "json", install=shared_install, env=env)
    spec = json.loads(again.stdout)["spec"]
    assert (spec["recipe"], spec["profile"]["tool"], spec["profile"]["start"]) == ("nemo2-mini", "torch", 4)
    refused = llmbx("profile", "--steps", "4-6", "--tool", "nsys", install=shared_install, env=env)
    assert refused.returncode == 2 and "install Nsight Systems, or set LLMBX_NSYS to its command" in refused.stderr


def test_without_a_workload_the_last_run_is_repeated(profile: Llmbx, llmbx: Llmbx, install: Path) -> None:
    assert llmbx("run", "line", "--steps", "5", "--set", "rate=0.2").returncode == 0
    plain = newest(install)
    done = profile("--steps", "45-50")
    again = newest(install)
    spec = json.loads((again / "run.json").read_text())
    assert spec["repeats"] == plain.parent.name and spec["spec"]["settings"]["rate"] == 0.2
    assert (
        spec["spec"]["steps"] == 50 and spec["spec"]["profile"]["start"] == 45 and spec["spec"]["profile"]["stop"] == 50
    )
    assert spec["spec"]["profilers"] == ["nsys"]
    assert done.returncode == 1, "this framework starts no capture"


def test_a_capture_that_never_starts_fails_the_run(profile: Llmbx, install: Path, read_result: Result) -> None:
    """The toy framework has no ranges: nsys says nothing, llmbx does."""
    done = profile("line", "--steps", "2-4", "--max-steps", "6")
    assert done.returncode == 1
    result = read_result(newest(install))
    assert (result["status"], result["data_valid"]) == ("failed", True)
    assert "rank 0 wrote no profile" in result["cause"] and "steps 2-4 never started" in result["cause"]
    assert "rank 0 wrote no profile" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["line", "--steps", "50-45"], "expected A-B with A < B"),
        (["line", "--steps", "4-9", "--max-steps", "6"], "end after the last step"),
        (["line", "--ranks", "3"], "there is no rank 3"),
        (["line", "--tool", "nsyss"], "did you mean 'nsys'?"),
        (["--dtype", "fp8"], "--dtype needs a workload"),
        ([], "there is no run to repeat"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(
    arguments: list[str], says: str, profile: Llmbx, install: Path
) -> None:
    done = profile(*arguments)
    assert done.returncode == 2 and says in done.stderr, done.stderr
    assert list(install.glob("workloads/*/experiments/*/*/*")) == []


def test_without_nsys_that_is_said_before_anything_starts(profile: Llmbx, install: Path) -> None:
    done = profile("line", env={"LLMBX_NSYS": "/nowhere/nsys"})
    assert done.returncode == 2 and "nsys is not on PATH" in done.stderr
    assert list(install.glob("workloads/*/experiments/*/*/*")) == []


def test_the_preview_shows_the_profiler_and_starts_nothing(profile: Llmbx, install: Path) -> None:
    asked = ("--steps", "2-4", "--max-steps", "6", "--gpus", "2", "--ranks", "all")
    done = profile("line", *asked, "--dry-run", "--verbose")
    assert done.returncode == 0, done.stderr
    assert "profile --trace=nvtx" in done.stdout and "nsys_profile/profile_local_" in done.stdout
    assert TOKEN not in done.stdout and not install.exists()
