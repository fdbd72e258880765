"""Tables on wide and narrow terminals."""

from __future__ import annotations

import os
import sys

import pytest

from llmbx.cli.output import cell, print_rows

ROWS = [
    {"run_id": "pretraining_grok1_mini_bf16_1", "status": "completed", "step_time_s": 0.5349},
    {"run_id": "fit_line", "status": "failed", "step_time_s": None},
]
COLUMNS = ("run_id", "status", "step_time_s")


FIGURES = [
    {"model": "llama3.1-405b", "layout": "TP4 PP16 VP4 MBS1", "tokens_per_s_per_gpu": 44770.4, "source": "a table"},
    {"model": "qwen3-30b-a3b", "layout": "", "tokens_per_s_per_gpu": 843.0, "source": "another"},
]
FIGURE_COLUMNS = ("model", "layout", "tokens_per_s_per_gpu", "source")


def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int) -> list[str]:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((columns, 24)))
    print_rows(ROWS, COLUMNS, "table")
    return capsys.readouterr().out.splitlines()


def test_a_wide_terminal_has_plain_columns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(monkeypatch, capsys, 53) == [
        "run id                         status     step time s",
        "pretraining_grok1_mini_bf16_1  completed       0.5349",
        "fit_line                       failed               -",
    ]


def test_on_a_narrow_one_the_heading_is_wrapped_first_and_a_long_word_is_broken_last(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(monkeypatch, capsys, 52) == [
        "run id                         status      step time",
        "                                                   s",
        "pretraining_grok1_mini_bf16_1  completed      0.5349",
        "fit_line                       failed              -",
    ]
    assert printed(monkeypatch, capsys, 40) == [
        "run id                 status       step",
        "                                  time s",
        "pretraining_grok1_     completed  0.5349",
        "mini_bf16_1",
        "fit_line               failed          -",
    ]


def test_a_column_with_a_long_word_gives_way_before_other_words_are_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"run_id": "pretraining_grok1_mini_bf16_1", "status": "submitted again", "step_time_s": 0.5349}]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((25, 24)))
    print_rows(rows, COLUMNS, "table")
    assert capsys.readouterr().out.splitlines()[2:4] == ["pretra  submitted  0.5349", "ining_  again"]


def test_through_a_pipe_nothing_is_folded(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(ROWS, COLUMNS, "table")
    assert len(capsys.readouterr().out.splitlines()) == 3


def narrow(monkeypatch: pytest.MonkeyPatch, columns: int, rows: list[dict[str, object]] = FIGURES) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((columns, 24)))
    print_rows(rows, FIGURE_COLUMNS, "table", optional=("source",))


def test_texts_and_headings_are_wrapped_between_words_and_numbers_never(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    narrow(monkeypatch, 40)
    assert capsys.readouterr().out.splitlines() == [
        "model          layout    tokens  source",
        "                          per s",
        "                            per",
        "                            gpu",
        "llama3.1-405b  TP4 PP16   44770  a table",
        "               VP4 MBS1",
        "qwen3-30b-a3b               843  another",
    ]


def test_columns_without_room_are_left_out_and_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    narrow(monkeypatch, 34)
    out, err = capsys.readouterr()
    assert out.splitlines()[4:] == [
        "llama3.1-405b  TP4 PP16      44770",
        "               VP4 MBS1",
        "qwen3-30b-a3b                  843",
    ]
    assert err == "no room for: source (--format csv has them)\n"


@pytest.mark.parametrize("columns", range(8, 80))
def test_no_line_is_wider_than_the_terminal_and_no_number_is_broken(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    narrow(monkeypatch, columns)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    if columns >= 29:
        assert sum("44770" in line for line in lines) == 1


def test_numbers_below_ten_millions_have_no_exponent() -> None:
    assert [cell(number) for number in (44770.4, 9.99e6, 1.5e9, 0.00012345, -12345.6)] == [
        "44770", "9990000", "1.5e+09", "0.0001234", "-12350",
    ]  # fmt: skip
