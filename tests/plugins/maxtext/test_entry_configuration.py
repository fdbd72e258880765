"""The recording of MaxText's final configuration, with stand-ins for both shapes of MaxText's module."""

from __future__ import annotations

import enum
import json
import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmbx.model import RunSpec
from llmbx_maxtext.configuration import program
from llmbx_maxtext.entry import configuration, configure

PACKAGE = {"module": "maxtext.trainers.pre_train.train"}
TREE = {"module": "", "program": "/opt/maxtext/MaxText/train.py"}


class Remat(enum.Enum):
    full = "full"


class Keys:
    """The configuration of either release: its values are got by `get_keys`."""

    def get_keys(self) -> dict[str, Any]:
        return {"steps": 4, "remat": Remat.full, "rules": (("batch", "data"),), "tunable": {"a": {"b": None}}}


FINAL = {"steps": 4, "remat": "full", "rules": [["batch", "data"]], "tunable.a.b": None}


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


def test_the_program_builds_every_phase(cluster: Callable[..., RunSpec]) -> None:
    found = program(cluster("fp8", 64, settings={"maxtext": "0.2"}))
    assert found.environment.name == "maxtext-cpu" and found.argv[0] in found.files
    phases = json.loads(found.files["spec.json"])["phases"]
    assert {begin: words[1] for begin, words in phases.items()} == {"": "steps=50", "collect.": "steps=15"}
    assert all("hardware=gpu_multiprocess" in words for words in phases.values())
    assert json.loads(found.files["spec.json"])["gpus"] == 64


TREE_CONFIGURATION = """
import jax, max_utils, yaml
class Config:
    def __init__(self, keys): self.keys = keys
    def get_keys(self): return self.keys
def initialize(argv):
    global config
    max_utils.maybe_initialize_jax_distributed_system({})
    given = dict(word.split("=") for word in argv[2:])
    devices = [len(jax.devices()), jax.local_device_count()]
    slices = max_utils.get_num_slices({})
    config = Config({"file": argv[1].rsplit("/", 3)[1:], "slices": slices, "devices": devices, **given})
"""


def test_a_source_tree_is_executed(tmp_path: Path) -> None:
    """`catalog diff --source`: pyconfig of the tree, without the module that loads TensorFlow."""
    tree, folder = tmp_path / "tree", tmp_path / "run"
    (tree / "MaxText/configs").mkdir(parents=True)
    (tree / "MaxText/configs/base.yml").write_text("")
    (tree / "MaxText/pyconfig.py").write_text(TREE_CONFIGURATION.replace(", yaml", ", checkpointing"))
    (tree / "MaxText/checkpointing.py").write_text("import tensorflow")
    (tree / "MaxText/jax.py").write_text("def devices(): return ['cpu']")
    (tree / "MaxText/max_utils.py").write_text("def get_num_slices(_): return -1")
    folder.mkdir()
    words = {"": ["steps=50"], "collect.": ["steps=15"]}
    spec = {"gpu_type": "h100", "gpus": 64, "gpus_per_node": 8, "local_devices": 1, "phases": words}
    (folder / "spec.json").write_text(json.dumps(spec))
    roots = [str(Path(__file__).parents[3] / part) for part in ("core", "plugins/maxtext")]
    code = "import sys; from llmbx_maxtext.entry.configure import main; main(sys.argv[1:])"
    subprocess.run(
        [sys.executable, "-c", code, f"--source={tree}", str(folder / "spec.json")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(roots)}, check=True,
    )  # fmt: skip
    final = json.loads((folder / "configs/final.json").read_text())["final"]
    assert final == {
        "file": ["MaxText", "configs", "base.yml"], "slices": 8, "devices": [64, 1], "steps": "50",
        "collect.file": ["MaxText", "configs", "base.yml"], "collect.slices": 8, "collect.devices": [64, 1],
        "collect.steps": "15",
    }  # fmt: skip


def test_another_folder_is_no_source_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        configure.of_tree(tmp_path)
    assert "is not a source tree of MaxText" in capsys.readouterr().err
