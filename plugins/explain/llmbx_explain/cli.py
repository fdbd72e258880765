"""Explain why a run failed, or why it is slow."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("explain")
@click.argument("subject", metavar="RUN|LOG", type=click.Path(path_type=Path), default="last")
@click.option(
    "--against",
    metavar="RUN|reference|prediction",
    help="What a slow run is compared with.  [default: its own ranks and steps]",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="Output format.",
)
def command(subject: Path, against: str | None, format_: str) -> None:
    """Explain why a run failed, or where the time of a run that did not fail was lost.

    RUN is a run of this install: its id, a unique prefix of it, its job id, `last` (the default) or @TAG. LOG is any
    training log, also one that llmbx did not start and whose format it does not know; - is standard input.

    Of a failed run: who failed first, what followed, what to look at and what to do. The first failure is the earliest
    line that is not the echo of another one, by time and rank. If it is not known which rank was first, all that may
    have been are named.

    Of other runs: what a mean step would take without each cause of delay, by the step clocks of the ranks and the
    samples of the nodes. A cause is `sure` or `likely` if a counter and a time that moves with it say so, and
    `consistent with` the evidence if only one of them does. --against compares with a run, with the published row, or
    with the time that was predicted.

    \b
    Examples:
      llmbx explain last
      llmbx explain slurm-4711.out
      llmbx explain last --against @baseline
      llmbx explain slurm-4711.out --format json
    """
    from llmbx.api.verbs import load_plugins, path_or_run, print_json

    from .explanation import as_json
    from .reading import explain, is_slow_run
    from .render import text

    path, plugins = path_or_run(subject), load_plugins()
    logs = plugins.read_logs(path)
    if is_slow_run(path, logs, against):
        from .slow.explain import explain_slow
        from .slow.render import text as slow_text

        slow = explain_slow(path, against, plugins)
        if format_ == "json":
            print_json(slow.as_json())
        else:
            click.echo(slow_text(slow), nl=False)
        return
    explanation = explain(path, logs)
    if format_ == "json":
        print_json(as_json(explanation))
    else:
        click.echo(text(explanation), nl=False)
