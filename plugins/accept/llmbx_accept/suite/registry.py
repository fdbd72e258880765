"""The kinds of items by their names."""

from __future__ import annotations

from importlib import import_module

from .item import Kind

KINDS = {
    "doctor": "doctor",
    "speed": "speed",
    "each-node": "each_node",
    "pairs": "speed",
    "workload": "workload",
}
"""The module of each kind, which is imported when an item needs it."""


def kind(name: str) -> Kind:
    """The kind of this name."""
    of_module: Kind = import_module(f".kinds.{KINDS[name]}", __package__).KIND
    return of_module
