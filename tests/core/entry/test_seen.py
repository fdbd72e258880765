"""Facts recorded by the first rank."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx.entry import seen


def test_recorded_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "SLURM_JWT", "NO_ALLOWED_NAME", "NCCL_PLANTED_TOKEN"):
        monkeypatch.setenv(name, "planted")
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    monkeypatch.setenv("TOY_SWITCH", "1")
    seen.write(tmp_path, ("pytest", "no-such-package"), variables=("TOY_",))
    (file,) = tmp_path.iterdir()
    found = json.loads(file.read_text())
    assert file.name == "seen.json" and "planted" not in file.read_text()
    kept = found["environment"]
    assert (
        kept["NCCL_DEBUG"] == "WARN" and kept["TOY_SWITCH"] == "1" and found["versions"]["pytest"] == pytest.__version__
    )
    assert not {"HF_TOKEN", "SLURM_JWT", "NO_ALLOWED_NAME", "NCCL_PLANTED_TOKEN"} & {*kept}
    assert "no-such-package" not in found["versions"]
    assert found["python"] and found["host"] and found["cpu"]["cores"] and found["affinity"] is not None


def test_gpus_are_named_by_the_framework_or_by_the_driver(tmp_path: Path) -> None:
    for bus in ("0000:01:00.0", "0000:41:00.0"):
        (tmp_path / bus).mkdir()
        (tmp_path / bus / "information").write_text("Model: \t\t NVIDIA H100 80GB HBM3\nIRQ: 1\n")
    assert seen.driver_gpus(tmp_path) == [{"name": "NVIDIA H100 80GB HBM3"}] * 2
    assert seen.driver_gpus(tmp_path / "none") == []
    assert seen.facts((), [{"name": "H100", "nccl": "2.27.5"}])["gpus"] == [{"name": "H100", "nccl": "2.27.5"}]


@given(st.sets(st.integers(0, 300)))
def test_compact_lists_can_be_read_back(numbers: set[int]) -> None:
    text = seen.compact(numbers)
    spans = [part.split("-") for part in text.split(",") if part]
    assert {n for span in spans for n in range(int(span[0]), int(span[-1]) + 1)} == numbers
