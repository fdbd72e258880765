"""Let `llmbx explain` judge recorded runs with known faults, and count how often it is right.

    python benchmarks/explain FOLDER/LIST.json [--markdown FILE]

FOLDER/LIST.json is what record.py wrote, of all of a list or a part. A cause is right if it is named first, of a pair
if both are the first two. A share is right if the time that it says was lost differs from what the paired runs took
longer by at most 10 % of the step. Faults that cost less than 2 % of a step by the paired runs are in the table, but
not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Cause = dict[str, Any]
NEAR = 0.10
LEAST = 0.02
"""Share of a step that a fault must cost to be counted."""
NAMED = ("sure", "likely")
"""Certainties with which a healthy run must have no cause."""


@dataclass(frozen=True)
class Judged:
    """What was said of a run with a fault, beside what is true."""

    name: str
    true: list[Cause]
    shares: list[float]
    causes: list[Cause]
    said_shares: list[float]
    unexplained: float | None

    @property
    def pair(self) -> bool:
        """Whether it has two faults."""
        return len(self.true) > 1

    def place(self, cause: Cause) -> int | None:
        """Where a true cause is among those that are named."""
        ids = [named["id"] for named in self.causes]
        return ids.index(cause["id"]) if cause["id"] in ids else None

    @property
    def counts(self) -> bool:
        """Whether each of its faults cost time."""
        return min(self.shares) >= LEAST

    @property
    def first(self) -> bool:
        """Whether the cause named first is a true run."""
        return bool(self.causes) and self.causes[0]["id"] in [cause["id"] for cause in self.true]

    @property
    def both(self) -> bool:
        """Whether all true causes are named before any that is not true."""
        places = [self.place(cause) for cause in self.true]
        return all(place is not None and place < len(self.true) for place in places)

    @property
    def ranks(self) -> bool:
        """Whether each true cause that is named has its rank."""
        named = [(cause, self.place(cause)) for cause in self.true]
        return all(place is not None and self.causes[place].get("rank") == cause.get("rank") for cause, place in named)

    @property
    def near(self) -> bool:
        """Whether the shares are within 10 points."""
        places = [self.place(cause) for cause in self.true]
        shares = [0.0 if place is None else self.said_shares[place] for place in places]
        return all(abs(a - b) <= NEAR for a, b in zip(shares, self.shares, strict=True))


def explain(install: Path, run: str, *options: str) -> dict[str, Any]:
    """Return what llmbx says of a run."""
    command = [str(Path(sys.executable).with_name("llmbx")), "explain", run, *options, "--format", "json"]
    environ = {**os.environ, "LLMB_INSTALL": str(install), "LLMBX_CONFIG": os.devnull}
    environ["LLMBX_PLUGINS"] = str(Path(__file__).with_name("mini"))
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{run}: {done.stderr.strip()[-300:]}", file=sys.stderr)
        return {}
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def judge(install: Path, name: str, entry: dict[str, Any]) -> Judged:
    """Return what is said of a fault."""
    against = ("--against", entry["healthy"]) if entry["against"] else ()
    answer = explain(install, entry["run"], *against)
    causes = answer.get("causes") or []
    part = (answer.get("lost_s_per_step") or 0.0) / entry["step_s"]
    shares_of_step = [(cause.get("share") or 0.0) * part for cause in causes]
    return Judged(name, entry["causes"], entry["shares"], causes, shares_of_step, answer.get("unexplained"))


def table(judged: list[Judged]) -> list[str]:
    """Return the lines of the table."""
    lines = [
        "| fault | true: rank, share of a step | named: rank, share, certainty | unexplained | cause | rank | share |",
        "|---|---|---|---|---|---|---|",
    ]
    for run in judged:
        true = "; ".join(
            f"{cause['id']}: {rank_of(cause)}, {share:.0%}" for cause, share in zip(run.true, run.shares, strict=True)
        )
        named = "; ".join(
            f"{cause['id']}: {rank_of(cause)}, {share:.0%}, {cause.get('certainty')}"
            for cause, share in list(zip(run.causes, run.said_shares, strict=True))[:3]
        )
        unexplained = "" if run.unexplained is None else f"{run.unexplained:.0%}"
        verdicts = [run.both if run.pair else run.first, run.ranks, run.near]
        marks = " | ".join("yes" if right else "**no**" for right in verdicts)
        marks = marks if run.counts else "did not act | | "
        lines.append(f"| {run.name} | {true} | {named or 'nothing'} | {unexplained} | {marks} |")
    return lines


def rank_of(cause: Cause) -> str:
    """Return a rank as text."""
    return "all" if cause.get("rank") is None else str(cause["rank"])


def of_healthy(install: Path, runs: list[dict[str, Any]]) -> list[str]:
    """Return the lines about healthy runs."""
    lines = []
    for beside in (False, True):
        false, contention, count = [], 0, 0
        for entry in runs:
            if entry["beside"] is beside:
                causes = explain(install, entry["run"]).get("causes") or []
                named = [cause["id"] for cause in causes if cause.get("certainty") in NAMED]
                false += [cause for cause in named if not (beside and cause == "cpu-contention")]
                contention += "cpu-contention" in named
                count += 1
        if not count:
            continue
        where = "beside other work" if beside else "alone"
        right = f", cpu-contention named in {contention}" if beside else ""
        wrong = f" ({', '.join(false)})" if false else ""
        lines.append(f"- healthy {where}: {count} runs, {len(false)} false causes{wrong}{right}")
    return lines


def main() -> None:
    """Judge a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("truth", type=Path)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    truth = json.loads(options.truth.read_text())
    install = options.truth.absolute().parent / "install"
    judged = [judge(install, name, entry) for name, entry in truth.get("faults", {}).items()]
    acted = [run for run in judged if run.counts]
    single, pairs = [run for run in acted if not run.pair], [run for run in acted if run.pair]
    with_rank = [run for run in single if run.true[0].get("rank") is not None]
    lines = [
        *table(judged),
        "",
        f"- cause named first: {sum(run.first for run in single)} of {len(single)}",
        f"- its rank, where one has it: {sum(run.first and run.ranks for run in with_rank)} of {len(with_rank)}",
        f"- both named: {sum(run.both for run in pairs)} of {len(pairs)} pairs",
        f"- share within 10 points: {sum(run.near for run in acted)} of {len(acted)}",
        *of_healthy(install, truth.get("healthy_runs", [])),
        *(f"- {name}: not run: {reason}" for name, reason in truth.get("not_run", {}).items()),
    ]
    print("\n".join(lines))
    if options.markdown:
        options.markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
