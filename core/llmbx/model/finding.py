"""A broken rule, and how to fix it."""

from __future__ import annotations

from typing import Literal

from .base import Value

Effect = Literal["failed", "invalid", "not comparable", "warning"]
"""What a finding does to a run: `failed` keeps valid data and fails the run; `invalid` also discards the data."""


class Finding(Value, frozen=True):
    """One broken rule: the problem and how to fix it."""

    rule: str
    """Identifier of the rule, recorded if `--force` overrides it."""
    problem: str
    """What is wrong, in a few words."""
    fix: str
    """How to fix it, with the option to set."""
    warning: bool = False
    """Whether it is only reported and never stops a run."""
    ranks: tuple[int, ...] = ()
    """The ranks that it is about, if known."""
    node: str | None = None
    """Their node, if it is one."""


def absent(reason: str | None) -> Finding | None:
    """The finding of a tool that is not installed here for this reason; None if there is none."""
    return None if reason is None else Finding(rule="available", problem=reason, fix="", warning=True)
