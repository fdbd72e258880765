"""The entry programs without MaxText: the cache of PGLE profiles, their conversion, devices and NVTX ranges."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmbx.entry.ranges import Marks
from llmbx.entry.rank import Rank
from llmbx_maxtext.entry import pgle, profile_cache, ranges, train

COSTS = 'costs { name: "fusion.1" cost_us: 12.5 }\ncosts { name: "all-gather.2" cost_us: 3e2 }\n'


@pytest.fixture
def facts(tmp_path: Path) -> dict[str, Any]:
    """The entry `pgle` of `spec.json` for a profile that does not exist yet."""
    return {
        "mode": "nsys",
        "folder": str(tmp_path / "pgle" / "0123"),
        "content": "costs.pbtxt",
        "digest": "0123",
        "facts": {"image": "sha256:a", "mesh": {"dcn_fsdp": 8}},
        "capture": str(tmp_path / "report.nsys-rep"),
        "converter": str(tmp_path / "converter.py"),
        "timed": [3, 9],
    }


def publish(facts: dict[str, Any], text: str = COSTS) -> Path:
    made = profile_cache.build_folder(facts)
    (made / "costs.pbtxt").write_text(text)
    profile_cache.publish(facts, made)
    return Path(facts["folder"])


def test_a_published_profile_is_valid(facts: dict[str, Any]) -> None:
    folder = publish(facts)
    assert profile_cache.problem(facts) is None and profile_cache.problem(facts, thorough=False) is None
    assert sorted(file.name for file in folder.iterdir()) == ["costs.pbtxt", "key.json"]
    assert [entry.name for entry in folder.parent.iterdir()] == ["0123"]


def test_a_group_that_shares_the_install_can_store_profiles_beside_those_of_others(facts: dict[str, Any]) -> None:
    folder = Path(facts["folder"])
    before = os.umask(0o022)  # that of a rank
    try:
        for mode in (0o775, 0o755):
            folder.parent.parent.chmod(mode)
            publish(facts)
            assert (folder.parent.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (mode, 0o755)
            shutil.rmtree(folder.parent)
    finally:
        os.umask(before)


def cut(folder: Path) -> None:
    (folder / "costs.pbtxt").write_text(COSTS[:40])


def change(folder: Path) -> None:
    (folder / "costs.pbtxt").write_text(COSTS.replace("12.5", "99.5"))


def remove(folder: Path) -> None:
    (folder / "costs.pbtxt").unlink()


def spoil(folder: Path) -> None:
    (folder / "key.json").write_text('{"files": []}')


def forget(folder: Path) -> None:
    (folder / "key.json").unlink()


def mistake(folder: Path) -> None:
    key = json.loads((folder / "key.json").read_text())
    key["facts"]["image"] = "sha256:b"
    (folder / "key.json").write_text(json.dumps(key))


@pytest.mark.parametrize(
    ("damage", "fault", "quick"),
    [
        (cut, "costs.pbtxt is damaged", True),
        (change, "costs.pbtxt is damaged", False),
        (remove, "costs.pbtxt is missing", True),
        (spoil, "key.json cannot be read", True),
        (forget, "key.json is missing", True),
        (mistake, "it belongs to another configuration (different: image)", True),
    ],
)
def test_every_damage_is_found(
    facts: dict[str, Any], damage: Callable[[Path], None], fault: str, quick: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """`check` verifies checksums; the ranks of the measured phase verify only names and sizes."""
    damage(publish(facts))
    assert profile_cache.problem(facts) == fault
    assert profile_cache.problem(facts, thorough=False) == (fault if quick else None)
    assert pgle.check(facts) == 0 and not Path(facts["folder"]).exists()
    assert fault in capsys.readouterr().err
    (aside,) = Path(facts["folder"]).parent.iterdir()
    assert aside.name.startswith("0123.bad-")


def test_an_empty_table_is_not_a_valid_profile(facts: dict[str, Any]) -> None:
    publish(facts, "costs { }\n")
    assert profile_cache.problem(facts) == "it is empty"


def test_a_valid_profile_of_another_run_that_was_faster_stays(facts: dict[str, Any]) -> None:
    folder = publish(facts)
    before = (folder / "key.json").stat().st_ino
    publish(facts, COSTS.replace("12.5", "99.5"))
    assert (folder / "key.json").stat().st_ino == before and profile_cache.problem(facts) is None


def test_a_damaged_profile_is_replaced(facts: dict[str, Any]) -> None:
    change(publish(facts))
    publish(facts)
    assert profile_cache.problem(facts) is None


def test_check_reports_a_missing_profile(facts: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert pgle.check(facts) == 0 and "no cached PGLE profile 0123" in capsys.readouterr().err


COLLECTED = """\
0: llmbx: phase collect begins (2 ranks)
0: completed step: 4, seconds: 99.000, TFLOP/s/device: 1.000
0: llmbx: phase collect begins (2 ranks)
0: completed step: 2, seconds: 50.000, TFLOP/s/device: 1.000
0: completed step: 3, seconds: 7.250, TFLOP/s/device: 1.000
1: completed step: 3, seconds: 8.250, TFLOP/s/device: 1.000
0: completed step: 4, seconds: 7.750, TFLOP/s/device: 1.000
0: completed step: 9, seconds: 60.000, TFLOP/s/device: 1.000
"""
"""The log of a job that was requeued; steps 3 to 8 are warm and not profiled."""


def test_the_collect_phases_step_time_is_stored_and_printed(
    facts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert pgle.collect_time(facts, tmp_path) is None
    Path("log-x.out").write_text(COLLECTED)
    Path(facts["converter"]).write_text(CONVERTER)
    Path(facts["capture"]).write_text(COSTS)
    assert pgle.convert(facts) == 0 and profile_cache.step_time(Path(facts["folder"])) == 7.5
    assert pgle.check(facts) == 0
    assert capsys.readouterr().err.endswith("collect and convert\nllmbx: its collect phase took 7.5000 s a step\n")


CONVERTER = """
import argparse, pathlib
parser = argparse.ArgumentParser()
parser.add_argument("--profile_path")
parser.add_argument("--post_process", action="store_true")
parser.add_argument("--pgle_output_path")
given = parser.parse_args()
assert given.post_process
text = pathlib.Path(given.profile_path).read_text()
if text == "fail":
    raise SystemExit(3)
