"""The row that a run would have: a combination that the catalog does not have is an error here."""

from __future__ import annotations

from typing import Any

from llmbx.catalog.workloads import choose
from llmbx.errors import UsageError
from llmbx.model import Recipe, Row, Workload


def find(workload: Workload, **combination: Any) -> tuple[Recipe, Row]:
    choice = choose(workload, **combination)
    if problems := [finding for finding in choice.findings if not finding.warning]:
        raise UsageError("; ".join(f"{finding.problem}: {finding.fix}" for finding in problems))
    return choice.recipe, choice.row
