"""`llmbx.testing` in the test suite of a third party, and its absence in other test suites."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.errors import UsageError
from llmbx.model import RunSpec
from llmbx.testing import Done, Isolated, resolve_spec


def test_it_is_loaded_only_on_request() -> None:
    assert not [p for p in importlib.metadata.entry_points(group="pytest11") if p.value.startswith("llmbx")]


def test_only_the_fixtures_need_pytest() -> None:
    code = "import sys; sys.modules['pytest'] = None; from llmbx import testing; testing.{}"
    python = [sys.executable, "-c"]
    subprocess.run([*python, code.format("assert_conforms; testing.resolve_spec; testing.Done")], check=True)
    assert subprocess.run([*python, code.format("llmbx_run")], capture_output=True, check=False).returncode == 1


def test_settings_of_the_user_do_not_reach_a_test(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    (tmp_path / "llmbx.toml").write_text('default_cluster = "mine"\n[clusters.mine]\nlauncher = "slurm"\n')
    for name, value in (("GPU_TYPE", "h100"), ("LLMBX_CONFIG", str(tmp_path / "llmbx.toml")), ("JOB_TOTAL_GPUS", "8")):
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="h100"):
        resolve_spec("line", environ=os.environ)
    place = request.getfixturevalue("llmbx_install")
    spec = request.getfixturevalue("llmbx_spec")("line")
    assert (spec.gpu_type, spec.gpus, spec.cluster, spec.launcher) == ("cpu", 1, None, "local")
    assert Path.home() == place.home and not place.path.exists()


def test_a_test_may_write_a_configuration_and_set_variables(
    llmbx_install: Isolated, llmbx_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    llmbx_install.config.write_text('default_cluster = "mine"\n[clusters.mine]\nlauncher = "slurm"\n')
    monkeypatch.setenv("JOB_TOTAL_GPUS", "4")
    spec = llmbx_spec("line")
    assert (spec.launcher, spec.gpus) == ("slurm", 4)


def test_a_command_without_a_run_is_reported() -> None:
    done = Done(2, "", "llmbx: no workload named 'lime'")
    with pytest.raises(AssertionError, match="llmbx ended with exit code 2: llmbx: no workload named 'lime'"):
        done.result  # noqa: B018 - what it raises is the test
