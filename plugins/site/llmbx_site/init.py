"""Look at this machine or cluster and write a commented llmbx.toml."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import click

from llmbx.api import UsageError, __version__
from llmbx.api.verbs import Config, Workspace, load_workspace, print_note

NAME = re.compile(r"[A-Za-z0-9_-]+")


@click.command("init")
@click.argument("name", required=False)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write; - prints it.  [default: the user's llmbx.toml]",
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
def command(name: str | None, output: Path | None, force: bool) -> None:
    """Look at this machine or cluster and write a commented llmbx.toml.

    NAME is the name of the cluster in the file; the default is the name of this host. What was
    found is printed: GPUs, driver, scheduler, container tools, space and network, and for what is
    missing how to get it. The cluster profile has the GPU type, the GPUs of a node and the
    scheduler's partition and account; what is not known is a comment.

    \b
    Examples:
      llmbx init
      llmbx init eos --output llmbx.toml
      llmbx init --output -
    """
    from .inspection import inspect, summary
    from .proposal import render

    cluster = name or _host_as_name()
    if not NAME.fullmatch(cluster):
        raise UsageError(f"NAME {cluster!r}: expected letters, digits, - and _")
    path = output or _user_file()
    if str(path) != "-" and path.exists() and not force:
        raise UsageError(
            f"{path} exists: add --force to replace it, or --output - to print what it would be"
        )
    site = inspect(_workspace())
    text = render(site, cluster, __version__)
    Config.parse(text.encode(), "llmbx init")  # never write a file that llmbx would refuse
    for note in summary(site):
        print_note(note)
    if str(path) == "-":
        click.echo(text, nl=False)
        return
    _write(path, text)
    click.echo(f"llmbx: wrote {path}; next: llmbx list --here", err=True)


def _host_as_name() -> str:
    host = socket.gethostname().partition(".")[0]
    return re.sub(r"[^A-Za-z0-9_-]", "-", host) or "cluster"


def _workspace() -> Workspace:
    """The workspace; `LLMBX_CONFIG` may name a file that does not exist yet."""
    named = os.environ.get("LLMBX_CONFIG")
    if not named or Path(named).exists():
        return load_workspace()
    try:
        os.environ["LLMBX_CONFIG"] = os.devnull
        return load_workspace()
    finally:
        os.environ["LLMBX_CONFIG"] = named


def _user_file() -> Path:
    """The file that llmbx reads for this user."""
    named = os.environ.get("LLMBX_CONFIG")
    return Path(named) if named else Config.user_file(os.environ)


def _write(path: Path, text: str) -> None:
    from llmbx.api import write_atomic

    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        write_atomic(path, text, mode=0o644)  # a file that a group can write would not be obeyed
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None
