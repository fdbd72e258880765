"""Compare a run with another, with a baseline, or with what was published."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from llmbx.cli.options import World, world
from llmbx.cli.output import format_option, print_json, to_csv
from llmbx.errors import UsageError

if TYPE_CHECKING:
    from ..compare import Comparison, Measured

SLOWER = 3
TAG = "tag:"
COLUMNS = ("name", "unit", "a", "b", "change_percent", "note")


@click.command("compare")
@click.argument("runs", nargs=-1, metavar="[A] B")
@click.option("--baseline", metavar="TAG", help="Hold the run against the newest with this tag.")
@click.option("--reference", is_flag=True, help="Hold the run against the published row for it.")
@click.option("--tolerance", default="5%", show_default=True, help="How much slower is still the same.")
@click.option(
    "--gate",
    metavar="FIGURE",
    default="step_time",
    show_default=True,
    help="Judge by another figure: exposed_communication of profiled runs …",
)
@click.option("--window", metavar="A-B|last|auto", help="Measure the runs anew over these steps.")
@click.option("--single", is_flag=True, help="Take only the runs that are named, not their repeats.")
@click.option("--force", is_flag=True, help="Compare although it makes no sense; the output says why.")
@format_option
def command(
    runs: tuple[str, ...], baseline: str | None, reference: bool, tolerance: str, window: str | None, single: bool,
    force: bool, format_: str, gate: str,
) -> None:  # fmt: skip
    """Compare a run with another (A, then B), with a baseline, or with what was published.

    A run is its id, the beginning of it, its folder, its job id, or `last`, which is also the default of B with
    --baseline and --reference; or tag:NAME, which beside another run is the newest valid run with this tag that does
    the same work. The repeats of a run are taken with it. The verdict on B is `faster`, `slower` or `same
    within noise`: a difference counts when its 95 % interval leaves no change out and it is beyond the tolerance.
    What the two records do not have in common follows, the likeliest cause first.

    What does not do the same work is refused: another batch, sequence length, dtype, size or scale, a profiled run, a
    mini against a published figure. MFU is compared under one convention of counting attention.

    Profiled and traced runs are compared with --gate FIGURE: by what their profilers measured, such as
    exposed_communication, where --tolerance is a part of a step.

    Exit code 3 when B is slower.

    \b
    Examples:
      llmbx compare pretraining_grok1_mini_bf16_1_1795260605 last
      llmbx compare --baseline accepted --tolerance 2%
      llmbx compare last --reference --format json
    """
    from llmbx.cli.numbers import fraction
    from llmbx.measure.window import check

    allowed = fraction(tolerance, "--tolerance")
    policy = check(window) if window is not None else None
    _usage(runs, baseline, reference, gate)
    here = world()
    chosen = _runs(runs or ("last",), here, policy, force, single)
    if reference:
        from ..compare.published import hold

        found = hold(chosen[-1], here.plugins, here.config, allowed, force=force)
    else:
        found = _against(chosen, here, baseline, policy, allowed, force, gate)
    _print(found, format_)
    if found.verdict == "slower":
        click.get_current_context().exit(SLOWER)


def _usage(runs: tuple[str, ...], baseline: str | None, reference: bool, gate: str) -> None:
    if reference and gate != "step_time":
        raise UsageError(f"--gate {gate}: nothing of the kind is published; --reference judges by step_time")
    if reference and baseline:
        raise UsageError("--reference and --baseline exclude each other")
    if reference or baseline:
        if len(runs) > 1:
            raise UsageError(f"{'--reference' if reference else '--baseline'} takes one run, got {len(runs)}")
    elif len(runs) != 2:
        what = "nothing" if not runs else f"{len(runs)} run{'s' if len(runs) > 1 else ''}"
        raise UsageError(f"compare takes two runs, or one with --baseline TAG or --reference; got {what}")


def _runs(texts: tuple[str, ...], here: World, policy: str | None, force: bool, single: bool) -> list[list[Measured]]:
    """Each named run with its repeats; two repeats of one command stand for themselves."""
    from llmbx.history import find_run

    from ..compare.select import baseline, with_repeats

    if sum(text.startswith(TAG) for text in texts) == 1 and len(texts) == 2:
        (other,) = _runs(tuple(text for text in texts if not text.startswith(TAG)), here, policy, force, single)
        return [
            baseline(here.install, text.removeprefix(TAG), other, here.plugins, policy)
            if text.startswith(TAG)
            else other
            for text in texts
        ]
    named = [find_run(here.install, text) for text in texts]
    if len(named) == 2 and named[0].record.run_id == named[1].record.run_id:
        raise UsageError(f"both runs are {named[0].record.run_id}")
    groups = [run.record.group for run in named]
    alone = single or (len(groups) == 2 and groups[0] == groups[1])
    return [with_repeats(here.install, run, here.plugins, policy, force, alone) for run in named]


def _against(
    chosen: list[list[Measured]], here: World, tag: str | None, policy: str | None, allowed: float, force: bool,
    name: str,
) -> Comparison:  # fmt: skip
    from llmbx.measure.intervals import LEVEL

    from ..compare import Gate, compare_runs
    from ..compare.select import baseline

    if tag is not None:
        chosen = [baseline(here.install, tag, chosen[-1], here.plugins, policy), chosen[-1]]
    gate = None if name == "step_time" else Gate(name, chosen[0], chosen[1], here.plugins, LEVEL)
    return compare_runs(chosen[0], chosen[1], allowed, force=force, baseline=tag, gate=gate)


def _print(found: Comparison, format_: str) -> None:
    from msgspec.structs import asdict

    from ..compare.render import render

    if format_ == "json":
        print_json(found)
    elif format_ == "csv":
        click.echo(to_csv([asdict(metric) for metric in found.metrics], COLUMNS), nl=False)
        click.echo(f"{found.verdict}: {found.reason}", err=True)
    else:
        click.echo(render(found), nl=False)
