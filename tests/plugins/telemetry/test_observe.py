"""What the result says of nodes, GPUs and ranks: by samples of stand-in GPUs and by steps whose times are known."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from llmbx.measure.figures import measure
from llmbx.model import Evidence, Peak, RunSpec, Step
from llmbx_telemetry.entry.step_clock import COLUMNS, MAGIC, RECORD, UNKNOWN
from llmbx_telemetry.observe import observe
from llmbx_telemetry.samples import Samples
from llmbx_telemetry.sections import sections
from llmbx_telemetry.steps import offset, parse, stragglers

PEAK = Peak(tflops=989.0, name="H100 dense BF16", source="test", clock_mhz=1830.0)
STEPS = 50


def clock_file(
    rank: int, before_s: list[float], wait_s: list[float], begin: float = 0.0, boot: str = "b", **facts: Any
) -> bytes:
    """A step clock of steps of a second that begin at `begin` by a monotonic clock that is 1,000 s behind the wall."""
    head: dict[str, Any] = {"rank": rank, "columns": COLUMNS, "device": "cpu", "node": "n1", "boot_id": boot,
                            "monotonic_ns": 0, "wall_ns": 1000 * 10**9, "gpu_uuid": None, **facts}  # fmt: skip
    text = json.dumps(head).encode()
    rows = b"".join(
        RECORD.pack(n, int((begin + n) * 1e9), 0, UNKNOWN, int(b * 1e6), int(w * 1e6), UNKNOWN, UNKNOWN, 10**6)
        for n, (b, w) in enumerate(zip(before_s, wait_s, strict=True))
    )
    return MAGIC + struct.pack("<I", len(text)) + text + rows


def waits(slow: int | None, ranks: int = 4, cost: float = 0.05, seed: int = 1) -> list[bytes]:
    """Clocks of ranks that meet after 0.5 s and some noise, one of them later."""
    noise = np.random.default_rng(seed).normal(0, 0.01, (ranks, STEPS))
    before = 0.5 + noise + np.array([cost if rank == slow else 0.0 for rank in range(ranks)])[:, None]
    wait = before.max(axis=0) - before + 0.001
    return [clock_file(rank, list(before[rank]), list(wait[rank])) for rank in range(ranks)]


@pytest.mark.parametrize("slow", [0, 3])
def test_the_slow_rank_is_the_one_that_waits_least(slow: int) -> None:
    ranks = [steps for content in waits(slow) if (steps := parse(content))]
    result = stragglers(ranks, 5, 44)
    assert (result.slowest_rank, result.slowest_node, result.ranks, result.steps) == (slow, "n1", 4, 40)
    assert result.lost_s_per_step == pytest.approx(0.05, rel=0.15)


def test_ranks_that_work_evenly_have_no_slowest() -> None:
    named = []
    for seed in range(40):
        ranks = [steps for content in waits(None, seed=seed) if (steps := parse(content))]
        named.append(stragglers(ranks, 5, 44).slowest_rank)
    assert named.count(None) >= 39


def test_a_clock_of_another_boot_has_the_offset_of_the_ends_of_its_steps() -> None:
    first, other = parse(clock_file(0, [0.5] * 20, [0.1] * 20)), parse(clock_file(1, [0.5] * 20, [0.1] * 20, 77.0, "c"))
    assert first is not None and other is not None
    assert offset(other, first) == (pytest.approx(-77.0), pytest.approx(0.0))
    same = parse(clock_file(1, [0.5] * 20, [0.1] * 20, 3.0))
    assert same is not None and offset(same, first) == (0.0, 0.0)


@pytest.mark.parametrize("content", [b"", MAGIC, MAGIC + b"\xff\xff\xff\xff{}", b"x" * 100, MAGIC + b"\x02\0\0\0{}"])
def test_what_is_no_step_clock_is_none(content: bytes) -> None:
    assert parse(content) is None


def test_a_record_that_was_cut_is_left_out() -> None:
    steps = parse(clock_file(0, [0.5] * 20, [0.1] * 20)[:-7])
    assert steps is not None and len(steps.step) == 19


def evidence(make_spec: Callable[..., RunSpec], run_dir: Path, **changes: Any) -> Evidence:
    spec = make_spec(gpu_type="h100", gpus=8, gpus_per_node=8, steps=40, window="11-30", peak=PEAK, **changes)
    steps = [Step(number=number, time_s=1.0) for number in range(1, 41)]
    figures = measure(spec, steps)
    figures = figures.replace(mfu=figures.mfu.replace(value=0.4))
    return Evidence(steps=tuple(steps), spec=spec, figures=figures, first=1, run_dir=run_dir)


@pytest.fixture
def run_dir(sampled: Callable[..., Samples], tmp_path: Path) -> Path:
    """A run folder of eight ranks on stand-in GPUs, sampled for 60 s; its steps begin with the third sample."""
    samples = sampled(60)
    (tmp_path / "telemetry").mkdir()
    (tmp_path / "node-0.tsv").rename(tmp_path / "telemetry" / "node-0.tsv")
    (tmp_path / "step_clocks").mkdir()
    begin = float(samples.time[3]) - 1000
    for rank in range(8):
        content = clock_file(rank, [0.5] * 40, [0.1] * 40, begin, node=samples.node, gpu_uuid=f"GPU-stand-in-{rank}")
        (tmp_path / "step_clocks" / f"rank-{rank}.bin").write_bytes(content)
    return tmp_path


def test_figures_of_the_hardware(make_spec: Callable[..., RunSpec], run_dir: Path, gpus: Any) -> None:
    known = evidence(make_spec, run_dir)
    seen = observe(known)
    assert seen is not None and known.spec is not None
    (node,) = seen.nodes
    assert node.ranks == tuple(range(8)) and [gpu.ranks for gpu in node.gpus] == [(rank,) for rank in range(8)]
    assert node.gpus[3].uuid == "GPU-stand-in-3" and node.gpus[3].temperature_c == 63
    # steps 11 to 30 are seconds 13 to 33 of the samples
    watts = (gpus.stand_in_energy(33) - gpus.stand_in_energy(13)) / 20
    assert seen.hardware.power_w == pytest.approx(watts, rel=1e-3)
    assert seen.hardware.joules_per_step == pytest.approx(8 * watts, rel=1e-3)
    tokens = known.spec.global_batch_size * known.spec.model.sequence_length
    assert seen.hardware.tokens_per_joule == pytest.approx(tokens / (8 * watts), rel=1e-3)
    slowed = (gpus.stand_in_throttled(33) - gpus.stand_in_throttled(13)) / 20
    assert seen.hardware.slowed_by_power == pytest.approx(slowed, abs=0.01)
    assert seen.hardware.clock_mhz == pytest.approx(1980 * (1 - slowed) + 1410 * slowed, rel=0.02)
    assert seen.hardware.mfu == pytest.approx(0.4 * 1830 / seen.hardware.clock_mhz)
    assert seen.hardware.because is None and seen.stragglers.slowest_rank is None


def test_a_peak_without_its_clock_gives_no_mfu_of_the_hardware(
    make_spec: Callable[..., RunSpec], run_dir: Path
) -> None:
    known = evidence(make_spec, run_dir)
    assert known.spec is not None
    spec = known.spec.replace(peak=PEAK.replace(clock_mhz=None))
    seen = observe(known.replace(spec=spec))
    assert seen is not None and seen.hardware.mfu is None and seen.hardware.power_w is not None
    assert seen.hardware.because == "the clock of the peak of h100 is not known"


def test_a_sampler_that_did_not_start_is_a_warning(make_spec: Callable[..., RunSpec], tmp_path: Path) -> None:
    (tmp_path / "telemetry").mkdir()
    (tmp_path / "telemetry" / "node-3.err").write_text("sh: 1: python3: not found\n")
    seen = observe(evidence(make_spec, tmp_path))
    assert seen is not None and seen.hardware.mfu is None
    (warning,) = seen.warnings
    assert "telemetry was not collected" in warning and "node 3" in warning and "python3: not found" in warning


def test_a_run_without_any_record_is_not_observed(make_spec: Callable[..., RunSpec], tmp_path: Path) -> None:
    assert observe(evidence(make_spec, tmp_path)) is None


def test_the_report_shows_gpus_waits_and_what_is_missing(make_spec: Callable[..., RunSpec], run_dir: Path) -> None:
    seen = observe(evidence(make_spec, run_dir))
    (run_dir / "result.json").write_bytes(msgspec.json.encode(seen))
    (section,) = sections(run_dir)
    assert {"MFU at this clock", "energy", "tokens per joule", "slowest rank"} <= {fact.name for fact in section.facts}
    tables = {table.title: table.rows for table in section.tables}
    assert [row[2] for row in tables["GPUs"]] == [f"GPU-stand-in-{number}" for number in range(8)]
    assert ("gpu.memory_temperature", "not supported") in tables["Not collected"]
    waiting = next(chart for chart in section.charts if chart.name == "telemetry-waits")
    assert [point.y for point in waiting.series[1].points] == pytest.approx([0.1] * 8)


def test_a_run_without_telemetry_has_no_section(tmp_path: Path) -> None:
    assert sections(tmp_path) == []
