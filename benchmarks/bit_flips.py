"""Which flipped bits `llmbx run --verify-compute` finds: python benchmarks/bit_flips.py [LAYOUT …] [--flips 1000].

An injector flips single bits in the ranks of a training of a mini under `llmbx run`: in a weight, in what a layer
returns, or in a bucket of gradients, in one of the two passes; or in a weight of one rank in both. To try many flips
in one training, the verification of the last step is repeated in the same process, each time with another flip. What
is true is not said by the checksums: the injector keeps a copy of all that is compared, and compares their bytes.

The table has, by kind of flip, how many changed a bit of what is compared, how many of these the check found, and how
often it named the right ranks: of three peers or more, the one whose weights differ; of two it cannot say which one is
wrong, and names both; without a peer nobody can see wrong weights that stay the same. Then come verifications without
a flip, and whole runs with and without one, whose exit code and `cause` are read.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from llmbx.model import Evidence, Finding, NotPossible, Step
from llmbx.testing import sample_spec
from llmbx_verdict.checks.compute import compute

ROOT = Path(__file__).parents[1]
INJECTOR = ROOT / "tests/fixtures/fault_injector"
UNCHECKED = ("--set", "overrides=ddp.check_for_nan_in_grad=false rerun_state_machine.check_for_nan_in_loss=false")
"""Megatron's own checks end a training at an infinite number, before there is anything to compare."""
KINDS = ("weight", "peer", "activation", "gradient")
NEMO2 = "llama3.1 --size mini --recipe nemo2-mini"
LAYOUTS = {
    "bridge-dp2": (2, "llama3.1 --size mini"),
    "bridge-dp3": (3, "llama3.1 --size mini"),
    "bridge-dp4": (4, "llama3.1 --size mini"),
    "bridge-tp2": (2, "llama3.1 --size mini --set tp=2"),
    "bridge-pp2": (2, "llama3.1 --size mini --set pp=2"),
    "bridge-tp2-dp2": (4, "llama3.1 --size mini --set tp=2"),
    "bridge-pp2-dp2": (4, "llama3.1 --size mini --set pp=2"),
    "bridge-ep2": (2, "grok1 --size mini --set ep=2"),
    "bridge-ep2-dp4": (4, "grok1 --size mini --set ep=2"),
    "nemo2-dp3": (3, NEMO2),
    "nemo2-dp4": (4, NEMO2),
    "nemo2-tp2": (2, f"{NEMO2} --set tp=2"),
    "nemo2-pp2": (2, f"{NEMO2} --set pp=2"),
    "nemo2-tp2-dp2": (4, f"{NEMO2} --set tp=2"),
}
"""By framework and parallelism: ranks, and the arguments of `llmbx run`."""


class Verification(NamedTuple):
    """One repeated step: what was flipped, the ranks whose compared bits changed, and the ranks that were named.

    `peers` are the ranks that have the same weights as the flipped one, with itself.
    """

    kind: str
    rank: int
    where: str
    changed: frozenset[int]
    named: frozenset[int]
    peers: frozenset[int]

    @property
    def matters(self) -> bool:
        """Whether a compared bit is another one."""
        return bool(self.changed) or (self.kind == "peer" and len(self.peers) > 1)

    @property
    def right(self) -> bool:
        """Whether the ranks that computed other results are those that were named."""
        if self.kind != "peer":
            return self.named == self.changed
        return self.named == (self.peers if len(self.peers) == 2 else {self.rank})


