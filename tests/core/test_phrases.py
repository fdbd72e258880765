"""Counts, sizes and lists in messages."""

from __future__ import annotations

import pytest

from llmbx.api import format_bytes, listed, plural


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (1, ("lines",), "1 line"),
        (0, ("lines",), "0 lines"),
        (2000, ("lines",), "2,000 lines"),
        (1, ("processes", "process"), "1 process"),
        (2, ("processes", "process"), "2 processes"),
        (None, ("GPUs",), "an unknown number of GPUs"),
    ],
)
def test_a_count_has_the_number_of_its_noun(number: int | None, words: tuple[str, ...], text: str) -> None:
    assert plural(number, *words) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (612_000, "612 kB"), (5.5e6, "5.5 MB"), (61e6, "61 MB"),
     (18.24e9, "18.2 GB"), (250e9, "250.0 GB"), (1.5e12, "1.5 TB")],
)  # fmt: skip
def test_bytes_have_the_unit_that_leaves_few_digits(size: float, text: str) -> None:
    assert format_bytes(size) == text


def test_a_list_says_how_many_names_it_leaves_out() -> None:
    assert listed(["a", "b"], 2) == "a, b"
    assert listed([1, 2, 3, 4], 2) == "1, 2 and 2 more"
    assert listed([], 2) == ""
