"""Check the archive of an acceptance."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from msgspec.structs import asdict

from llmbx.api import UsageError, __version__, plural
from llmbx.api.verbs import format_option, load_workspace, print_json, print_note, print_rows

MOST = 20
"""Problems that the table shows."""


@click.command("verify")
@click.argument("archive", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--sha256", metavar="HEX", help="The SHA-256 that `llmbx accept --archive` printed.")
@format_option()
def command(archive: Path, sha256: str | None, format_: str) -> None:
    """Recompute every figure of an archive from its logs, and compare.

    ARCHIVE is a file of `llmbx accept --archive`. Each run is measured again from its log and compared with the
    archived result, and each verdict is derived again from the results. What is stated twice must agree. An edit of a
    text that no figure depends on is only found by the digests in the archive, which whoever edits can renew: compare
    the SHA-256 of the whole file (--sha256) with the one that was printed when it was written.

    Exit code: 0 nothing differs, 1 something does.

    \b
    Examples:
      llmbx verify smoke.tar.gz
      llmbx verify smoke.tar.gz --sha256 0f3a... --format json
    """
    from .archive.check import verify

    verified = verify(archive, load_workspace())
    problems = list(verified.problems)
    if sha256 is not None and sha256.lower().removeprefix("sha256:") != verified.sha256:
        if len(sha256.lower().removeprefix("sha256:")) != 64:
            raise UsageError(f"--sha256 {sha256}: expected 64 hexadecimal digits")
        problems.append((archive.name, f"its SHA-256 is {verified.sha256}"))
    rows = [{"file": file, "problem": problem} for file, problem in problems]
    if format_ == "json":
        print_json({**asdict(verified), "problems": rows})
    elif rows:
        print_rows(rows if format_ == "csv" else rows[:MOST], ("file", "problem"), format_)
    if verified.llmbx_version != __version__:
        print_note(f"archived by llmbx {verified.llmbx_version}, checked by {__version__}")
    if verified.unchecked:
        print_note(f"only the digests protect the outcome of {', '.join(verified.unchecked)}")
    what = f"{plural(verified.runs, 'runs')}, {plural(verified.figures, 'figures')} from the logs"
    end = f"{plural(len(rows), 'problems')}" if rows else "nothing differs"
    click.echo(f"{archive.name}: {what}, {end}; sha256 {verified.sha256}", err=True)
    sys.exit(1 if rows else 0)
