"""`llmbx doctor --nodes`: the facts of every node in one table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from llmbx.api import Launcher, plural
from llmbx.api.verbs import Extension, Workspace, print_json, print_rows

if TYPE_CHECKING:
    from .judge import Cell, Inspection

COLUMNS = ("check", "severity", "action", "nodes", "state", "detail")
CELLS = ("node", "check", "state", "severity", "action", "value", "reason")

MOST_NODES = 4
"""Nodes that a line names before it counts the others."""


class Nodes(Extension):
    """Check the nodes of a cluster instead of this machine's tools."""

    options = (
        click.Option(
            ["--nodes", "node_list"],
            is_flag=False,
            flag_value="",
            metavar="[LIST]",
            help="Check nodes, n1,n2 or n[01-16]. [default: the allocation, else this machine]",
        ),
        click.Option(["--gpu-type"], metavar="TYPE", help="With --nodes: the type of GPUs that nodes must have."),
        click.Option(
            ["--gpus-per-node"], type=click.IntRange(min=1), metavar="N", help="With --nodes: GPUs of a node."
        ),
        click.Option(["--cuda"], metavar="X.Y", help="With --nodes: release of CUDA in the image that will run."),
    )
    text = (
        "--nodes reads the facts of every node at the same time (GPUs, links, processors, memory, clocks, container "
        "tools) and judges them by limits and by the other nodes. A node needs Python 3.8, and nothing of llmbx. What "
        "cannot be read is not checked."
    )
    example = "llmbx doctor --nodes n[01-16] --gpu-type h100"

    def act(self, call: Any, values: Mapping[str, Any]) -> int | None:
        """Print what was found, and return 4 if a node has an error."""
        from llmbx.api import UsageError

        from .inspect import ask_nodes

        if values["node_list"] is None:
            raise UsageError("--gpu-type, --gpus-per-node and --cuda need --nodes")
        nodes = Launcher.node_names(values["node_list"])
        gpu_type, gpus = _expected(call.workspace, values)
        inspection = ask_nodes(
            call.workspace, nodes, gpu_type=gpu_type, gpus=gpus, cuda=values["cuda"],
            say=lambda line: click.echo(f"llmbx: {line}", err=True),
        ).inspection  # fmt: skip
        _print(inspection, call.format)
        return inspection.exit_code


def _expected(workspace: Workspace, values: Mapping[str, Any]) -> tuple[str | None, int | None]:
    """Type and number of the GPUs of a node, from options, else from the cluster profile."""
    profile = workspace.profile()
    cluster = profile.cluster if profile else None
    gpu_type = values["gpu_type"] or (cluster.gpu_type if cluster else None)
    return gpu_type, values["gpus_per_node"] or (cluster.gpus_per_node if cluster else None)


def _print(inspection: Inspection, format_: str) -> None:
    if format_ == "json":
        print_json({"nodes": inspection.nodes, "isolate": inspection.isolate, "cells": list(_cells(inspection))})
    elif format_ == "csv":
        print_rows(list(_cells(inspection)), CELLS, format_)
    else:
        print_rows(list(_lines(inspection)), COLUMNS, format_)
        click.echo(_summary(inspection), err=True)


def _cells(inspection: Inspection) -> Iterator[dict[str, Any]]:
    checks = {check.id: check for check in inspection.checks}
    for cell in inspection.cells:
        check = checks[cell.check]
        yield {
            "node": cell.node, "check": cell.check, "state": cell.state, "severity": check.severity,
            "action": check.action, "value": cell.value, "reason": cell.reason,
        }  # fmt: skip


def _lines(inspection: Inspection) -> Iterator[dict[str, Any]]:
    """One line for each check and finding, whose nodes are named together; then what was not checked, by reason."""
    unread: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for check in inspection.checks:
        groups: dict[tuple[str, str], list[Cell]] = {}
        for cell in inspection.cells:
            if cell.check != check.id:
                continue
            if cell.state == "not checked":
                names, nodes = unread.setdefault(cell.reason or "", ({}, {}))
                names[check.id], nodes[cell.node] = None, None
            else:
                groups.setdefault((cell.state, cell.reason or ""), []).append(cell)
        for (state, reason), members in groups.items():
            yield {
                "check": check.id,
                "severity": check.severity if reason else "",
                "action": check.action if reason else "",
                "nodes": _names([cell.node for cell in members], len(inspection.nodes)),
                "state": state,
                "detail": reason or _value(members),
            }
    for reason, (names, nodes) in unread.items():
        yield {
            "check": _shortened(list(names)),
            "nodes": _names(list(nodes), len(inspection.nodes)),
            "state": "not checked",
            "detail": reason,
        }


def _value(cells: Sequence[Cell]) -> str:
    values = {cell.value or "" for cell in cells}
    return values.pop() if len(values) == 1 else "different values"


def _shortened(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _names(nodes: Sequence[str], total: int) -> str:
    if len(nodes) == total and total > 1:
        return f"all {total}"
    more = f" and {len(nodes) - MOST_NODES} more" if len(nodes) > MOST_NODES else ""
    return ", ".join(nodes[:MOST_NODES]) + more


def _summary(inspection: Inspection) -> str:
    unchecked = {
        check.id
        for check in inspection.checks
        if all(cell.state == "not checked" for cell in inspection.cells if cell.check == check.id)
    }
    text = (
        f"{plural(len(inspection.nodes), 'nodes')}, {plural(len(inspection.checks), 'checks')}, of which "
        f"{len(unchecked)} could not be checked; {plural(len(inspection.faults), 'findings')}"
    )
    isolate = inspection.isolate
    return f"{text}; leave out: {','.join(isolate)}" if isolate else text


NODES = Nodes()
