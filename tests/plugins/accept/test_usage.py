"""What the checks of nodes refuse, in one line and before anything is started."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from llmbx.errors import UsageError
from llmbx_accept.cli import command
from llmbx_site.doctor import command as doctor
from llmbx_sweep.cli import command as sweep


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("grok1", "--nodes", "n1"), "at least two nodes"),
        (("grok1", "--nodes", "n[1-4]", "--gpus", "8"), "--gpus cannot be combined"),
        (("grok1", "--nodes", "n[1-4]", "--detect", "0%"), "more than 0 %"),
        (("--nodes", "n[1-4]"), "no workload"),
        (("grok1", "--size", "mini", "--launcher", "local", "--nodes", "n[1-4]"), "cannot choose nodes"),
    ],
)
def test_what_cannot_be_searched_is_refused(
    arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path))
    with pytest.raises(UsageError, match=message):
        CliRunner().invoke(command, ["bisect", *arguments], catch_exceptions=False, standalone_mode=False)


LOCAL = ("grok1", "--size", "mini", "--launcher", "local")


@pytest.mark.parametrize(
    ("verb", "arguments", "message"),
    [
        (command, ("speed", "--nodes", "n[1-4]"), "no workload"),
        (command, ("speed", *LOCAL, "--nodes", "n[1-4]"), "cannot choose nodes"),
        (command, ("speed", *LOCAL, "--nodes", "n[4-1]"), "not a list of ranges"),
        (doctor, ("--gpu-type", "h100"), "need --nodes"),
        (doctor, ("--nodes", "n[1-"), "expected a list such as"),
        (sweep, (*LOCAL, "--each-node", "n[1-4]"), "cannot choose nodes"),
    ],
)
def test_nodes_that_cannot_be_reached_are_refused(
    verb: click.Command, arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path))
    with pytest.raises(UsageError, match=message):
        CliRunner().invoke(verb, [*arguments], catch_exceptions=False, standalone_mode=False)
