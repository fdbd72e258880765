"""What `--dry-run --verbose` prints: argv, environment, mounts, origins and the script; and its JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..launchers.script import quoted
from ..model import Expected, Finding, Image, Mount, Phase, RunSpec
from ..record.folder import pretty
from ..run.expectation import announced
from ..runtimes.container_env import parse_mount
from ..secrets import REDACTED, is_secret, scrub
from .summary import time_limit

if TYPE_CHECKING:
    from ..run.launch import Rendered


def preview(
    spec: RunSpec, image: Image, folder: Path, rendered: Rendered, found: list[Finding], environ: Mapping[str, str],
    expected: Expected | None = None,
) -> str:  # fmt: skip
    """Format the preview as text. The values of secrets in `environ` are redacted."""
    launch = rendered.launch
    lines = [
        f"{spec.workload} {spec.size} {spec.dtype}: {launch.nodes} node(s) x {launch.ranks_per_node} rank(s), "
        f"{spec.gpus} x {spec.gpu_type}, recipe {spec.recipe}",
        f"folder    {folder}",
        f"image     {image.reference} ({image.kind}, {spec.runtime}: {spec.origins.get('runtime', '')})",
        f"launcher  {spec.launcher} ({spec.origins.get('launcher', '')})",
        f"walltime  {time_limit(spec)}",
    ]
    if expected is not None and (prediction := announced(expected, spec)) is not None:
        lines.append(prediction.replace(": ", "  ", 1))
    for phase, wrapping in zip(launch.phases, rendered.wrappings, strict=True):
        lines += ["", f"phase {phase.role} ({'every rank' if phase.ranks == 'all' else 'first rank only'})"]
        lines += [f"  argv      {_command((*wrapping.argv, *phase.argv))}"]
        lines += [f"  flags     {_command(wrapping.launcher_flags)}"] if wrapping.launcher_flags else []
        lines += [f"  env       {name}={_one_line(text)}" for name, text in _environment(phase)]
    lines += ["", *_mounts((*launch.mounts, *map(parse_mount, spec.mounts))), *_origins(spec)]
    lines += [f"{'note' if finding.warning else 'problem'}: {finding.problem}; {finding.fix}" for finding in found]
    lines += ["", f"script {folder / 'run.sh'}", "", rendered.script.rstrip()]
    return scrub("\n".join(lines) + "\n", environ)


def as_json(
    spec: RunSpec, image: Image, folder: Path, rendered: Rendered, found: list[Finding], environ: Mapping[str, str],
    expected: Expected | None = None,
) -> str:  # fmt: skip
    """Format the preview as a JSON object: the fields of `run.json` that are known before the start, and the script."""
    phases = zip(rendered.launch.phases, rendered.wrappings, strict=True)
    facts = {
        "folder": str(folder),
        "spec": spec,
        "image": image,
        "commands": {phase.role: [*wrapping.argv, *phase.argv] for phase, wrapping in phases},
        "expected": expected,
        "findings": found,
        "script": rendered.script,
    }
    return scrub(pretty(facts).decode(), environ)


def _command(words: Iterable[str]) -> str:
    return " ".join(map(quoted, words))


def _environment(phase: Phase) -> list[tuple[str, str]]:
    shown = [(name, REDACTED if is_secret(name) else value) for name, value in sorted(phase.env.items())]
    return [*shown, *((name, "(forwarded by name)") for name in phase.forward)]


def _one_line(text: str) -> str:
    """The value; with a line end in it, quoted with escapes."""
    return repr(text) if len(text.splitlines()) > 1 else text


def _mounts(mounts: Iterable[Mount]) -> list[str]:
    return [f"mount     {m.source} -> {m.target or m.source}{' (read-only)' if m.read_only else ''}" for m in mounts]


def _origins(spec: RunSpec) -> list[str]:
    return [f"origin    {name}: {origin}" for name, origin in spec.origins.items()]
