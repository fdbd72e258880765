"""How much the step time varies from run to run on a machine, from the repeats that its install has."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.api.verbs import Install, Plugins
from llmbx_verdict.statistics.run_variation import PUBLISHED, Spread, learned

from .measured import Measured, MeasuredRun


def spread_of(install: Install, runs: Sequence[Measured], plugins: Plugins) -> Spread:
    """The spread from run to run of earlier repeats of the work of `runs` (`History.earlier_repeats`).

    The runs themselves do not count: they are judged by it. Without any, and if a log is compared, it is that of
    published repeats, as for more than two runs, whose own means tell it.
    """
    compared = [run for run in runs if isinstance(run, MeasuredRun)]
    if not compared or len(compared) < len(runs) or len(runs) > 2:
        return PUBLISHED
    names = {run.name for run in compared}
    return learned(plugins.history.earlier_repeats(install, compared[-1].run, plugins, names))
