"""Logs with the line of every n-th step: Megatron prints the mean of the interval, NeMo 2 the time of that step."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmbx.plugins.manager import load
from llmbx_nemo.grammar import formats
from llmbx_parse.find import find_logs
from llmbx_parse.rows import Row, parse_logs


def megatron(number: int, total: int, time_s: float) -> str:
    return (
        f" iteration {number:8d}/{total:8d} | consumed samples: {number * 128:12d} |"
        f" elapsed time per iteration (ms): {time_s * 1000:.1f} |"
        f" learning rate: 1.0E-05 | global batch size:   128 | lm loss: {12 - number / total:.6E} | loss scale: 1.0 |"
        " grad norm: 1.2 | number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


def parsed(tmp_path: Path, lines: list[str], window: str | None) -> Row:
    path = tmp_path / "log-x.out"
    path.write_text("\n".join(lines) + "\n")
    (row,) = parse_logs(find_logs([path]), formats(), load(), window)
    return row


@pytest.mark.parametrize("every", [5, 10, 50, 100])
def test_megatron_prints_the_mean_of_an_interval(tmp_path: Path, every: int) -> None:
    lines = [
        megatron(n, 20 * every, 25.0 if n == every else 5.0 + n / 1e4) for n in range(every, 20 * every + 1, every)
    ]
    first, last = 10 * every, 15 * every + every // 2
    row = parsed(tmp_path, lines, f"{first}-{last}")
    assert row.valid and row.figures.steps_measured == 5 * every
    inside = [5.0 + n / 1e4 for n in range(11 * every, 15 * every + 1, every)]
    assert row.figures.step_time_s.mean == pytest.approx(sum(inside) / 5, rel=1e-4)


def test_a_damaged_log_of_every_step_has_no_means(tmp_path: Path) -> None:
    lines = [megatron(n, 50, 5.0) for n in range(1, 51) if n not in (36, 40)]
    row = parsed(tmp_path, lines, "35-44")
    assert row.figures.steps_measured == 8
    assert "only 8 of the 10 steps of the window 35-44 could be measured" in row.warnings


def test_lost_lines_of_a_log_with_an_interval_are_noticed(tmp_path: Path) -> None:
    lines = [megatron(n, 500, 5.0) for n in range(10, 501, 10) if n not in range(330, 410, 10)]
    row = parsed(tmp_path, lines, "300-440")
    assert not row.valid and "only 60 of the 141 steps" in row.status
    assert any("8 steps are missing" in text.text for text in row.checks)


def test_without_a_window_the_steady_state_is_measured(tmp_path: Path) -> None:
    lines = [megatron(n, 500, 25.0 if n == 10 else 5.0) for n in range(10, 501, 10)]
    row = parsed(tmp_path, lines, None)
    assert row.valid and row.figures.window.policy == "auto"
    assert row.figures.step_time_s.mean == pytest.approx(5.0)


def test_the_interval_after_a_checkpoint_is_shorter(tmp_path: Path) -> None:
    loaded = " successfully loaded checkpoint from /c [ t 1/1, p 1/1 ] at iteration 1003"
    lines = [loaded, *(megatron(n, 1100, 25.0 if n == 1010 else 5.0) for n in range(1010, 1101, 10))]
    row = parsed(tmp_path, lines, "1004-1100")
    assert row.figures.steps_measured == 97
    assert row.figures.step_time_s.mean == pytest.approx((7 * 25.0 + 90 * 5.0) / 97)


def test_nemo_prints_the_time_of_one_step(tmp_path: Path) -> None:
    lines = [
        f"Training epoch 0, iteration {n}/499 | lr: 1e-05 | global_batch_size: 128 | global_step: {n} | "
        f"reduced_train_loss: {12 - n / 500:.2f} | train_step_timing in s: {5 + n / 1e4:.4f} | "
        f"consumed_samples: {128 * (n + 1)}"
        for n in range(9, 500, 10)
    ]
    row = parsed(tmp_path, lines, "300-440")
    assert row.valid and row.figures.steps_measured == 14
    assert row.figures.step_time_s.mean == pytest.approx(5.0374)
    assert any("one line for 10 steps" in line for line in row.warnings)
