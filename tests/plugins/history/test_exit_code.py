"""The exit code of a run that is compared with a published figure: earlier repeats on its machine decide."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pluggy
import pytest
from click.testing import CliRunner

import llmbx_history.plugin as history
import llmbx_verdict.plugin as verdict
from llmbx import builtin, hookspecs
from llmbx.cli import run
from llmbx.cli.workspace import Workspace
from llmbx.config.install import Install
from llmbx.config.profiles import Config
from llmbx.model import Reference, Result, RunSpec, Stability
from llmbx.plugins.manager import Plugins
from llmbx.record.folder import read_result

from ...run_factory import RunFactory, Toy, noise, row, toy

__all__ = ["row", "toy"]

STABLE = {"comparable": True, "stability": Stability(verdict="stable", reason="x")}
QUIET, RESTLESS = (1.0, 1.0005, 0.9995, 1.0, 1.0005), (1.0, 1.03, 0.98, 1.02, 0.97)


@pytest.fixture
def workspace(toy: Toy, install: Install) -> Workspace:
    registry = pluggy.PluginManager("llmbx")
    registry.add_hookspecs(hookspecs)
    for name, plugin in {"toy": toy, "local": builtin, "history": history, "verdict": verdict}.items():
        registry.register(plugin, name=name)
    return Workspace(Plugins(registry, []), Config(), {}, install)


@pytest.fixture
def measured(run_factory: RunFactory, toy: Toy, row: Reference) -> Callable[..., Result]:
    """`measured(earlier, mean)`: the result of a run of this mean step time after such repeats."""
    toy.references = (row,)

    def put(earlier: Sequence[float], mean: float) -> Result:
        for seed, past in enumerate(earlier):
            run_factory.put(noise(seed, past), result=STABLE)
        result = read_result(run_factory.put(noise(90, mean), result=STABLE).path)
        assert result is not None
        return result

    return put


@pytest.mark.parametrize(
    ("earlier", "mean", "code"),
    [((), 1.063, 3), (RESTLESS, 1.063, 0), ((), 1.058, 0), (QUIET, 1.058, 3)],
    ids=["no earlier run", "a restless machine", "none, near the limit", "a quiet machine, near the limit"],
)
def test_earlier_repeats_decide_whether_one_run_is_slower_than_published(
    workspace: Workspace, measured: Callable[..., Result], spec: RunSpec,
    earlier: Sequence[float], mean: float, code: int, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert workspace.exit_code([measured(earlier, mean)], spec, 0.05) == code
    assert (f"as of {len(earlier)} earlier repeats here" in capsys.readouterr().err) == bool(earlier)


@pytest.mark.parametrize(
    ("earlier", "tolerance", "code"),
    [((), "5%", 3), (RESTLESS, "5%", 0), (RESTLESS, "0%", 0), ((), "20%", 0)],
    ids=["no earlier run", "a restless machine", "no slowdown allowed there", "more is allowed"],
)
def test_the_command_ends_with_the_code_that_earlier_repeats_decide(
    workspace: Workspace, measured: Callable[..., Result], monkeypatch: pytest.MonkeyPatch,
    earlier: Sequence[float], tolerance: str, code: int,
) -> None:  # fmt: skip
    """Its job is a stored run: nothing is started, so that no clock decides."""
    result = measured(earlier, 1.063)
    monkeypatch.setattr(run, "load_workspace", lambda output: workspace)
    monkeypatch.setattr(run, "once", lambda *args, **options: result)
    asked = ("line", "--size", "1b", "--gpu-type", "h100", "--gpus", "8", "--format", "json")
    done = CliRunner().invoke(run.command, [*asked, "--tolerance", tolerance])
    assert done.exit_code == code, done.exception or done.output
    assert (f"as of {len(earlier)} earlier repeats here" in done.stderr) == bool(earlier)
