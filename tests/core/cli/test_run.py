"""`llmbx run --from` repeats an earlier run as it was; rules still hold, and other people's runs are not trusted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from llmbx.cli import run
from llmbx.config.install import Install
from llmbx.config.request import STAGE_PATH_NOTE
from llmbx.errors import UsageError
from llmbx.model import ImageSource
from llmbx.record.folder import Run
from llmbx.run_files import RunFolder

from ...run_factory import RunFactory

Stored = Callable[..., Run]


@pytest.fixture(autouse=True)
def environment(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMB_INSTALL", install.root)
    monkeypatch.setenv("LLMBX_CONFIG", "/dev/null")
    monkeypatch.delenv("STAGE_PATH", raising=False)


@pytest.fixture
def stored(run_factory: RunFactory) -> Stored:
    """`stored(**changes)`: a finished run of the toy on two ranks, whose specification breaks no rule."""

    def put(**changes: Any) -> Run:
        sound = {"runtime": "host", "gpu_type": "cpu", "gpus": 2, "gpus_per_node": 2, "global_batch_size": 8}
        return run_factory.put([1.0] * 50, settings={"rate": 0.3, "metrics": False}, **{**sound, **changes})

    return put


def previewed(*arguments: str) -> dict[str, Any]:
    """The specification that `llmbx run` would start."""
    done: Result = CliRunner().invoke(
        run.command, [*arguments, "--dry-run", "--format", "json"], catch_exceptions=False
    )
    assert done.exit_code == 0, done.stderr
    spec: dict[str, Any] = json.loads(done.stdout)["spec"]
    return spec


def refusal(*arguments: str) -> str:
    with pytest.raises(UsageError) as refused:
        previewed(*arguments)
    return str(refused.value)


def test_a_run_is_repeated_unchanged(stored: Stored) -> None:
    before = stored(tags=("night",), env={"MODE": "a"}, mounts=("/tmp:/x",), steps=33)
    stored(steps=12)
    recorded = msgspec.json.decode(msgspec.json.encode(before.record.spec))
    assert {**previewed("--from", before.record.id), "origins": {}} == {**recorded, "origins": {}}
    assert previewed("--from", "last")["steps"] == 12


def test_variables_and_profiles_of_now_do_not_change_it(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    name = stored(dtype="bf16").record.id
    monkeypatch.setenv("DTYPE", "fp32")
    monkeypatch.setenv("JOB_TOTAL_GPUS", "64")
    assert (previewed("--from", name)["dtype"], previewed("--from", name)["gpus"]) == ("bf16", 2)


def test_its_rules_are_checked_again_and_force_overrides_them(stored: Stored) -> None:
    name = stored(gradient_accumulation=32).record.id
    problem = "gradient accumulation is 32, but GBS / (MBS x DP) = 4; use --set gbs=64"
    assert refusal("--from", name) == f"line 1b cannot run (1 problem; --force overrides):\n  {problem}"
    assert previewed("--from", name, "--force")["forced"] == ["ga"]


def test_a_changed_image_can_be_accepted_for_the_repeated_run(stored: Stored) -> None:
    image = ImageSource(reference="registry.example#team/app:1", source="the guide")
    name = stored(image=image).record.id
    assert previewed("--from", name)["accept_image_change"] is False
    assert previewed("--from", name, "--accept-image-change")["accept_image_change"] is True


def test_the_run_of_another_user_is_not_started_with_ones_own_rights(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = stored().record.id
    monkeypatch.setattr(RunFolder, "owner_id", 4711)
    monkeypatch.setattr(RunFolder, "owner", "mallory")
    assert refusal("--from", name) == (
        f"{name} belongs to mallory: its setup lines, environment and mounts would be used with your rights; "
        "read its run.json, then add --force"
    )
    assert previewed("--from", name, "--force")["gpus"] == 2
    monkeypatch.setattr(RunFolder, "owner_id", 0)
    assert previewed("--from", name)["gpus"] == 2, "root can do anything anyway"


def test_a_run_is_named_or_described_and_not_both(stored: Stored) -> None:
    assert refusal() == "no workload specified: `llmbx list` shows all workloads"
    assert refusal("line", "--from", stored().record.id) == "--from cannot be combined with a workload"
    assert refusal("--from", "zzz").startswith("no run 'zzz'")


@pytest.mark.parametrize("path", ["/lustre/stage", ""])
def test_the_recipes_old_variable_for_the_folder_gives_a_note(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`STAGE_PATH` was replaced by `LLMB_INSTALL`: who still sets it looks for the output in the wrong folder."""
    monkeypatch.setenv("STAGE_PATH", path)
    done = CliRunner().invoke(run.command, ["line", "--size", "mini", "--dry-run"], catch_exceptions=False)
    notes = [line for line in done.stderr.splitlines() if "STAGE_PATH" in line]
    assert notes == ([f"llmbx: note: {STAGE_PATH_NOTE}"] if path else [])
    assert "set LLMB_INSTALL" in STAGE_PATH_NOTE and done.exit_code == 0
