"""The packages in examples/: installed for their own tests, checked and run as their users would.

examples/podman_runtime runs in containers/test_podman_example.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
TRAINED_BELOW = tuple(
    part
    for name in ("torch_lm", "torchtitan")
    for check in ("mini", "flops")
    for part in ("--deselect", f"tests/test_{name}.py::test_it_conforms[{check}]")
)
"""These build an environment and train: `llmbx plugins check` does the same."""
PACKAGES = sorted(path.parent.name for path in EXAMPLES.glob("*/pyproject.toml"))
Llmbx = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize("package", PACKAGES)
def test_an_example_installs_and_its_tests_pass(package: str, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    site = str(tmp_path / "site")
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--target", site, str(EXAMPLES / package)], check=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LLMB", "PYTEST_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(EXAMPLES / package), "tests",
         *TRAINED_BELOW],
        env={**kept, "PYTHONPATH": site}, cwd=EXAMPLES / package, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("name", "steps"), [("torch_lm", "12"), ("torchtitan", "8")])
def test_a_framework_conforms_and_trains_on_two_ranks(
    name: str, steps: str, llmbx: Llmbx, shared_install: Path
) -> None:
    folder = str(EXAMPLES / name)
    checked = llmbx("plugins", "check", folder, "--format", "json")
    (outcomes,) = json.loads(checked.stdout).values()
    assert {each["check"]: each["status"] for each in outcomes} == {
        "hooks": "ok", "import": "ok", "catalog": "ok", "log": "ok", "profiler": "not applicable",
        "launcher": "not applicable", "runtime": "not applicable", "mini": "ok", "flops": "ok", "faults": "ok",
    }, checked.stdout  # fmt: skip
    arguments = ("run", name, "--plugin", folder, "--gpus", "2", "--steps", steps, "--format", "json")
    done = llmbx(*arguments, install=shared_install)
    result = json.loads(done.stdout)
    assert (done.returncode, result["data_valid"]) == (0, True), done.stderr
    assert [c for c in result["checks"] if c["outcome"] != "not possible"] == []
    assert result["loss"]["last"] < result["loss"]["first"]


@pytest.fixture(scope="module")
def pyspy(shared_install: Path) -> str:
    """The py-spy program, from the package index."""
    folder = shared_install / "py-spy"
    if not (folder / "bin/py-spy").is_file():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--target", str(folder), "py-spy==0.4.3"], check=True)
    return str(folder / "bin/py-spy")


def test_py_spy_finds_where_a_real_trainer_spends_its_time(llmbx: Llmbx, shared_install: Path, pyspy: str) -> None:
    plugins = {"LLMBX_PLUGINS": os.pathsep.join(str(EXAMPLES / name) for name in ("torch_lm", "pyspy_profiler"))}
    arguments = (
        "torch_lm",
        "--gpus",
        "2",
        "--steps",
        "20",
        "--with",
        "pyspy",
        "--pyspy-command",
        pyspy,
        "--format",
        "json",
    )
    done = llmbx("run", *arguments, install=shared_install, env=plugins)
    result = json.loads(done.stdout)
    assert (done.returncode, result["data_valid"]) == (0, True), done.stderr
    assert "the profiler pyspy changes the step time" in result["not_comparable_because"]
    assert any("of the samples of rank 0 are in" in warning for warning in result["warnings"])
    report = llmbx("report", result["run_id"], "--format", "markdown", install=shared_install, env=plugins)
    tables = report.stdout.split("Python functions (py-spy)")[1]
    for rank in range(2):
        assert f"Rank {rank}: busiest of" in tables
    assert "(torch/" in tables


def test_without_py_spy_one_line_says_what_to_install(llmbx: Llmbx) -> None:
    arguments = ("line", "--plugin", str(EXAMPLES / "pyspy_profiler"), "--with", "pyspy", "--pyspy-command", "/no/spy")
    done = llmbx("run", *arguments)
    assert done.returncode == 2 and "/no/spy is not on PATH; pip install py-spy" in done.stderr, done.stderr
