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
TRAINED_BELOW = ("--deselect", "tests/test_torch_lm.py::test_it_conforms[mini]",
                 "--deselect", "tests/test_torch_lm.py::test_it_conforms[flops]")  # fmt: skip
"""These two build the environment and train: `llmbx plugins check` does the same."""
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


def test_a_plain_torch_trainer_conforms_and_trains_on_two_ranks(llmbx: Llmbx, shared_install: Path) -> None:
    folder = str(EXAMPLES / "torch_lm")
    checked = llmbx("plugins", "check", folder, "--format", "json")
    (outcomes,) = json.loads(checked.stdout).values()
    assert {each["check"]: each["status"] for each in outcomes} == {
        "hooks": "ok", "import": "ok", "catalog": "ok", "log": "ok", "profiler": "not applicable",
        "tools": "not applicable", "mini": "ok", "flops": "ok", "faults": "ok",
    }, checked.stdout  # fmt: skip
    arguments = ("run", "torch_lm", "--plugin", folder, "--gpus", "2", "--steps", "12", "--format", "json")
    done = llmbx(*arguments, install=shared_install)
    result = json.loads(done.stdout)
    assert (done.returncode, result["data_valid"]) == (0, True), done.stderr
    assert [c for c in result["checks"] if c["outcome"] != "not possible"] == []
    assert result["loss"]["last"] < result["loss"]["first"]
