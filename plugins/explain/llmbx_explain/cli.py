"""Explain why a run failed."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("explain")
@click.argument("subject", metavar="RUN|LOG", type=click.Path(path_type=Path), default="last")
@click.option(
    "--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True, help="Output format."
)
def command(subject: Path, format_: str) -> None:
    """Explain why a run failed: who failed first, what followed, what to look at and what to do.

    RUN is a run of this install: its id, a unique prefix of it, its job id, `last` (the default) or @TAG. LOG is any
    training log, also one that llmbx did not start and whose format it does not know; - is standard input.

    The first failure is the earliest line that is not the echo of another one, by time and rank. If it is not known
    which rank was first, all that may have been are named.

    \b
    Examples:
      llmbx explain last
      llmbx explain slurm-4711.out
      llmbx explain slurm-4711.out --format json
    """
    from llmbx.api.verbs import load_plugins, path_or_run, print_json

    from .explanation import as_json
    from .reading import explain
    from .render import text

    explanation = explain(path_or_run(subject), load_plugins())
    if format_ == "json":
        print_json(as_json(explanation))
    else:
        click.echo(text(explanation), nl=False)