pathlib.Path(given.pgle_output_path).write_text(text)
pathlib.Path(given.pgle_output_path + "_nvtx_kern_sum.csv").write_text("left over")
"""


def test_the_recipes_converter_is_called_as_the_recipe_does(facts: dict[str, Any]) -> None:
    Path(facts["converter"]).write_text(CONVERTER)
    Path(facts["capture"]).write_text(COSTS)
    assert pgle.convert(facts) == 0 and profile_cache.problem(facts) is None
    assert sorted(file.name for file in Path(facts["folder"]).iterdir()) == ["costs.pbtxt", "key.json"]


@pytest.mark.parametrize(("report", "fault"), [("fail", "failed with exit code 3"), ("", "no XLA operations")])
def test_a_failed_conversion_stores_nothing(
    facts: dict[str, Any], report: str, fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(facts["converter"]).write_text(CONVERTER)
    Path(facts["capture"]).write_text(report)
    assert pgle.convert(facts) == 1
    assert fault in capsys.readouterr().err and not list(Path(facts["folder"]).parent.iterdir())


def test_an_image_without_the_converter(facts: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    Path(facts["capture"]).write_text(COSTS)
    assert pgle.convert(facts) == 1
    assert "converter.py does not exist in this image" in capsys.readouterr().err


def builds(folder: Path, *names: str) -> None:
    folder.mkdir()
    for number, name in enumerate(names):
        (folder / f"{name}-{number:064x}-cache").write_bytes(b"program")


def test_jaxs_programs_count_when_one_was_built_twice(facts: dict[str, Any], tmp_path: Path) -> None:
    """JAX stores the program compiled with costs next to the one compiled to collect them."""
    facts |= {"mode": "jax", "content": "executables", "capture": str(tmp_path / "made")}
    builds(tmp_path / "made", "jit_train_step", "jit_train_step", "jit_init")
    assert pgle.convert(facts) == 0 and profile_cache.problem(facts) is None
    assert len(list((Path(facts["folder"]) / "executables").iterdir())) == 3


@pytest.mark.parametrize("names", [(), ("jit_train_step", "jit_init")])
def test_jaxs_programs_without_costs_are_not_a_valid_profile(
    facts: dict[str, Any], tmp_path: Path, names: tuple[str, ...]
) -> None:
    facts |= {"mode": "jax", "content": "executables", "capture": str(tmp_path / "made")}
    builds(tmp_path / "made", *names)
    assert pgle.convert(facts) == 1 and not Path(facts["folder"]).exists()


def trace(tmp_path: Path, *events: dict[str, Any]) -> str:
    folder = tmp_path / "profile" / "2026_01_01"
    folder.mkdir(parents=True)
    (folder / "host.trace.json.gz").write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    return str(tmp_path / "profile")


def test_the_stand_in_makes_costs_of_the_longest_times(facts: dict[str, Any], tmp_path: Path) -> None:
    events = [{"name": "x", "dur": dur, "args": {"hlo_op": "dot.1"}} for dur in (1.5, 9.5, 3.0)]
    facts |= {"mode": "cpu-standin", "capture": trace(tmp_path, *events, {"name": "python"})}
    assert pgle.convert(facts) == 0
    assert (Path(facts["folder"]) / "costs.pbtxt").read_text() == 'costs { name: "dot.1" cost_us: 9.5 }\n'


def test_the_stand_in_finds_nothing(facts: dict[str, Any], tmp_path: Path) -> None:
    facts |= {"mode": "cpu-standin", "capture": trace(tmp_path, {"name": "python"})}
    assert pgle.convert(facts) == 1


@pytest.mark.parametrize(
    ("gpu_type", "gpus", "visible", "expected"),
    [
        ("cpu", 16, None, None),
        ("h100", 16, None, [3]),
        ("h100", 16, "0,1,2,3", [3]),
        ("h100", 16, "5", [0]),
        ("h100", 16, "", [3]),
        ("h100", 128, "0,1,2,3,4,5,6,7", None),
    ],
)
def test_which_device_a_rank_takes(gpu_type: str, gpus: int, visible: str | None, expected: list[int] | None) -> None:
    this = Rank(number=11, local=3, world=16, local_world=8, node=1, address="10.0.0.7", port=12008)
    env = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert train.devices({"gpu_type": gpu_type, "gpus": gpus}, this, env) == expected


class Recorder:
    """A fake of the package nvtx and of the CUDA runtime that records its calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def push_range(self, name: str, domain: str, payload: int | None = None) -> None:
        assert domain == "llmbx"
        self.calls.append(name if payload is None else (name, payload))

    def pop_range(self, domain: str) -> None:
        self.calls.append("end")

    def cudaProfilerStart(self) -> None:
        self.calls.append("start")

    def cudaProfilerStop(self) -> None:
        self.calls.append("stop")


