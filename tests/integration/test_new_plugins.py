"""The packages of `llmbx plugins new`: their own tests, the check of all, and a run without installing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.kit.template import KINDS

Llmbx = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_package_installs_and_its_tests_pass(kind: str, llmbx: Llmbx, tmp_path: Path) -> None:
    folder, site = tmp_path / "my_lm", tmp_path / "site"
    assert llmbx("plugins", "new", "my_lm", f"--{kind}", "--folder", str(folder)).returncode == 0
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--target", str(site), str(folder)], check=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LLMB", "PYTEST_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), "tests"],
        env={**kept, "PYTHONPATH": str(site)}, cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_folder_is_checked_and_run_without_installing_it(llmbx: Llmbx, tmp_path: Path) -> None:
    folder = tmp_path / "my_lm"
    assert llmbx("plugins", "new", "my_lm", "--folder", str(folder)).returncode == 0
    checked = llmbx("plugins", "check", str(folder), "--format", "json")
    (outcomes,) = json.loads(checked.stdout).values()
    assert {each["check"]: each["status"] for each in outcomes} == {
        "hooks": "ok", "import": "ok", "catalog": "ok", "log": "ok", "profiler": "not applicable",
        "launcher": "not applicable", "runtime": "not applicable", "mini": "ok", "flops": "ok", "faults": "ok",
    }, checked.stdout  # fmt: skip
    done = llmbx("run", "my_lm", "--plugin", str(folder), "--steps", "20", "--format", "json")
    result = json.loads(done.stdout)
    assert (done.returncode, result["data_valid"]) == (0, True)
    assert result["loss"]["last"] < result["loss"]["first"]


def test_wrong_flops_and_a_loss_that_rises_are_found(llmbx: Llmbx, tmp_path: Path) -> None:
    folder = tmp_path / "my_lm"
    assert llmbx("plugins", "new", "my_lm", "--folder", str(folder)).returncode == 0
    plugin, program = folder / "src/llmbx_my_lm/plugin.py", folder / "src/llmbx_my_lm/entry/train.py"
    plugin.write_text(plugin.read_text().replace("6 * spec.model", "5 * spec.model"))
    program.write_text(program.read_text().replace('[w - spec["settings"]["lr"] * g', "[w + 0.01 * g"))
    checked = llmbx("plugins", "check", str(folder), "--only", "mini,flops")
    assert checked.returncode == 1
    assert "the loss does not fall" in checked.stdout
    assert "+20.00 % of my_lm-1" in checked.stdout
