"""Which nodes no job can start on, by `sinfo`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .commands import call

UNUSABLE = ("down", "drain", "fail", "error", "inval", "unknown", "future")
"""Beginnings of the states (sinfo(1), NODE STATE CODES) in which a node takes no job until somebody changes it."""


def unusable(nodes: Sequence[str], command: Callable[..., str] = call) -> dict[str, str]:
    """The nodes on which no job can start, each with its state and the administrator's reason.

    Raises `InfraError` if the controller does not respond.
    """
    output = command("sinfo", "--Node", "--noheader", f"--nodes={','.join(nodes)}", "--format=%N|%T|%E")
    states: dict[str, str] = {}
    for line in output.splitlines():
        name, _, state = line.strip().partition("|")
        states[name] = state
    return {node: why for node in nodes if (why := _why(states.get(node)))}


def _why(state: str | None) -> str | None:
    """Why no job can start on a node in this state (`drained|a reason`); None if one can."""
    if state is None:
        return "not a node of this cluster"
    name, _, reason = state.partition("|")
    if not name.startswith(UNUSABLE):
        return None
    return name.rstrip("*") if reason in ("", "none") else f"{name.rstrip('*')}: {reason}"
