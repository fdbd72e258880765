"""Options that third-party plugins add to verbs of llmbx."""

from __future__ import annotations

import pytest

from .conftest import Llmbx, Package

TWICE = """
import click
from llmbx.api import UsageError
from llmbx.api.verbs import Extension

class Twice(Extension):
    options = (click.Option(["--twice"], metavar="WORD", help="Say it twice."),)
    text = "--twice says the workload and WORD."
    example = "llmbx run grok1 --twice now"

    def act(self, call, values):
        twice = values["twice"]
        if twice == "no":
            raise UsageError("--twice no: expected another word")
        if twice == "bug":
            raise KeyError("lost")
        print(call.spec.workload, twice, call.repeat)
        return None if twice == "go on" else 3

extension = Twice()
"""

DRY = ("run", "--plugin", "nemo", "grok1", "--dry-run")


def test_an_option_replaces_what_the_verb_does_or_lets_it_go_on(package: Package, llmbx: Llmbx) -> None:
    package("twice", TWICE, plugins=(), options=("run.twice",))
    done = llmbx(*DRY, "--twice", "now")
    assert (done.returncode, done.stdout) == (3, "grok1 now 1\n"), done.stderr
    done = llmbx(*DRY, "--twice", "go on")
    assert done.returncode == 0 and done.stdout.startswith("grok1 go on 1\n") and "a rank runs" in done.stdout
    done = llmbx(*DRY)
    assert done.returncode == 0 and "grok1 go on" not in done.stdout


def test_its_help_is_part_of_the_help_of_the_verb(package: Package, llmbx: Llmbx) -> None:
    package("twice", TWICE, plugins=(), options=("run.twice",))
    text = llmbx("run", "--help").stdout
    assert "--twice WORD" in text and "Say it twice." in text
    assert text.index("--twice says the workload") < text.index("Examples:") < text.index("grok1 --twice now")
    assert "--twice" not in llmbx("list", "--help").stdout


@pytest.mark.parametrize(
    ("word", "code", "says"),
    [
        ("no", 2, "llmbx: --twice no: expected another word\n"),
        ("bug", 2, "the options run.twice (llmbx-twice) failed: KeyError: 'lost'"),
    ],
)
def test_errors_are_one_line(package: Package, llmbx: Llmbx, word: str, code: int, says: str) -> None:
    package("twice", TWICE, plugins=(), options=("run.twice",))
    done = llmbx(*DRY, "--twice", word)
    assert done.returncode == code and says in done.stderr and "Traceback" not in done.stderr


UNUSABLE = {
    "absent": ("import nothing_like_this", "No module named 'nothing_like_this'"),
    "number": ("extension = 5", "third_number:extension is not an Extension"),
    "taken": (TWICE.replace('--twice"]', '--gpus"]'), "`llmbx run` has another --gpus"),
    "added": (TWICE.replace('--twice"]', '--against"]'), "`llmbx run` has another --against"),
}


def test_what_cannot_be_used_is_ignored_and_said(package: Package, llmbx: Llmbx) -> None:
    for name, (code, _) in UNUSABLE.items():
        package(name, code, plugins=(), options=(f"run.{name}",))
    done = llmbx(*DRY)
    assert done.returncode == 0, done.stderr
    for name, (_, says) in UNUSABLE.items():
        beginning = f"the options run.{name} (llmbx-{name}) are ignored: "
        (line,) = (line for line in done.stderr.splitlines() if beginning in line)
        assert says in line