def test_ranges_lie_where_maxtext_profiles() -> None:
    nvtx = Recorder()
    marks = Marks(nvtx)
    runtime = ranges.Runtime(marks, nvtx)
    for number in range(6):
        if number == 2:
            runtime.cudaProfilerStart()
        marks.step(number)
        if number == 4:
            runtime.cudaProfilerStop()
    steps = [("step", 2), "end", ("step", 3), "end", ("step", 4), "end"]
    assert nvtx.calls == ["start", "profile", *steps, "end", "stop"]


def test_without_a_cuda_runtime_the_ranges_are_there() -> None:
    nvtx = Recorder()
    runtime = ranges.Runtime(Marks(nvtx), None)
    runtime.cudaProfilerStart()
    runtime.cudaProfilerStop()
    assert nvtx.calls == ["profile", "end"]


def program(**changes: str) -> dict[str, Any]:
    found = {"module": "", "program": "/nowhere/train.py", "title": "MaxText of December 2024", **changes}
    return {
        "recipe": "pgle-25.01",
        "program": found,
        "image": {"reference": "ghcr.io#nvidia/jax:x"},
        "environment": None,
    }


def test_the_error_about_a_missing_maxtext_names_the_image() -> None:
    assert train.missing_program(program(module="json.tool")) is None
    assert train.missing_program(program(program=__file__)) is None
    line = train.missing_program(program()) or ""
    assert "MaxText of December 2024" in line and "/nowhere/train.py" in line and "ghcr.io#nvidia/jax:x" in line
    assert "no such_package.train" in (train.missing_program(program(module="such_package.train")) or "")


def test_a_failing_rank_exits_at_once(tmp_path: Path) -> None:
    """Otherwise JAX delays its exit until the other ranks, which wait for it, have finished."""
    import subprocess

    file = tmp_path / "train.py"
    file.write_text("import atexit, sys\natexit.register(print, 'held back')\nsys.exit('out of luck')\n")
    code = (
        "from llmbx_maxtext.entry.train import run_trainer_or_exit\n"
        f"run_trainer_or_exit({{'module': '', 'program': {str(file)!r}, 'config': 'base.yml'}}, [])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "") and "out of luck" in done.stderr
