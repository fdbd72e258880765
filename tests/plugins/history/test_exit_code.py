"""The exit code of a run that is compared with a published figure: earlier repeats on its machine decide."""

from __future__ import annotations

from collections.abc import Sequence

import pluggy
import pytest

import llmbx_history.plugin as history
import llmbx_verdict.plugin as verdict
from llmbx import builtin, hookspecs
from llmbx.cli.workspace import Workspace
from llmbx.config.install import Install
from llmbx.config.profiles import Config
from llmbx.model import Reference, RunSpec, Stability
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


@pytest.mark.parametrize(
    ("earlier", "mean", "code"),
    [((), 1.063, 3), (RESTLESS, 1.063, 0), ((), 1.058, 0), (QUIET, 1.058, 3)],
    ids=["no earlier run", "a restless machine", "none, near the limit", "a quiet machine, near the limit"],
)
def test_earlier_repeats_decide_whether_one_run_is_slower_than_published(
    workspace: Workspace, run_factory: RunFactory, spec: RunSpec, toy: Toy, row: Reference,
    earlier: Sequence[float], mean: float, code: int, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    toy.references = (row,)
    for seed, past in enumerate(earlier):
        run_factory.put(noise(seed, past), result=STABLE)
    result = read_result(run_factory.put(noise(90, mean), result=STABLE).path)
    assert result is not None
    assert workspace.exit_code([result], spec, 0.05) == code
    assert (f"as of {len(earlier)} earlier repeats here" in capsys.readouterr().err) == bool(earlier)