def run(layout: str, steps: int, *more: str) -> tuple[int, dict[str, Any], Path]:
    """Run the mini of a layout, whose last step is verified: the exit code, the result, and the folder."""
    ranks, arguments = LAYOUTS[layout]
    command = [str(Path(sys.executable).with_name("llmbx")), "run", "--plugin", "nemo", *arguments.split(), *more]
    command += ["--steps", str(steps), "--gpus", str(ranks), "--verify-compute", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout.startswith("{"):
        sys.exit(done.stderr)
    result = json.loads(done.stdout)
    install = Path(os.environ["LLMB_INSTALL"])
    (record,) = install.glob(f"workloads/*/experiments/*/{result['run_id']}/*/run.json")
    return done.returncode, result, record.parent


def train(flips: Mapping[str, Any], layout: str) -> tuple[int, dict[str, Any], Path]:
    """Run the mini with these flips."""
    fault = json.dumps({"flips": flips})
    unchecked = UNCHECKED if layout.startswith("bridge") else ()
    injector = ("--env", f"PYTHONPATH={INJECTOR}", "--env", f"INJECT_FAULT={fault}")
    return run(layout, 8, *unchecked, *injector, "--stall-timeout", "3000")


def verifications(folder: Path) -> Iterator[Verification]:
    """What the check says about each verification of a run, and what is true."""
    spec = sample_spec(plugin_settings={"verdict": {"verify_compute": True}})
    for place in sorted((folder / "flips").iterdir(), key=lambda path: int(path.name)):
        truths = {int(file.stem.partition("-")[2]): json.loads(file.read_text()) for file in place.glob("truth-*.json")}
        answer = compute(Evidence(steps=(Step(number=1),), spec=spec, run_dir=place, ended_well=True))
        assert not isinstance(answer, NotPossible)
        findings = [each for each in answer or () if isinstance(each, Finding) and not each.warning]
        truth = truths[min(truths)]
        yield Verification(
            kind=truth["kind"],
            rank=truth["rank"],
            where=truths[truth["rank"]]["where"],
            changed=frozenset(rank for rank, of_rank in truths.items() if of_rank["changed"]),
            named=frozenset(rank for finding in findings for rank in finding.ranks),
            peers=frozenset(truths[truth["rank"]]["peers"]),
        )


def table(trials: list[Verification]) -> None:
    """Print the counts by kind."""
    print("| flipped bit in | flips | change a compared bit | found | with the right ranks |\n|---|---|---|---|---|")
    for kind in KINDS:
        of_kind = [trial for trial in trials if trial.kind == kind and trial.where]
        matter = [trial for trial in of_kind if trial.matters]
        named = sum(bool(trial.named) for trial in matter)
        print(f"| {kind} | {len(of_kind)} | {len(matter)} | {named} | {sum(trial.right for trial in matter)} |")
    for trial in trials:
        if trial.matters and not trial.right:
            print(f"not right: {trial}")
    none = [trial for trial in trials if not trial.matters]
    print(f"\n{len(none)} verifications changed no compared bit: {sum(bool(t.named) for t in none)} alarms")


def in_one_training(layout: str, options: argparse.Namespace) -> None:
    """Try flips in one training, then none in another."""
    for count, kinds in ((options.flips, KINDS), (options.clean, ("none",))):
        if count:
            code, _, folder = train({"seed": options.seed, "count": count, "kinds": kinds}, layout)
            table([*verifications(folder)])
            print(f"exit code of the run, whose last verification had no flip: {code}\n", flush=True)


def in_whole_runs(layout: str, options: argparse.Namespace) -> None:
    """Try a flip in a run, and none in another one, several times."""
    ended: Counter[str] = Counter()
    for number in range(options.runs):
        for kind in (KINDS[number % len(KINDS)], "none"):
            flips = {"seed": options.seed + number, "count": 1, "kinds": [kind], "last": True}
            code, result, folder = train(flips, layout)
            (trial,) = verifications(folder)
            named = set(result["cause_ranks"] or ())
            right = (code == 1 and named == trial.named) if trial.matters else code == 0
            words = "changed a compared bit" if trial.matters else "changed none"
            ended[f"{kind}: {words}, exit code {code}, {'right' if right else 'wrong: ' + str(result['cause'])}"] += 1
    for text, count in sorted(ended.items()):
        print(f"{count} x {text}")


def main() -> None:
    """Try the layouts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layouts", nargs="*", default=["bridge-dp2"], metavar="LAYOUT", help=", ".join(LAYOUTS))
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--clean", type=int, default=200)
    parser.add_argument("--runs", type=int, default=10, help="Whole runs with a flip, and as many without.")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for layout in options.layouts:
        print(f"{layout}:\n", flush=True)
        in_one_training(layout, options)
        in_whole_runs(layout, options)


if __name__ == "__main__":
    main()
