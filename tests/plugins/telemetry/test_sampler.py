"""What the sampler collects, with a stand-in for NVML and a clock of its own: signals whose integrals are known."""

from __future__ import annotations

import ast
import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from llmbx_telemetry.node import sampler
from llmbx_telemetry.samples import Samples, merge, parse

Sampled = Callable[..., Samples]


def test_energy_is_the_integral_of_the_power(sampled: Sampled, gpus: Any) -> None:
    samples = sampled(60)
    first, last = samples.time[5], samples.time[55]
    for gpu in samples.things("gpu"):
        used = samples.increase(f"{gpu}.energy", first, last)
        assert used == pytest.approx(1000 * (gpus.stand_in_energy(55) - gpus.stand_in_energy(5)), rel=1e-3)


def test_the_share_of_time_with_a_slowed_clock(sampled: Sampled, gpus: Any) -> None:
    samples = sampled(60)
    slowed = samples.increase("gpu3.throttled.power", samples.time[0], samples.time[60])
    assert slowed is not None and slowed / 60e9 == pytest.approx(0.3, abs=0.01)
    assert set(samples.get("gpu3.throttle")[10:20]) == {0, 4}
    assert set(samples.get("gpu3.clock.sm")) == {1410, 1980}


def test_energy_that_takes_long_to_read_is_read_rarely(
    sampled: Sampled, gpus: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then a short window has no energy by the counter, and that of a long one is still right."""
    monkeypatch.setattr(sampler, "DEAR_S", 0.0)
    samples = sampled(60)
    begin, end = samples.time[15], samples.time[55]
    assert np.count_nonzero(np.diff(samples.get("gpu0.energy"))) < 20
    assert samples.counted("gpu0.energy", begin, begin + 5) is None
    counted, power = samples.counted("gpu0.energy", begin, end), samples.mean("gpu0.power", begin, end)
    assert counted is not None and power is not None
    assert counted == pytest.approx(power * (end - begin), rel=0.03)


def test_the_memory_in_use_is_without_what_the_driver_reserves(sampled: Sampled, gpus: Any) -> None:
    """As nvidia-smi prints it: on an H100 the driver reserves 480 MiB."""
    assert set(sampled(3).get("gpu0.memory_used")) == {59 * 2**20}


def test_what_a_gpu_does_not_support_is_missing_and_named(sampled: Sampled, gpus: Any) -> None:
    gpus.stand_in_support_energy(0)
    samples = sampled(5)
    assert samples.increase("gpu0.energy", samples.time[0], samples.time[5]) is None
    assert samples.missing["gpu0.nvmlDeviceGetTotalEnergyConsumption"] == "not supported"
    assert samples.missing["gpu0.memory_temperature"] == "not supported"
    assert np.isnan(samples.get("gpu0.memory_temperature")).all()


def test_a_node_without_gpus_is_sampled(sampled: Sampled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "NVML_SO", "/nonexistent/libnvidia-ml.so.1")
    samples = sampled(3)
    assert samples.things("gpu") == [] and "cannot be loaded" in samples.missing["gpu"]
    assert samples.get("cpu.user")[3] >= samples.get("cpu.user")[0] > 0


def test_an_xid_is_an_event_of_its_gpu(sampled: Sampled, gpus: Any) -> None:
    samples = sampled(9, at={4: lambda: gpus.stand_in_raise_xid(5, 79)})
    ((gpu, text, time),) = [(event.thing, event.text, event.time) for event in samples.events if "Xid" in event.text]
    assert (gpu, text) == ("gpu5", "Xid 79") and samples.time[3] <= time <= samples.time[5]


def test_a_rank_is_known_by_its_variables(sampled: Sampled, monkeypatch: pytest.MonkeyPatch) -> None:
    import subprocess
    import sys

    monkeypatch.setenv("LLMBX_MASTER_ADDR", "10.0.0.1")
    monkeypatch.setenv("LLMBX_MASTER_PORT", "29555")
    ours = {**os.environ, "LLMBX_RANK": "3", "OMP_NUM_THREADS": "7"}
    other_run = {**ours, "LLMBX_RANK": "4", "LLMBX_MASTER_PORT": "29556"}
    program = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    ranks = [
        subprocess.Popen(program, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for env in (ours, other_run)
    ]
    for rank in ranks:
        assert rank.stdout is not None and rank.stdout.readline()

    def end() -> None:
        for rank in ranks:
            rank.communicate()

    samples = sampled(12, at={8: end})
    assert samples.things("rank") == ["rank3"]
    assert "rank3.net.sent" not in samples.columns  # it has the sampler's network
    assert samples.facts["rank3"]["OMP_NUM_THREADS"] == "7"
    assert samples.get("rank3.memory")[2] > 1000 and np.isnan(samples.get("rank3.memory")[12])


CGROUP_2 = "usage_usec 5000\nnr_periods 40\nnr_throttled 7\nthrottled_usec 123456\n"
CGROUP_1 = "nr_periods 40\nnr_throttled 7\nthrottled_time 123456000\n"


@pytest.mark.parametrize("stat", [CGROUP_1, CGROUP_2], ids=["version 1", "version 2"])
def test_throttling_by_a_cgroup_in_both_versions(
    sampled: Sampled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stat: str
) -> None:
    file = tmp_path / "cpu.stat"
    file.write_text(stat)
    monkeypatch.setattr(sampler, "cpu_stat", lambda files, process: str(file))
    samples = sampled(1)
    assert samples.get("cgroup.throttled")[0] == 123456 and samples.get("cgroup.nr_throttled")[0] == 7


def test_throttling_of_a_rank_by_a_cgroup_of_its_own(
    sampled: Sampled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cpu.stat"
    file.write_text(CGROUP_2)
    stats = {"self": None, str(os.getppid()): str(file)}
    monkeypatch.setattr(sampler, "cpu_stat", lambda files, process: stats.get(process))
    monkeypatch.setattr(sampler.Ranks, "_rank_of", lambda ranks, pid: 2 if pid == os.getppid() else None)
    assert sampled(1).get("rank2.throttled")[0] == 123456


def test_nodes_are_merged_by_time(sampled: Sampled) -> None:
    first = sampled(10)
    second = dataclasses.replace(first, node="other", time=first.time + 4.25)
    merged = merge([first, second], "gpu", "clock.sm")
    assert merged.rows[7:9] == ((first.node, "gpu7"), ("other", "gpu0"))
    assert list(merged.values[0][:4]) == [1410, 1410, 1410, 1980]
    assert np.isnan(merged.values[8][:5]).all() and list(merged.values[8][5:9]) == [1410, 1410, 1410, 1980]
    assert np.isnan(merged.values[0][-2:]).all()


def test_a_file_that_was_cut_is_read_up_to_there(sampled: Sampled, tmp_path: Path) -> None:
    whole = sampled(20)
    content = (tmp_path / "node-0.tsv").read_bytes()
    cut = parse(content[: -len(content.splitlines()[-1]) // 2])
    assert cut is not None and len(cut.time) == len(whole.time) - 1
    assert cut.get("gpu7.energy")[-1] == whole.get("gpu7.energy")[len(cut.time) - 1]


@pytest.mark.parametrize(
    "line", [b"r\t5\t99999:1", b"r\t-1", b"c\t7\tx\ty", b"r\t5\t0:1:2", b"e\tx\ty\tz", b"\xff\xfe"]
)
def test_a_damaged_line_is_ignored(sampled: Sampled, tmp_path: Path, line: bytes) -> None:
    whole = sampled(5)
    content = (tmp_path / "node-0.tsv").read_bytes()
    read = parse(content + line + b"\n")
    assert read is not None and (read.get("gpu0.energy")[:6] == whole.get("gpu0.energy")).all()


def test_the_sampler_is_one_file_of_the_standard_library_for_python_3_8() -> None:
    source = Path(sampler.__file__).read_text()
    tree = ast.parse(source, feature_version=(3, 8))
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= {"__future__", "collections.abc", "ctypes", "gc", "json", "os", "select", "signal", "sys",
                        "time", "typing"}  # fmt: skip
