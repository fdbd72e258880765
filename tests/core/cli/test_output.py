"""Tables on wide and narrow terminals."""

from __future__ import annotations

import os
import sys

import pytest

from llmbx.cli.output import print_table

ROWS = [
    {"run_id": "pretraining_grok1_mini_bf16_1", "status": "completed", "step_time_s": 0.5349},
    {"run_id": "fit_line", "status": "failed", "step_time_s": None},
]
COLUMNS = ("run_id", "status", "step_time_s")


def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int) -> list[str]:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((columns, 24)))
    print_table(ROWS, COLUMNS)
    return capsys.readouterr().out.splitlines()


def test_a_wide_terminal_has_plain_columns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(monkeypatch, capsys, 53) == [
        "run id                         status     step time s",
        "pretraining_grok1_mini_bf16_1  completed       0.5349",
        "fit_line                       failed               -",
    ]


def test_on_a_narrow_one_a_name_keeps_a_line_of_its_own_and_can_be_copied(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(monkeypatch, capsys, 52) == [
        "run id",
        "  status     step time s",
        "pretraining_grok1_mini_bf16_1",
        "  completed       0.5349",
        "fit_line",
        "  failed               -",
    ]


def test_through_a_pipe_nothing_is_folded(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(ROWS, COLUMNS)
    assert len(capsys.readouterr().out.splitlines()) == 3
