"""What `llmbx init` can find out about a machine in a few seconds, without starting a job."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Container, Iterator, Mapping

from llmbx.api import GpuType, InfraError, Launcher, Proposal, Runtime, free_bytes
from llmbx.api.verbs import Workspace

from .proposal import Gpus, Site, Tool, gpu_block

REACH_S = 3.0
"""Seconds in which a registry must answer."""


def inspect(workspace: Workspace) -> Site:
    """Look at GPUs, tools, scheduler, space and network."""
    types = GpuType.extend(workspace.config.gpus)
    gpus = _gpus(types)
    launcher, proposal, failing = _scheduler(workspace)
    return Site(
        host=socket.gethostname(),
        install=workspace.install.root,
        free_bytes=free_bytes(workspace.install.path),
        gpus=gpus,
        tools=(
            *failing,
            *_tools(workspace, {tool.name for tool in failing}),
            *_network(workspace),
        ),
        launcher=launcher,
        plugin=workspace.plugins.settings_of(launcher) if launcher else None,
        proposal=proposal,
        gpu_type=_gpu_type(proposal, gpus, types),
        gpus_per_node=proposal.gpus_per_node or (gpus.count if gpus else None),
    )


def summary(site: Site) -> list[str]:
    """What was found, as notes for people."""
    usable = [f"{tool.what} {tool.name}" for tool in site.tools if not tool.problem]
    lines = [_machine(site.gpus), f"found: {', '.join(usable)}"]
    for tool in site.tools:
        if tool.problem:
            fix = f"; {tool.fix}" if tool.fix else ""
            state = "does not work" if tool.broken else "not found"
            lines.append(f"{state}: {tool.what} {tool.name}: {tool.problem}{fix}")
    return [f"llmbx: {line}" for line in lines]


def _machine(gpus: Gpus | None) -> str:
    if gpus is None:
        return GpuType.why_cpu() or "no GPU on this machine"
    if gpus.several:
        return f"{gpus.seen}: GPUs of several types; runs use those of type {gpus.type}"
    own = f"; not in the list: the file describes it as [gpus.{gpus.type}]" if gpus.block else ""
    return f"{gpus.seen}: GPU type {gpus.type}{own}"


def _gpus(types: Mapping[str, GpuType]) -> Gpus | None:
    """The GPUs of this machine; None without one that runs can use."""
    here = GpuType.here(types)
    if here is None:
        return None
    gpu_type, used = here
    groups = [group for group in GpuType.seen() if not group.amd]
    return Gpus(
        seen=" and ".join(map(str, groups)),
        count=used.count,
        type=gpu_type.name,
        block="" if gpu_type.name in types else gpu_block(gpu_type),
        several=len(groups) > 1,
    )


def _gpu_type(proposal: Proposal, gpus: Gpus | None, types: Mapping[str, GpuType]) -> str | None:
    """The type that the scheduler names, else that of this machine's GPUs."""
    if not proposal.gpu_name:
        return gpus.type if gpus else None
    parts = re.split(r"[^a-z0-9]+", proposal.gpu_name.lower())
    named = (name for name in types if name in parts)
    return GpuType.identify(proposal.gpu_name, types) or next(named, None)


def _scheduler(workspace: Workspace) -> tuple[str | None, Proposal, tuple[Tool, ...]]:
    """The first usable launcher that proposes a profile, its proposal, and those that failed."""
    failing: list[Tool] = []
    for launcher in workspace.plugins.launchers().values():
        if launcher.available() is not None:
            continue
        try:
            proposal = launcher.propose()
        except InfraError as error:
            failing.append(_failing(launcher, error, workspace))
            continue
        if proposal is not None:
            return launcher.name, proposal, tuple(failing)
    return None, Proposal(), tuple(failing)


def _failing(launcher: Launcher, error: InfraError, workspace: Workspace) -> Tool:
    """A launcher that could not propose a profile: broken, or installed for no cluster."""
    finding = launcher.check(workspace.install.path)
    problem = finding.problem if finding else str(error).partition("\n")[0].partition(";")[0]
    tool = _tool("launcher", launcher, problem, finding.fix if finding else "see llmbx doctor", "")
    return tool.replace(broken=finding is None or not finding.warning)


def _tools(workspace: Workspace, failing: Container[str]) -> Iterator[Tool]:
    """The launchers and runtimes, except the launchers that failed to propose a profile."""
    for launcher in workspace.plugins.launchers().values():
        if launcher.name not in failing:
            yield _examined("launcher", launcher, workspace)
    for runtime in workspace.plugins.runtimes().values():
        yield _examined("runtime", runtime, workspace)


def _examined(what: str, tool: Launcher | Runtime, workspace: Workspace) -> Tool:
    problem = tool.available()
    finding = tool.check(workspace.install.path) if problem else None
    return _tool(what, tool, problem, (finding.fix or None) if finding else None, tool.summary)


def _tool(
    what: str, tool: Launcher | Runtime, problem: str | None, fix: str | None, detail: str
) -> Tool:
    return Tool(what=what, name=tool.name, detail=detail, problem=problem, fix=fix)


def _network(workspace: Workspace) -> Iterator[Tool]:
    """Whether the registries of the catalog's images can be reached."""
    for host in sorted(_registries(workspace)):
        problem = _unreachable(host)
        fix = "fetch images where there is a network, and bring them here: docs/images.md"
        yield Tool(
            what="network",
            name=host,
            detail="images can be fetched",
            problem=problem,
            fix=fix if problem else None,
        )


def _registries(workspace: Workspace) -> set[str]:
    """The hosts in references like HOST#IMAGE."""
    references = [
        recipe.image.reference
        for workload in workspace.plugins.workloads
        for recipe in workload.recipes
        if recipe.image
    ]
    hosts = {reference.partition("#")[0] for reference in references if "#" in reference}
    return {host for host in hosts if "." in host}


def _unreachable(host: str) -> str | None:
    """Why no connection to the host was made in `REACH_S` seconds.

    None if one was made, or if a proxy is in between.
    """
    if os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy"):
        return None
    answers: list[str | None] = []

    def connect() -> None:
        try:
            socket.create_connection((host, 443), timeout=REACH_S).close()
            answers.append(None)
        except OSError as error:
            answers.append(f"cannot be reached: {error.strerror or error}")

    attempt = threading.Thread(target=connect, daemon=True)  # looking up a name has no time limit
    attempt.start()
    attempt.join(REACH_S)
    return answers[0] if answers else f"does not answer within {REACH_S:g} s"
