"""The documented exit codes: of one run, of several, and of a command that ends with an error."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from llmbx.cli.workspace import Workspace
from llmbx.config.install import Install
from llmbx.config.profiles import Config
from llmbx.model import Reference, Result, RunSpec, Stability
from llmbx.plugins.manager import Plugins
from llmbx.record.folder import read_result
from llmbx.run.pipeline import exit_code

from ...run_factory import RunFactory, Toy, noise, plugins, row, toy

__all__ = ["plugins", "row", "toy"]

Made = Callable[..., Result]
STABLE, NOISY = (Stability(verdict=verdict, reason="x") for verdict in ("stable", "noisy"))
ENDS: dict[str, dict[str, Any]] = {
    "valid": {},
    "failed": {"status": "failed"},
    "infrastructure": {"status": "node_fail"},
    "interrupted": {"status": "cancelled", "exit_code": 130},
}


@pytest.fixture
def workspace(plugins: Plugins, install: Install) -> Workspace:
    return Workspace(plugins, Config(), {}, install)


@pytest.fixture
def made(run_factory: RunFactory) -> Made:
    """`made(mean, **members)`: the result of a stored run of 50 steps with this mean step time in seconds."""

    def put(mean: float = 1.0, seed: int = 1, **members: Any) -> Result:
        members = {"comparable": True, "stability": STABLE, **members}
        result = read_result(run_factory.put(noise(seed, mean), result=members).path)
        assert result is not None
        return result

    return put


@pytest.mark.parametrize(
    ("status", "of_job", "code"),
    [
        ("completed", 0, 0),
        ("failed", 1, 1),
        ("failed", 2, 1),
        ("failed", 4, 4),
        ("failed", None, 1),
        ("timeout", 4, 1),
        ("out_of_memory", 137, 1),
        ("cancelled", 143, 1),
        ("cancelled", 130, 130),
        ("node_fail", 1, 4),
        ("preempted", None, 4),
        ("lost", None, 4),
    ],
)
def test_the_code_of_a_run_follows_from_its_status(made: Made, status: str, of_job: int | None, code: int) -> None:
    """4 as the code of a job means that it was not started by a fault of the infrastructure."""
    assert exit_code(made(status=status, exit_code=of_job)) == code


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        (["valid"], 0),
        (["valid", "failed"], 1),
        (["infrastructure", "valid"], 4),
        (["failed", "infrastructure"], 4),
        (["infrastructure", "failed"], 4),
        (["failed", "interrupted"], 130),
        (["infrastructure", "interrupted", "failed"], 130),
        ([], 0),
    ],
    ids=lambda ends: "+".join(ends) if isinstance(ends, list) else None,
)
def test_of_several_runs_the_code_says_first_what_a_script_must_know(
    made: Made, workspace: Workspace, spec: RunSpec, ends: list[str], code: int
) -> None:
    """An interruption ends the script, a fault of the infrastructure is worth another try elsewhere."""
    results = [made(**ENDS[end]) for end in ends]
    assert workspace.exit_code(results, spec, 0.05) == code


@pytest.mark.parametrize(
    ("mean", "allowed", "code", "line"),
    [
        (1.3, 0.05, 3, "slower than published: +30"),
        (1.3, 0.5, 0, "not slower than published by more than 50 %: +30"),
        (1.0, 0.05, 0, "not slower than published by more than 5 %: "),
        (0.7, 0.05, 0, "not slower than published by more than 5 %: -29.9"),
        (1.05, 0.05, 0, "no verdict against the published figure: +5"),
    ],
    ids=["slower", "more is allowed", "as published", "faster", "undecided"],
)
def test_a_valid_run_that_is_slower_than_published_is_3(
    made: Made, workspace: Workspace, spec: RunSpec, toy: Toy, row: Reference, mean: float, allowed: float, code: int,
    line: str, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    toy.references = (row,)
    assert workspace.exit_code([made(mean)], spec, allowed) == code
    assert capsys.readouterr().err.startswith(line)


@pytest.mark.parametrize(
    ("members", "steps", "code"),
    [
        ({"stability": NOISY}, 50, 5),
        ({"stability": NOISY}, 49, 0),
        ({"stability": NOISY, "comparable": False}, 50, 0),
        ({"stability": STABLE}, 50, 3),
    ],
    ids=["benchmark", "fewer steps than the recipe", "not comparable", "stable"],
)
def test_an_unstable_benchmark_is_5_and_never_called_slower(
    made: Made, workspace: Workspace, spec: RunSpec, toy: Toy, row: Reference, members: dict[str, Any], steps: int,
    code: int,
) -> None:  # fmt: skip
    toy.references = (row,)
    assert workspace.exit_code([made(1.3, **members)], spec.replace(steps=steps), 0.05) == code


def test_one_unstable_run_leaves_its_repeats_without_a_verdict_and_one_failed_run_fails_them(
    made: Made, workspace: Workspace, spec: RunSpec, toy: Toy, row: Reference
) -> None:
    toy.references = (row,)
    slow, noisy, failed = made(1.3), made(1.3, stability=NOISY), made(**ENDS["failed"])
    assert workspace.exit_code([slow, noisy], spec, 0.05) == 5
    assert workspace.exit_code([slow, noisy, failed], spec, 0.05) == 1


FAILING = """
import sys
import click
from llmbx import errors
from llmbx.cli import main

expression = sys.argv.pop()

def fail(**options):
    raise eval(expression)

main.cli.main = fail
main.main()
"""


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        ("errors.UsageError('no such size')", 2, "llmbx: no such size"),
        ("errors.PluginError('a plugin is faulty')", 2, "llmbx: a plugin is faulty"),
        ("errors.InfraError('the registry is down')", 4, "llmbx: the registry is down"),
        ("errors.LlmbxError('it failed')", 1, "llmbx: it failed"),
        ("errors.Terminated('SIGTERM')", 130, "llmbx: interrupted"),
        ("click.UsageError('no such option')", 2, "llmbx: no such option; see `llmbx --help`"),
        ("SystemExit('a text')", 1, ""),
        ("SystemExit(3)", 3, ""),
    ],
)
def test_a_command_that_ends_with_an_error_has_its_code_and_one_line(error: str, code: int, line: str) -> None:
    done = subprocess.run([sys.executable, "-c", FAILING, error], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip(), done.stdout) == (code, line, "")
