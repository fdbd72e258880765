"""Verbs of third parties: named when they fail, and never in the place of llmbx's own."""

from __future__ import annotations

import shutil

import pytest

from .conftest import Llmbx, Package

VERB = '''
    """Mine, and mine alone."""
    import click

    @click.command()
    def command():
        click.echo("MINE")
'''


def test_a_verb_is_listed_by_its_first_line_and_works(package: Package, llmbx: Llmbx) -> None:
    package("good", VERB, plugins=(), verbs=("mine",))
    assert "Mine, and mine alone." in llmbx("--help").stdout
    assert llmbx("mine").stdout == "MINE\n"


def test_the_verbs_of_llmbx_stay_its_own(package: Package, llmbx: Llmbx) -> None:
    package("thief", VERB, plugins=(), verbs=("list",))
    done, told = llmbx("list"), "command 'list' of llmbx-thief is ignored: the name is reserved by llmbx"
    assert "grok1" in done.stdout and told in done.stderr
    assert "Mine" not in llmbx("--help").stdout


def test_a_verb_that_two_packages_claim_names_both(package: Package, llmbx: Llmbx) -> None:
    for name in ("one", "two"):
        package(name, VERB, plugins=(), verbs=("mine",))
    done = llmbx("mine")
    assert done.returncode == 2 and "'mine' is provided by llmbx-one and by llmbx-two" in done.stderr
    assert "(provided by llmbx-one and by llmbx-two)" in llmbx("--help").stdout
    assert llmbx("list").returncode == 0


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("raise ValueError('boom')", "command 'mine' (llmbx-odd) cannot be loaded: ValueError: boom"),
        ("import sys; sys.exit(7)", "command 'mine' (llmbx-odd) cannot be loaded: SystemExit: 7"),
        ("command = 5", "command 'mine' (third_odd:command) is not a click command"),
        (VERB.replace('click.echo("MINE")', "1 / 0"), "command 'mine' (llmbx-odd) failed: ZeroDivisionError"),
    ],
)
def test_a_verb_that_fails_is_named(package: Package, llmbx: Llmbx, code: str, says: str) -> None:
    package("odd", code, plugins=(), verbs=("mine",))
    plain, debug = llmbx("mine"), llmbx("mine", LLMBX_DEBUG="1")
    assert plain.returncode == 2 and says in plain.stderr and "Traceback" not in plain.stderr
    assert ("Traceback" in debug.stderr) == ("Error" in says or "Exit" in says)


def test_a_verb_may_exit_as_it_likes(package: Package, llmbx: Llmbx) -> None:
    package("good", VERB.replace('click.echo("MINE")', "raise SystemExit(7)"), plugins=(), verbs=("mine",))
    assert llmbx("mine").returncode == 7


def test_the_help_lists_verbs_in_groups_and_each_once(package: Package, llmbx: Llmbx) -> None:
    package("one", VERB, plugins=(), verbs=("mine",))
    blocks = [block.splitlines() for block in llmbx("--help").stdout.split("\n\n")]
    groups = {lines[0]: [line.split()[0] for line in lines[1:] if line[2] != " "] for lines in blocks[3:-1]}
    assert groups["Start:"] == ["init", "doctor", "list", "show"]
    assert groups["Follow runs:"] == ["jobs", "status", "logs", "cancel"] and "mine" in groups["Analyze:"]
    verbs = [verb for group in groups.values() for verb in group]
    assert sorted({*verbs}) == sorted(verbs) and {"run", "sweep", "plugins", "mine"} <= {*verbs}


def test_help_tells_a_verb_whose_package_is_gone(package: Package, llmbx: Llmbx) -> None:
    file = package("gone", VERB, plugins=(), verbs=("mine",))
    file.unlink()
    shutil.rmtree(file.parent / "__pycache__", ignore_errors=True)
    (line,) = (line for line in llmbx("--help").stdout.splitlines() if line.strip().startswith("mine"))
    assert line.split(maxsplit=1)[1] == "(cannot be loaded)"


def test_a_command_of_a_verb_is_an_entry_point_whose_name_has_a_dot(package: Package, llmbx: Llmbx) -> None:
    package("good", VERB, plugins=(), verbs=("plugins.mine",))
    assert "mine     Mine, and mine alone." in llmbx("plugins", "--help").stdout
    assert llmbx("plugins", "mine").stdout == "MINE\n"
    assert "mine" not in llmbx("--help").stdout
    done = llmbx("plugins", "mime")
    assert done.returncode == 2 and "no command named 'mime' (did you mean 'mine'?)" in done.stderr


@pytest.mark.parametrize("name", ["enable", "check"])
def test_the_commands_of_a_verb_of_llmbx_stay_its_own(package: Package, llmbx: Llmbx, name: str) -> None:
    package("thief", VERB, plugins=(), verbs=(f"plugins.{name}",))
    done = llmbx("plugins", name, "--help")
    assert f"Usage: llmbx plugins {name}" in done.stdout
    assert f"command 'plugins {name}' of llmbx-thief is ignored: the name is reserved by llmbx" in done.stderr


def test_a_command_of_a_verb_that_fails_is_named(package: Package, llmbx: Llmbx) -> None:
    package("odd", VERB.replace('click.echo("MINE")', "1 / 0"), plugins=(), verbs=("plugins.mine",))
    done = llmbx("plugins", "mine")
    assert done.returncode == 2 and "command 'plugins mine' (llmbx-odd) failed: ZeroDivisionError" in done.stderr
