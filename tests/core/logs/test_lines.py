"""Splitting bytes into lines: line ends, escapes, invalid bytes, truncated lines, and labels."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmbx.logs.lines import CUT, LIMIT, LineReader, split_label


def read(*chunks: bytes) -> list[str]:
    reader = LineReader()
    lines = [line for chunk in chunks for line in reader.feed(chunk)]
    return lines + reader.close()


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"one\ntwo\n", ["one", "two"]),
        (b"one\r\ntwo\r\n", ["one", "two"]),
        (b" 10%\r 20%\r 30%\n", [" 10%", " 20%", " 30%"]),
        (b"\n\n a \n\n", [" a "]),
        (b"\x1b[32mgreen\x1b[0m and \x1b[1;31;48;5;10mred\x1b[K\n", ["green and red"]),
        (b"\x1b]0;title\x07text\n", ["text"]),
        (b"caf\xc3\xa9 \xff\xfe end\n", ["caf\N{LATIN SMALL LETTER E WITH ACUTE} \ufffd\ufffd end"]),
        (b"cut in a letter \xc3\nnext\n", ["cut in a letter \ufffd", "next"]),
        (b"a\0\0\0b\n\0\0\n", ["ab"]),
        (b"whole\nunfinis", ["whole", "unfinis" + CUT]),
    ],
)
def test_a_line_is_clean_whatever_wrote_it(data: bytes, lines: list[str]) -> None:
    assert read(data) == lines


def test_a_very_long_line_is_bounded_and_says_so() -> None:
    long = b"x" * (3 * LIMIT)
    kept = "x" * LIMIT + CUT
    assert read(long + b"\nnext\n") == [kept, "next"]
    assert read(*(long[i : i + 1000] for i in range(0, len(long), 1000)), b"\nnext\n") == [kept, "next"]
    assert read(b"y" * LIMIT + b"\n") == ["y" * LIMIT]
    assert read(long) == [kept]


def test_memory_stays_bounded_while_a_line_never_ends() -> None:
    reader = LineReader()
    for _ in range(100):
        assert reader.feed(b"z" * LIMIT) == []
    assert len(reader._rest) <= LIMIT + 1


AWKWARD = st.sampled_from(
    [b"\n", b"\r", b"\r\n", b"\x1b[31m", b"\x1b[", b"\0", b"\xc3\xa9", b"\xff", b"iteration 3/ 5 | "]
)


@settings(max_examples=200)
@given(st.lists(st.one_of(AWKWARD, st.binary(max_size=8)), max_size=40).map(b"".join), st.data())
def test_chunks_make_no_difference(data: bytes, draw: st.DataObject) -> None:
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=8)))
    chunks = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    assert read(*chunks) == read(data)


@pytest.mark.parametrize(
    ("line", "rank", "text"),
    [
        ("plain text", None, "plain text"),
        ("0: text", 0, "text"),
        (" 12:  indented", 12, " indented"),
        ("[default3]:text", 3, "text"),
        ("[rank7]: RuntimeError: x", 7, "RuntimeError: x"),
        ("[1,5]<stderr>: text", 5, "text"),
        ("n001: text", None, "text"),
        ("gpu-node12: text", None, "text"),
        ("pretraining/0 [default4]:text", 4, "text"),
        ("[2025-11-20T14:55:23+08:00] pretraining/0 Training epoch 0", None, "Training epoch 0"),
        ("2025-11-20T14:55:23.123456789Z 3: text", 3, "text"),
        ("2025-11-20 14:55:23,123 text", None, "text"),
        ("Nov 20 14:55:23 text", None, "text"),
        (" [2026-03-27 23:13:07] iteration 45/50 |", None, " [2026-03-27 23:13:07] iteration 45/50 |"),
        ("ValueError: text", None, "ValueError: text"),
    ],
)
def test_labels_are_taken_off_and_their_rank_kept(line: str, rank: int | None, text: str) -> None:
    label, found, rest = split_label(line)
    assert (found, rest) == (rank, text)
    assert label + rest == line
