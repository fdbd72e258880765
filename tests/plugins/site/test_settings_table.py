"""The lines of `llmbx show`: one for each value, origins by short names."""

from __future__ import annotations

from llmbx_site.settings_table import lines

LONG = "recipe x (a source with a long name, of a table)"


def row(setting: str, value: str, origin: str) -> dict[str, str]:
    return {"setting": setting, "value": value, "origin": origin}


def test_long_origins_are_in_a_legend() -> None:
    rows = [
        row("size", "8b", "--size"),
        row("tp", "4", LONG),
        row("dp", "2", "the number of GPUs"),
        row("env.A_LONG_NAME", "1", LONG),
    ]
    assert list(lines(rows, 80)) == [
        "size  8b  --size",
        "tp    4   recipe [1]",
        "dp    2   [2]",
        "",
        "env.A_LONG_NAME  1  recipe [1]",
        "",
        f"[1] {LONG}",
        "[2] the number of GPUs",
    ]


def test_no_word_is_broken() -> None:
    path, words = "/a/path/of/more/than/the/room.sqsh", "some words that are too long for it"
    rows = [row("image", path, "--image"), row("published", words, LONG)]
    shown = list(lines(rows, 40))
    assert shown[0] == f"image      {path}  --image"
    assert shown[1:] == [
        "published  some words that    recipe [1]",
        "           are too long for",
        "           it",
        "",
        "[1] recipe x (a source with a long name,",
        "    of a table)",
    ]


def test_through_a_pipe_every_value_has_one_line() -> None:
    rows = [row("published", "word " * 40 + "end", "x" * 90)]
    assert len(list(lines(rows, None))) == 3
