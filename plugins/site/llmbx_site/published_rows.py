"""Compare every published configuration of a workload whose upstream's configuration is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from llmbx.api import ExpectedConfiguration, Workload
from llmbx.api.verbs import Workspace, print_json, print_rows, scales_of

from .final_configuration import build_final

if TYPE_CHECKING:
    from llmbx.api import RunSpec
    from llmbx.api.verbs import Request

COLUMNS = ("recipe", "size", "dtype", "gpu_type", "gpus", "compared", "differ", "permitted")


class PublishedRows:
    """The rows of a request that names a workload, and perhaps a recipe, only."""

    def __init__(self, request: Request, workspace: Workspace) -> None:
        """Resolve them: `known` have upstream's configuration, `unknown` counts others by recipe.

        A mini's recipe has any number of GPUs, and counts none.
        """
        self.workspace = workspace
        self.known: list[tuple[RunSpec, ExpectedConfiguration]] = []
        workload = workspace.plugins.workload(request.workload, request.plugin)
        names = [recipe.name for recipe in workload.recipes]
        self.unknown = Counter({name: 0 for name in names if request.recipe in (None, name)})
        for named in _requests(request.replace(plugin=workload.plugin), workload):
            spec = workspace.resolve(named)
            framework = workspace.plugins.framework(spec.plugin)
            expected = framework.expect_configuration(spec, None)
            if expected is not None and expected.upstream is not None:
                self.known.append((spec, expected))
            else:
                self.unknown[spec.recipe] += 1

    def report(self, format_: str) -> bool:
        """Build and compare them. Returns whether a field differs that is not permitted to."""
        self.workspace.install.ensure()
        rows = [self._row(spec, expected) for spec, expected in self.known]
        if format_ == "json":
            print_json(rows)
        else:
            counted = [{**row, "differ": len(row["differ"])} for row in rows]
            print_rows(counted, COLUMNS, format_, empty="nothing was compared")
        click.echo(self._note(rows), err=True)
        return any(row["differ"] for row in rows)

    def _row(self, spec: RunSpec, expected: ExpectedConfiguration) -> dict[str, Any]:
        click.echo(f"{spec.workload} {spec.configuration_key} ({spec.recipe})", err=True)
        final = build_final(spec, self.workspace)
        differences = expected.differences(final)
        wrong = [difference.row() for difference in differences if difference.reason is None]
        return {
            "recipe": spec.recipe,
            "size": spec.size,
            "dtype": spec.dtype,
            "gpu_type": spec.gpu_type,
            "gpus": spec.gpus,
            "compared": len(expected.compared(final)),
            "differ": wrong,
            "permitted": len(differences) - len(wrong),
        }

    def _note(self, rows: list[dict[str, Any]]) -> str:
        values = sum(row["compared"] for row in rows)
        wrong = sum(len(row["differ"]) for row in rows)
        note = f"{len(rows)} configurations with {values} fields compared: {wrong} differ"
        compared = {spec.recipe for spec, _ in self.known}
        others = [
            f"{name} ({count})" if count else name
            for name, count in self.unknown.items()
            if count or name not in compared
        ]
        return f"{note}; upstream's are not known for {', '.join(others)}" if others else note


def _requests(request: Request, workload: Workload) -> Iterator[Request]:
    """A request for each published configuration; rows for any GPU, the minis', have none."""
    for recipe in workload.recipes:
        if request.recipe not in (None, recipe.name):
            continue
        for row in recipe.rows:
            for gpu_type in row.gpu_types:
                for dtype in row.dtypes:
                    for gpus in scales_of(row.gpus):
                        yield request.replace(
                            recipe=recipe.name,
                            size=row.size,
                            dtype=dtype,
                            gpu_type=gpu_type,
                            gpus=gpus,
                        )
