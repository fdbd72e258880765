"""Control characters and formulas in what is shown: from logs, names, errors."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from llmbx.cli import logs
from llmbx.cli.output import cell, csv_cell, to_csv
from llmbx.cli.streams import visible, visible_json

ATTACKS = [
    "\x1b[2J\x1b[31mred",
    "\x1b]0;title\x07",
    "back\b\b\bspace",
    "over\rwritten",
    "\x9b31m",
    "\u202eright to left",
    "\x7f",
    "\0",
]


@pytest.mark.parametrize("text", ATTACKS)
def test_no_control_character_is_left(text: str) -> None:
    for shown in (visible(text), cell(text), cell([text])):
        assert shown.isprintable() and shown != text
    assert json.loads(visible_json(json.dumps({"a": text}, ensure_ascii=False))) == {"a": text}


def test_ordinary_text_is_unchanged() -> None:
    text = "a\tb\nünï … 100 % ✓ 漢字"
    assert visible(text) == text and visible_json(json.dumps(text, ensure_ascii=False)) == json.dumps(
        text, ensure_ascii=False
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("+1+1", "'+1+1"),
        ("-1+1", "'-1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\\r=1"),
        ("\n=1", "'\n=1"),
        ("-1.5", "-1.5"),
        ("+3e5", "+3e5"),
        (-1.5, -1.5),
        (-2, -2),
        (None, ""),
        ("a=b", "a=b"),
        (True, True),
    ],
)
def test_a_formula_is_quoted_and_a_number_is_not(value: object, shown: object) -> None:
    assert csv_cell(value) == shown
    rows = [*csv.reader(io.StringIO(to_csv([{"a": value}], ["a"])))]
    assert rows[1:] == [[str(shown)]] or (value is None and rows[1:] in ([], [[""]]))


def test_an_error_with_a_hostile_file_name_is_shown_with_escapes(tmp_path: Path) -> None:
    name = "\x1b[31mred\r\u202e.out"
    done = subprocess.run(
        [sys.executable, "-m", "llmbx", "parse", str(tmp_path / name)], capture_output=True, check=False
    )
    assert done.returncode == 2 and b"red\\r\\u202e.out" in done.stderr and b"\x1b" not in done.stderr


def test_logs_prints_bytes_through_a_pipe_and_escapes_on_a_terminal(tmp_path: Path) -> None:
    log = tmp_path / "log.out"
    log.write_bytes("a \x1b[31mred\x1b[0m ü\n".encode())
    program = (
        "from pathlib import Path; from llmbx.cli import streams, logs; streams.wrap_standard_streams(); "
        f"logs._print(Path({str(log)!r})); streams.finish(0)"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == log.read_bytes()
    leader, follower = pty.openpty()
    subprocess.run([sys.executable, "-c", program], stdout=follower, check=True)
    os.close(follower)
    assert os.read(leader, 1000).decode().strip() == "a \\x1b[31mred\\x1b[0m ü"
    os.close(leader)


def test_the_last_lines_of_a_log_are_masked_too(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefghijklmnopqrstuvwxyzabcdefgh")
    log = tmp_path / "log.out"
    log.write_bytes(b"one\ntoken hf_abcdefghijklmnopqrstuvwxyzabcdefgh\nthree")
    logs._print(log, 2)
    sys.stdout.buffer.flush()
    lines = capfdbinary.readouterr().out.split(b"\n")
    assert len(lines) == 2 and lines[1] == b"three" and b"hf_abc" not in lines[0]
