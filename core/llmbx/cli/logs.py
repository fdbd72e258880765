"""Print the log of a run, or follow the run until it ends."""

from __future__ import annotations

import codecs
import functools
import os
import sys
from collections import deque
from typing import TYPE_CHECKING

import click

from .completion import RUN
from .streams import stdout_works, visible
from .workspace import load_workspace

if TYPE_CHECKING:
    from pathlib import Path

    from ..run_files import RunFile

PIECE = 1 << 20


@click.command("logs")
@click.argument("run_name", metavar="[RUN]", type=RUN, default="last")
@click.option("-f", "--follow", "following", is_flag=True, help="Show progress until the run ends, then its result.")
@click.option(
    "--rank",
    type=click.IntRange(min=0),
    metavar="N",
    help="Print the log of this rank, if the ranks have separate logs.",
)
@click.option("-n", "--tail", "last", type=click.IntRange(min=1), metavar="N", help="Print only the last N lines.")
def command(run_name: str, following: bool, rank: int | None, last: int | None) -> None:
    """Print the log of a run.

    RUN is a run id, a unique prefix of it, its folder, the scheduler's job id, or "last" (the default). With --follow,
    progress is shown as by `llmbx run`, and the run is measured when it ends; Ctrl-C only stops following.

    On a terminal, control characters in the log are shown as escapes (\\x1b); through a pipe (`| less -R`) its bytes
    are written as they are. Secrets are masked in both.

    \b
    Examples:
      llmbx logs
      llmbx logs --follow 4711
      llmbx logs --rank 3 last
      llmbx logs --tail 20
    """
    from ..errors import UsageError
    from ..record.folder import RESULT

    if following and last is not None:
        raise UsageError("--tail cannot be combined with --follow, which shows progress and not the log")
    workspace = load_workspace()
    run = workspace.find_run(run_name)
    if following:
        from .flow import follow_run

        sys.exit(follow_run(run_name, workspace))
    file = run.log_file if rank is None else run.files.file(f"rank-{rank}.log")
    if not file.exists():
        ended = run.files.file(RESULT).exists()
        raise UsageError(f"{file}: no such file" if ended else f"{run.record.id} has no log {file.name} yet")
    try:
        _print(file, last)
    except OSError as error:
        if error.filename != str(file):
            raise
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from None


def _print(log: Path | RunFile, last: int | None = None) -> None:
    """Print the log or its last lines without secrets, on a terminal with control characters as escapes."""
    from ..record.masking import Masker

    with log.open("rb") as file:
        read = iter(functools.partial(file.read, PIECE), b"") if last is None else deque(file, last)
        pieces = Masker(os.environ).stream(read)
        if sys.stdout.isatty():
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            pieces = (visible(decoder.decode(piece)).encode() for piece in pieces)
        for piece in pieces:
            if not stdout_works():
                return
            sys.stdout.buffer.write(piece)
