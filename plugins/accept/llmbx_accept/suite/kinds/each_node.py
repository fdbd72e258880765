"""The items that train on each node alone: a sweep over the nodes, which is resumed as sweeps are."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from llmbx.api import NOT_JSON, Column, InfraError, Result, RunFolder, RunSpec, Table, mean_of, plural
from llmbx_verdict.statistics.outliers import PRIOR_OF_RUNS, places

from ..item import Item, Judged, Kind, Outcome, Site, Verdict
from .workload import run_hours

TITLES = (
    "node",
    "repeats",
    "step time",
    "slower than the others",
    "against the prediction",
    "slow",
)


class EachNode(Kind):
    """Runs `llmbx sweep --each-node`, which compares each node with the others."""

    def hours(self, item: Item, site: Site) -> tuple[float | None, str]:
        """All nodes train at the same time."""
        assert item.spec is not None
        hours, source = run_hours(item.spec, site)
        return (None if hours is None else hours * item.repeats), source

    def check(self, item: Item, site: Site) -> Outcome:
        """Run the sweep, or go on with it."""
        if not item.nodes:
            return Outcome.not_checked(item, "the nodes are not known: name them with --nodes")
        assert item.spec is not None
        tag = re.sub(r"[^A-Za-z0-9.]+", "-", f"{site.acceptance} {item.key} {site.since or ''}").strip("-")
        sweep_id = _started(site, tag)
        arguments = ["--resume", sweep_id] if sweep_id else _options(item, item.spec, site, tag)
        rows = _sweep([*arguments, *(["--offline"] if site.offline else []), "--format", "json"])
        outcome: Outcome = judged(item, rows).replace(evidence={"rows": rows})
        return outcome

    def derive(self, item: Item, outcome: Outcome, results: Sequence[Result], site: Site) -> Outcome | None:
        """Compare the nodes again by the results; the prediction beside them is taken from the sweep."""
        if not outcome.evidence:
            return None
        derived: Outcome = judged(item, _compared(outcome.evidence["rows"], results))
        return derived.replace(evidence=outcome.evidence)


def judged(item: Item, rows: Sequence[Mapping[str, Any]]) -> Outcome:
    """The outcome of a sweep's rows: slow nodes fail it, and nodes whose runs did."""
    slow = {
        str(row["node"]): f"{100 * (row['slower'] or 0):.1f} % slower than the others alone"
        for row in rows
        if row.get("slow")
    }
    failed = {
        str(row["node"]): f"{row['status']}: {row['cause']}"
        for row in rows
        if row["status"] not in ("completed", "missing")
    }
    open_ = [str(row["node"]) for row in rows if row["status"] == "missing" or row.get("slow") is None]
    suspects, allowed = {**slow, **failed}, item.criteria.suspects or 0
    verdict: Verdict
    if failed or len(suspects) > allowed:
        verdict, reason = "fail", "; ".join(f"{node}: {why}" for node, why in suspects.items())
    elif open_ or not rows:
        verdict, reason = "not checked", f"not decided for {', '.join(open_) or 'any node'}"
    else:
        verdict, reason = "pass", f"{plural(len(rows), 'nodes')}, none slower than the others"
    by_nodes = Outcome.of_suspects(item, verdict, suspects, reason, _table(rows))
    runs_failed = (Judged(criterion="runs", verdict="fail", reason="runs failed"),) if failed else ()
    outcome: Outcome = by_nodes.replace(
        judged=(*by_nodes.judged, *runs_failed), runs=tuple(run for row in rows for run in row["runs"])
    )
    return outcome


def _compared(rows: Sequence[Mapping[str, Any]], results: Sequence[Result]) -> list[dict[str, Any]]:
    """The rows of a sweep with what the results of their runs say."""
    valid = {result.run_id: result.step_time_s.mean for result in results if result.data_valid}
    times = {row["node"]: [mean for run in row["runs"] if (mean := valid.get(run))] for row in rows}
    standing = places({node: means for node, means in times.items() if means}, prior=PRIOR_OF_RUNS)
    compared = []
    for row in rows:
        place, means = standing.get(row["node"]), times[row["node"]]
        figures = {"slower": place.slower, "slow": place.slow} if place else {"slower": None, "slow": None}
        compared.append({**row, **figures, "n": len(means), "step_time_s": mean_of(means) if means else None})
    return compared


def _options(item: Item, spec: RunSpec, site: Site, tag: str) -> list[str]:
    """The options of a new sweep of this work on each node."""
    given = {
        "plugin": spec.plugin,
        "size": spec.size,
        "dtype": spec.dtype,
        "gpu-type": spec.gpu_type,
        "gpus": spec.gpus,
        "gpus-per-node": spec.gpus_per_node,
        "recipe": spec.recipe,
        "steps": spec.steps,
        "repeats": item.repeats,
        "each-node": ",".join(item.nodes),
        "tag": tag,
        "cluster": site.request.cluster,
        "launcher": site.request.launcher,
        "runtime": site.request.runtime,
    }
    options = [word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))]
    pairs = [f"{key}={value}" for key, value in item.set.items()]
    return [spec.workload, *options, *(word for pair in pairs for word in ("--set", pair))]


def _started(site: Site, tag: str) -> str | None:
    """The sweep that has this tag: the plan of a sweep is in a file of its folder."""
    for path in sorted(site.workspace.install.path.glob("sweeps/*/sweep.json")):
        folder = RunFolder(path=path.parent)
        if folder.own and f'"{tag}"'.encode() in folder.read(path.name):
            return path.parent.name
    return None


def _sweep(arguments: Sequence[str]) -> list[dict[str, Any]]:
    """Run a sweep in a process of its own; its progress goes to stderr. Raises `InfraError` if it printed no rows."""
    done = subprocess.run([sys.executable, "-m", "llmbx", "sweep", *arguments], stdout=subprocess.PIPE, check=False)
    if done.returncode == 130:
        raise KeyboardInterrupt
    try:
        rows: list[dict[str, Any]] = msgspec.json.decode(done.stdout)
    except NOT_JSON:
        raise InfraError(f"the sweep over the nodes ended with exit code {done.returncode}; see above") from None
    return rows


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    lines = tuple(
        (
            str(row["node"]),
            f"{row['n']}/{row['repeats']}",
            None if row["step_time_s"] is None else f"{row['step_time_s']:.4g} s",
            None if row["slower"] is None else f"{100 * row['slower']:+.1f} %",
            row["against_prediction"],
            {True: "yes", False: "no"}.get(row["slow"], "not decided"),
        )
        for row in rows
    )
    return Table(title="Each node alone", columns=tuple(Column(title=title) for title in TITLES), rows=lines)


KIND = EachNode()
