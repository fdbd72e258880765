"""Each form of secret is found wherever it stands, and what only looks like one is left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llmbx.entry.secrets import REDACTED, blank
from llmbx.record.masking import Masker

from .secret_examples import BESIDE, TOKENS, Example

PLACES = (
    "{}", "VALUE={}", "export VALUE='{}'", "declare -x VALUE=\"{}\"", '{"value": "{}", "x": 1}', "value: {}", "- {}",
    "value: '{}'  # comment", "run --value {} --steps 10", "run --value={}", "X-Value: {}", "> {} <", "<value>{}</value>",
    "GET https://x.example/path?value={}&b=1 HTTP/1.1", "{'value': '{}', 'x': 1}", "Settings(value='{}', x=1)", "({})",
    "[rank3]: ValueError: {} is wrong", "0: 12: 2026-01-01 12:00:00,123 - INFO - {}", "\x1b[1;32m{}\x1b[0m",
    "(worker pid=12, ip=10.0.0.1) \x1b[36m{}\x1b[0m", "first\\n{}\\nnext", '"{\\"value\\": \\"{}\\"}"', "value%3D{}",
    "a\t{}\tb", "{},{}", "`{}`",
)  # fmt: skip
"""Surroundings of a token."""

LINES = ("{}\n", "step 1\n[rank0]: {}\nstep 2\n", "2026-01-01T00:00:00Z node1 0: {}\n", "\x1b[36m(pid=1)\x1b[0m {}\n")
"""Surroundings of a text that names its secret."""


def ids(examples: tuple[Example, ...]) -> list[str]:
    return [example.name for example in examples]


def check(line: str, secret: str) -> None:
    """The secret is masked in bytes and in text, and nothing beside it."""
    before, _, after = line.partition(secret)
    masked = Masker({}).mask(line.encode()).decode()
    assert secret not in masked and secret[-12:] not in masked, masked
    assert masked.startswith(before) and masked.endswith(after.rpartition(secret)[2]), masked
    assert len(masked) == len(line)
    assert secret not in blank(line) and secret[-12:] not in blank(line) and REDACTED in blank(line)
    assert Masker({}).mask(masked.encode()).decode() == masked, "what is masked stays as it is"


def test_there_are_many_forms() -> None:
    assert len({example.name for example in (*TOKENS, *BESIDE)}) == len(TOKENS) + len(BESIDE) >= 69


@pytest.mark.parametrize("example", TOKENS, ids=ids(TOKENS))
def test_a_token_is_masked_in_every_place(example: Example) -> None:
    for place in PLACES:
        check(place.replace("{}", example.secret), example.secret)


@pytest.mark.parametrize("example", BESIDE, ids=ids(BESIDE))
def test_a_secret_beside_its_name_is_masked(example: Example) -> None:
    for place in LINES:
        check(place.replace("{}", example.text.replace("{}", example.secret)), example.secret)


HARMLESS = (Path(__file__).parent / "harmless_lines.txt").read_text().splitlines()


@pytest.mark.parametrize("line", HARMLESS)
def test_a_line_without_a_secret_is_left(line: str) -> None:
    for place in LINES:
        text = place.replace("{}", line)
        assert Masker({}).mask(text.encode()).decode() == text
        assert blank(text) == text
