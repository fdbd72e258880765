"""The kinds of items by their names. A kind whose module is missing is not checked."""

from __future__ import annotations

from importlib import import_module

from .item import Item, Kind, Outcome, Site

KINDS = {
    "doctor": "facts.item",
    "speed": "speed.item",
    "each-node": "each.item",
    "pairs": "speed.pairs",
    "workload": "suite.workload",
}
"""The module of each kind, in this package."""


class Missing(Kind):
    """Stands for a kind that this build does not have."""

    def hours(self, item: Item, site: Site) -> tuple[float | None, str]:
        """Nothing runs."""
        return 0.0, "is not run"

    def check(self, item: Item, site: Site) -> Outcome:
        """Not checked."""
        return Outcome.not_checked(item, f"this version of llmbx cannot check {item.kind}")


def kind(name: str) -> Kind:
    """The kind of this name."""
    package = __package__.rpartition(".")[0]
    try:
        module = import_module(f"{package}.{KINDS[name]}")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(package):
            raise
        return Missing()
    of_module: Kind = module.KIND
    return of_module
