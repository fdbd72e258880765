"""Look at this machine or cluster and write a commented llmbx.toml."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections import Counter
from collections.abc import Container, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .. import __version__
from ..errors import InfraError, UsageError, one_line
from ..files import free_bytes
from .workspace import Workspace, load_workspace

if TYPE_CHECKING:
    from ..config.site import Gpus, Site, Tool
    from ..launchers.base import Launcher
    from ..runtimes.base import Runtime

QUERY = ("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits")

NAME = re.compile(r"[A-Za-z0-9_-]+")

REACH_S = 3.0
"""Seconds in which a registry must answer."""


@click.command("init")
@click.argument("name", required=False)
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path),
    help="File to write; - prints it.  [default: the user's llmbx.toml]",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Replace an existing file.")
def command(name: str | None, output: Path | None, force: bool) -> None:
    """Look at this machine or cluster and write a commented llmbx.toml.

    NAME is the name of the cluster in the file; the default is the name of this host. What was found is printed: GPUs,
    driver, scheduler, container tools, space and network, and for what is missing how to get it. The cluster profile
    has the GPU type, the GPUs of a node and the scheduler's partition and account; what is not known is a comment.

    \b
    Examples:
      llmbx init
      llmbx init eos --output llmbx.toml
      llmbx init --output -
    """
    from ..config.site import render

    chosen = name or re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname().partition(".")[0]) or "cluster"
    if not NAME.fullmatch(chosen):
        raise UsageError(f"NAME {chosen!r}: expected letters, digits, - and _")
    path = output or _user_file()
    if str(path) != "-" and path.exists() and not force:
        raise UsageError(f"{path} exists: add --force to replace it, or --output - to print what it would be")
    site = look(_workspace())
    text = render(site, chosen, __version__)
    _check(text)
    click.echo(_found(site), nl=False, err=True)
    if str(path) == "-":
        click.echo(text, nl=False)
        return
    _write(path, text)
    click.echo(f"llmbx: wrote {path}; next: llmbx list --here", err=True)


def look(workspace: Workspace) -> Site:
    """Everything that can be found out in a few seconds, without starting a job or a container."""
    from ..catalog import hardware
    from ..config.site import Site

    known = hardware.extend(workspace.config.gpus)
    gpus, install = _gpus(known), workspace.install
    launcher, proposal, trouble = _scheduler(workspace)
    gpu_type = _type_of(proposal.gpu_name, known) if proposal and proposal.gpu_name else gpus.type if gpus else None
    facts: dict[str, Any] = {"proposal": proposal} if proposal else {}
    return Site(
        host=socket.gethostname(),
        install=install.root,
        free_bytes=free_bytes(install.path),
        gpus=gpus,
        tools=(*trouble, *_tools(workspace, {tool.name for tool in trouble}), *_network(workspace)),
        launcher=launcher,
        plugin=workspace.plugins.settings_of(launcher) if launcher else None,
        gpu_type=gpu_type,
        gpus_per_node=(proposal.gpus_per_node if proposal else None) or (gpus.count if gpus else None),
        **facts,
    )


def _workspace() -> Workspace:
    """The workspace; `LLMBX_CONFIG` may name a file that does not exist yet."""
    given = os.environ.get("LLMBX_CONFIG")
    if not given or Path(given).exists():
        return load_workspace()
    try:
        os.environ["LLMBX_CONFIG"] = os.devnull
        return load_workspace()
    finally:
        os.environ["LLMBX_CONFIG"] = given


def _user_file() -> Path:
    """The file that llmbx reads for this user."""
    from ..config.profiles import user_file

    if given := os.environ.get("LLMBX_CONFIG"):
        return Path(given)
    return user_file(os.environ)


def _check(text: str) -> None:
    """A file that llmbx would refuse is a fault of ours, and is not written."""
    import tomli

    from ..config.profiles import Config, with_plugin_keys
    from ..toml_file import convert

    convert(with_plugin_keys(tomli.loads(text)), Config, "llmbx init")


def _write(path: Path, text: str) -> None:
    from ..files import write_atomic

    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        write_atomic(path, text, mode=0o644)  # a file that a group can write would not be obeyed
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None


def _gpus(known: Any) -> Gpus | None:
    """The GPUs that nvidia-smi lists; None without one."""
    import subprocess

    from ..catalog import hardware
    from ..config.site import Gpus

    products = hardware.product_names()
    if not products:
        return None
    try:
        done = subprocess.run(QUERY, capture_output=True, text=True, errors="replace", timeout=30, check=True)
        _, memory, driver = (part.strip() for part in done.stdout.splitlines()[0].split(","))
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        memory = driver = ""
    kinds = Counter(products)
    return Gpus(
        product=products[0] if len(kinds) == 1 else " and ".join(f"{n} x {name}" for name, n in kinds.items()),
        count=len(products),
        type=hardware.identify(products[0], known) if len(kinds) == 1 else None,
        memory_gb=float(memory) * 2**20 / 1e9 if memory.isdigit() else None,
        driver=driver or None,
    )


def _type_of(name: str, known: Any) -> str | None:
    """The GPU type that a scheduler calls by this name."""
    from ..catalog import hardware

    parts = re.split(r"[^a-z0-9]+", name.lower())
    return hardware.identify(name, known) or next((type_ for type_ in known if type_ in parts), None)


def _scheduler(workspace: Workspace) -> tuple[str | None, Any, tuple[Tool, ...]]:
    """The first launcher here with a part of a profile, that part, and those that do not answer."""
    from ..config.site import Tool

    trouble: list[Tool] = []
    for launcher in workspace.plugins.launchers().values():
        if launcher.available() is not None:
            continue
        try:
            proposal = launcher.propose()
        except InfraError as error:
            problem = one_line(error).partition(";")[0]
            trouble.append(
                Tool(what="launcher", name=launcher.name, detail="", problem=problem, fix="see llmbx doctor")
            )
            continue
        if proposal is not None:
            return launcher.name, proposal, tuple(trouble)
    return None, None, tuple(trouble)


def _tools(workspace: Workspace, known: Container[str]) -> Iterator[Tool]:
    """The launchers and runtimes, except the `known` ones."""
    from ..config.site import Tool

    launchers, runtimes = workspace.plugins.launchers(), workspace.plugins.runtimes()
    tools: list[tuple[str, Launcher | Runtime]] = [("launcher", tool) for tool in launchers.values()]
    tools += [("runtime", tool) for tool in runtimes.values()]
    for what, tool in tools:
        if what == "launcher" and tool.name in known:
            continue
        problem, fix = tool.available(), None
        if problem:
            finding = tool.check(workspace.install.path)
            fix = finding.fix or None if finding else None
        yield Tool(what=what, name=tool.name, detail=tool.summary, problem=problem, fix=fix)


def _network(workspace: Workspace) -> Iterator[Tool]:
    """Whether the registries of the catalog's images can be reached."""
    from ..config.site import Tool

    images = [r.image.reference for w in workspace.plugins.workloads for r in w.recipes if r.image]
    hosts = {image.partition("#")[0] for image in images if "#" in image and "." in image.partition("#")[0]}
    for host in sorted(hosts):
        problem = _unreachable(host)
        yield Tool(
            what="network", name=host, detail="images can be fetched", problem=problem,
            fix="fetch images where there is a network, and bring them here: docs/images.md" if problem else None,
        )  # fmt: skip


