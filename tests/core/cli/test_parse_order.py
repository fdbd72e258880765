"""Logs of each format with their lines reversed, shuffled, or put together from parts: refused."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.cli.parse_rows import Row, parse_logs
from llmbx.logs.find import find_logs
from llmbx.plugins.manager import load

EXPERIMENTS = Path(__file__).parents[2] / "fixtures" / "logs" / "experiments"


def fixture(name: str) -> list[str]:
    (path,) = EXPERIMENTS.rglob(f"log-*{name}*.out")
    return path.read_text().splitlines()


def maxtext(stamp: bool = False) -> list[str]:
    """The lines of a MaxText run of 50 steps, whose times differ; with absl's stamps, if asked for."""
    lines, at = [], 0.0
    for k in range(50):
        seconds = 7.9 + 0.001 * (k * 7 % 50)
        at += seconds
        head = f"I1121 07:{int(at // 60):02}:{at % 60:09.6f} 1403 metric_logger.py:265] " if stamp else ""
        tail = f"Tokens/s/device: 1035.970, total_weights: 524288, loss: {11 - k / 10:.3f}"
        lines.append(f"{head}completed step: {k}, seconds: {seconds:.3f}, TFLOP/s/device: {460 + k / 10:.3f}, {tail}")
    return lines


LOGS: dict[str, Callable[[], list[str]]] = {
    "megatron": lambda: fixture("658572"),
    "nemo2": lambda: fixture("388660"),
    "maxtext": maxtext,
    "maxtext-stamps": lambda: maxtext(stamp=True),
}


def reverse(lines: list[str]) -> list[str]:
    return lines[::-1]


def two_shuffled(lines: list[str]) -> list[str]:
    return shuffled(lines * 2)


def shuffled(lines: list[str]) -> list[str]:
    return random.Random(7).sample(lines, len(lines))


def second_half_first(lines: list[str]) -> list[str]:
    return [*lines[len(lines) // 2 :], *lines[: len(lines) // 2]]


def parsed(folder: Path, lines: list[str], window: str = "35-44") -> Row:
    path = folder / "log-x.out"
    path.write_text("\n".join(lines) + "\n")
    (row,) = parse_logs(find_logs([path]), load().log_formats(), window)
    return row


@pytest.mark.parametrize("format_", LOGS)
@pytest.mark.parametrize(
    "change", [lambda lines: lines[::-1], shuffled, second_half_first, lambda lines: shuffled(lines * 2)]
)
@pytest.mark.parametrize("window", ["35-44", "auto", "last"])
def test_a_log_out_of_order_gives_no_figure_and_names_its_first_lines(
    tmp_path: Path, format_: str, change: Callable[[list[str]], list[str]], window: str
) -> None:
    lines = LOGS[format_]()
    assert parsed(tmp_path, lines, window).valid
    row = parsed(tmp_path, change(lines), window)
    assert re.fullmatch(r"Failed \(out of order, lines \d+ and \d+\)", row.status)
    assert not row.valid
    assert (row.step_time_mean_s, row.tflops_per_gpu_mean, row.tokens_per_s, row.steps_measured) == (
        None,
        None,
        None,
        0,
    )
    assert [check.check for check in row.checks] == ["out-of-order"] and row.warnings == ()


@pytest.mark.parametrize("format_", ["megatron", "nemo2", "maxtext"])
def test_a_training_that_starts_again_in_the_same_log_counts_from_its_last_start(tmp_path: Path, format_: str) -> None:
    lines = LOGS[format_]()
    row = parsed(tmp_path, [*lines[: len(lines) // 2], *lines])
    assert row.valid and row.attempts == 2 and row.step_time_mean_s == parsed(tmp_path, lines).step_time_mean_s
    assert (
        "the log has 2 trainings, one after the other; the last one is measured (check several-trainings)"
        in row.warnings
    )
