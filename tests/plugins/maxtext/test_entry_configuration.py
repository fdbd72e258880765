"""The recording of MaxText's final configuration, with stand-ins for both shapes of MaxText's module."""

from __future__ import annotations

import enum
import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmbx.errors import InfraError
from llmbx.model import RunSpec
from llmbx_maxtext.configuration import program
from llmbx_maxtext.entry import configuration

PACKAGE = {"module": "maxtext.trainers.pre_train.train"}
TREE = {"module": "", "program": "/opt/maxtext/MaxText/train.py"}


class Remat(enum.Enum):
    full = "full"


class Keys:
    """The configuration of either release: its values are got by `get_keys`."""

    def get_keys(self) -> dict[str, Any]:
        return {"steps": 4, "remat": Remat.full, "rules": (("batch", "data"),), "tunable": {"a": {"b": None}}}


FINAL = {"steps": 4, "remat": "Remat.full", "rules": [["batch", "data"]], "tunable.a.b": None}


@pytest.mark.parametrize(
    ("found", "returns"),
    [(PACKAGE, True), (TREE, False)],
    ids=["a package returns the configuration", "a source tree keeps it in the module"],
)
def test_the_finished_configuration_is_written(
    found: dict[str, Any], returns: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = types.ModuleType("pyconfig")

    def initialize(argv: list[str]) -> Keys | None:
        made = Keys()
        if not returns:
            module.config = made
        return made if returns else None

    module.initialize = initialize
    name = configuration.module_of(found)
    for parent in ("maxtext", "maxtext.configs"):
        monkeypatch.setitem(sys.modules, parent, types.ModuleType(parent))
    monkeypatch.setitem(sys.modules, name, module)
    stale = tmp_path / "configs/final.json"
    stale.parent.mkdir()
    stale.write_text("{}")
    configuration.record(found, tmp_path)
    assert not stale.exists(), "the file of an earlier phase is not that of this one"
    module.initialize(["train", "base.yml"])
    assert json.loads(stale.read_text())["final"] == FINAL


def test_a_release_without_that_module_is_not_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configuration.record({"module": "no_maxtext_here.train"}, tmp_path)
    assert "the final configuration will not be written: No module named 'no_maxtext_here'" in "".join(
        capsys.readouterr()
    )


def test_a_configuration_that_cannot_be_written_does_not_stop_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = object()
    assert configuration.recording(None, lambda argv: made, tmp_path)([]) is made
    assert "the final configuration was not written: AttributeError" in "".join(capsys.readouterr())
    assert not (tmp_path / "configs").exists()


def test_the_program_builds_the_measured_phase_with_as_many_devices(cluster: Callable[..., RunSpec]) -> None:
    found = program(cluster("fp8", 64, settings={"maxtext": "0.2"}))
    assert found.environment.name == "maxtext-cpu" and found.argv[0] in found.files
    assert "hardware=gpu_multiprocess" in found.argv and "steps=50" in found.argv
    assert found.env["XLA_FLAGS"].endswith("=64")


def test_a_release_that_cannot_be_installed_is_an_error(cluster: Callable[..., RunSpec]) -> None:
    with pytest.raises(InfraError, match=r"MaxText of December 2024 .* --set maxtext=0\.2"):
        program(cluster("fp8", 64))