def _unreachable(host: str) -> str | None:
    """Why no connection to the host was made in `REACH_S` seconds; None if one was, or if a proxy is in between."""
    if os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy"):
        return None
    answers: list[str | None] = []

    def connect() -> None:
        try:
            socket.create_connection((host, 443), timeout=REACH_S).close()
            answers.append(None)
        except OSError as error:
            answers.append(f"cannot be reached: {error.strerror or one_line(error)}")

    attempt = threading.Thread(target=connect, daemon=True)  # the look-up of a name has no time limit
    attempt.start()
    attempt.join(REACH_S)
    return answers[0] if answers else f"does not answer within {REACH_S:g} s"


def _found(site: Site) -> str:
    """What was found, as lines for people."""
    lines = [f"llmbx: {_machine(site.gpus)}"]
    missing = [tool for tool in site.tools if tool.problem]
    usable = ", ".join(f"{tool.what} {tool.name}" for tool in site.tools if not tool.problem)
    lines.append(f"llmbx: found: {usable}")
    lines += [f"llmbx: not found: {tool.what} {tool.name}: {tool.problem}{_how(tool)}" for tool in missing]
    return "\n".join(lines) + "\n"


def _how(tool: Tool) -> str:
    return f"; {tool.fix}" if tool.fix else ""


def _machine(gpus: Gpus | None) -> str:
    if gpus is None:
        from ..catalog.hardware import driver_problem

        return driver_problem() or "no GPU on this machine"
    if " and " in gpus.product:
        return f"{gpus.product}: GPUs of several types; runs use those of one type"
    parts = [f"{gpus.count} x {gpus.product}"]
    parts += [f"{gpus.memory_gb:.0f} GB each"] if gpus.memory_gb else []
    parts += [f"driver {gpus.driver}"] if gpus.driver else []
    parts += [] if gpus.type else ["no known GPU type: describe it as [gpus.NAME] in llmbx.toml"]
    return ", ".join(parts)
