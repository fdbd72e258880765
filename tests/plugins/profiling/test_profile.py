"""The verb `profile`: what it refuses, and its preview."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from llmbx.cli.run import command as run
from llmbx.errors import LlmbxError, UsageError
from llmbx_profiling.profile import command as profile


@pytest.fixture(autouse=True)
def _empty_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path / "install"))
    monkeypatch.setenv("LLMBX_CONFIG", "/dev/null")


def refusal(*arguments: str) -> str:
    done = CliRunner().invoke(profile, arguments)
    assert isinstance(done.exception, LlmbxError), done.output
    return str(done.exception)


def test_options_that_change_a_repeated_run_are_rejected() -> None:
    assert refusal("--steps", "1-2", "--gpus", "2", "--dtype", "fp8") == (
        "--dtype, --gpus need a workload; without one, the last run is repeated unchanged"
    )
    accepted = ("--steps", "1-2", "--gpu-metrics", "--max-steps", "9")
    assert "there is no run to repeat" in refusal(*accepted)
    assert refusal(*accepted, "--slurm-account", "a") == (
        "--slurm-account needs a workload; without one, the last run is repeated unchanged"
    )


def test_errors_name_the_option_that_was_used() -> None:
    asked = ["llama3.1", "--steps", "45-50", "--max-steps", "48", "--dry-run"]
    with pytest.raises(UsageError, match="--max-steps 48: the profiled steps 45-50 end after the last step"):
        CliRunner().invoke(profile, asked, catch_exceptions=False)
    with pytest.raises(UsageError, match="--steps 48: the profiled steps 45-50 end after the last step"):
        CliRunner().invoke(
            run, ["llama3.1", "--steps", "48", "--dry-run"], env={"ENABLE_PROFILE": "1"}, catch_exceptions=False
        )


def test_a_preview_as_json(tmp_path: Path) -> None:
    # Forced: profile finds no nsys on most machines.
    arguments = ["line", "--dry-run", "--format", "json", "--env", "A=b", "--force"]
    preview = json.loads(CliRunner().invoke(profile, arguments, catch_exceptions=False).stdout)
    assert preview["spec"]["env"] == {"A": "b"} and preview["spec"]["profile"] and preview["commands"]
    assert not (tmp_path / "install").exists()
