"""Check this machine: install folder, GPUs, plugins, runtimes and launchers."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from llmbx.api import GpuType, InfraError, Launcher, LlmbxError, Runtime, format_bytes, free_bytes
from llmbx.api.verbs import Extension, Workspace, format_option, load_workspace, print_rows

COLUMNS = ("what", "name", "state", "detail", "fix")
OK, ABSENT, BROKEN = "ok", "not here", "broken"


@dataclasses.dataclass(frozen=True)
class DoctorCall:
    """What `llmbx doctor` was asked for."""

    workspace: Workspace
    format: str


@click.command("doctor", cls=Extension.Verb)
@format_option()
def command(format_: str) -> None:
    """Check this machine: install folder, GPUs, plugins, runtimes and launchers.

    Container runtimes start a real container, and launchers query their scheduler. The state of
    each item is ok, not here (not installed) or broken; for broken items the reason and a fix are
    shown. The exit code is 4 if anything is broken.

    \b
    Examples:
      llmbx doctor
    """
    workspace = load_workspace()
    if (code := Extension.Verb.act(DoctorCall(workspace, format_))) is not None:
        sys.exit(code)
    rows = [dict(zip(COLUMNS, line, strict=True)) for line in _lines(workspace)]
    print_rows(rows, COLUMNS, format_)
    sys.exit(InfraError.exit_code if any(row["state"] == BROKEN for row in rows) else 0)


Line = tuple[str, str, str, str | None, str | None]


def _lines(workspace: Workspace) -> Iterator[Line]:
    yield _install(workspace)
    yield _gpus(workspace)
    workspace.plugins.ask_all()
    for info in workspace.plugins.infos:
        if info.error:
            fix = f"update or uninstall {info.distribution}"
            yield "plugin", info.name, BROKEN, info.error, fix
        else:
            detail = info.warning or f"{info.distribution} {info.version}"
            yield "plugin", info.name, OK, detail, None
    for runtime in workspace.plugins.runtimes().values():
        yield _checked("runtime", runtime, workspace.install.path)
    for launcher in workspace.plugins.launchers().values():
        yield _checked("launcher", launcher, workspace.install.path)


def _install(workspace: Workspace) -> Line:
    try:
        workspace.install.ensure()
    except LlmbxError as error:
        return (
            "install",
            workspace.install.root,
            BROKEN,
            str(error),
            "set LLMB_INSTALL to a writable folder",
        )
    free = free_bytes(workspace.install.path)
    space = "" if free is None else f"{format_bytes(free)} free "
    return "install", workspace.install.root, OK, f"{space}({workspace.install.origin})", None


def _slice(kind: str) -> str:
    return {"MIG": "; a run uses one slice", "vGPU": "; a virtual GPU"}.get(kind, "")


def _gpus(workspace: Workspace) -> Line:
    detected = GpuType.here(GpuType.extend(workspace.config.gpus))
    if detected:
        gpu_type, group = detected
        detail = f"{group}{_slice(group.kind)}"
        if others := [str(item) for item in GpuType.seen() if item != group]:
            detail += f"; not used by default: {'; '.join(others)}"
        if not gpu_type.peaks:
            detail += (
                f"; no peak is known, so no MFU: set [gpus.{gpu_type.name}] peaks in llmbx.toml"
            )
        return "GPU", gpu_type.name, OK, detail, None
    if problem := GpuType.driver_problem():
        return "GPU", "-", BROKEN, problem, "repair the driver"
    if why := GpuType.why_cpu():
        return "GPU", "-", ABSENT, why, None
    return "GPU", "-", ABSENT, "no GPU on this machine: by default runs are minis on the CPU", None


def _checked(what: str, tool: Launcher | Runtime, install: Path) -> Line:
    """Check one runtime or launcher."""
    try:
        finding = tool.check(install)
    except Exception as error:
        return what, tool.name, BROKEN, f"its check failed: {_reason(error)}", f"repair {tool.name}"
    if finding is not None:
        return (
            what,
            tool.name,
            ABSENT if finding.warning else BROKEN,
            finding.problem,
            finding.fix or None,
        )
    return what, tool.name, OK, tool.summary, None


def _reason(error: Exception) -> str:
    """The first line of an error; of one that is not llmbx's, with its type."""
    text = str(error) if isinstance(error, LlmbxError) else f"{type(error).__name__}: {error}"
    return text.partition("\n")[0]
