"""The summary of `--dry-run`: what would be started, where and how, in at most 40 lines of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..launchers.script import quoted, start_line
from ..model import Finding, Image, Launch, Phase, RunSpec
from ..phrases import plural
from ..runtimes.container_env import parse_mount
from ..secrets import REDACTED, is_secret, scrub
from .terminal import WIDTH, entry, short_path

if TYPE_CHECKING:
    from ..run.launch import Rendered

LINES = 40

WORD = 48
"""Longest word of a command or variable; the rest of a longer one is left out."""

HINT = "nothing was started; whole script: --emit-script -; everything: --verbose"


def summary(
    opening: Sequence[str],
    spec: RunSpec,
    image: Image,
    folder: Path,
    rendered: Rendered,
    findings: Sequence[Finding],
    environ: Mapping[str, str],
) -> str:
    """Format the summary, which begins with the lines that a run begins with.

    The longest parts are cut until it has `LINES` lines. The values of secrets in `environ` are
    redacted.
    """
    parts = [
        *(_wrapped(line) for line in opening),
        [""],
        *_place(spec, image, short_path(str(folder), environ.get("HOME", "")), rendered.launch),
        *_phases(rendered, folder),
        *_surroundings(spec, rendered.launch),
        *(_finding(finding) for finding in findings),
        ["", HINT],
    ]
    return scrub("\n".join(line for part in _fitting(parts) for line in part) + "\n", environ)


def _wrapped(line: str) -> list[str]:
    """The lines of one at the beginning; a path is not broken."""
    return textwrap.wrap(line, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _fitting(parts: list[list[str]]) -> list[list[str]]:
    """Cut the longest part by a line until all have room."""
    while sum(map(len, parts)) > LINES:
        longest = max(range(len(parts)), key=lambda index: len(parts[index]))
        *kept, last, _ = parts[longest]
        parts[longest] = [*kept, last if last.endswith(" …") else f"{last[: WIDTH - 2]} …"]
    return parts


def _place(spec: RunSpec, image: Image, folder: str, launch: Launch) -> Iterator[list[str]]:
    """Where the run would be, and how its work is divided."""
    origins = spec.origins
    ranks = plural(launch.ranks_per_node, "ranks")
    yield entry("nodes", f"{launch.nodes} x {ranks}")
    yield entry("layout", _layout(spec))
    yield entry("time limit", time_limit(spec))
    yield entry("image", f"{image.reference} ({image.kind})")
    yield entry("runtime", f"{spec.runtime}{_in_brackets(origins.get('runtime', ''))}")
    yield entry("launcher", f"{spec.launcher}{_in_brackets(origins.get('launcher', ''))}")
    yield entry("folder", folder, whole=True)


def _layout(spec: RunSpec) -> str:
    parallelism = spec.parallelism
    degrees = {name: getattr(parallelism, name) for name in parallelism.__struct_fields__}
    batch = f"MBS {spec.micro_batch_size}, GBS {spec.global_batch_size}"
    shown = [name.upper() if value is True else f"{name.upper()} {value}" for name, value in degrees.items() if value]
    derived = f" ({spec.derived})" if spec.derived else ""
    return f"{', '.join(shown)}; {batch}, GA {spec.gradient_accumulation}{derived}"


def time_limit(spec: RunSpec) -> str:
    """The time limit, and the GPU-hours that a run can use until then."""
    if spec.walltime_minutes is None:
        return "no limit"
    text = f"{spec.walltime_minutes} min"
    if spec.gpu_type != "cpu":
        text += f", at most {spec.gpus * spec.walltime_minutes / 60:,.1f} GPU-hours"
    return text


def _phases(rendered: Rendered, folder: Path) -> Iterator[list[str]]:
    """The command of one rank in each phase, and once what starts all ranks."""
    shown = ""
    for phase in rendered.launch.phases:
        start = start_line(rendered.script, phase).replace(str(folder), "$run_dir")
        if phase.ranks == "all" and start not in ("", shown):
            yield entry("started by", _cut(start.split()))
            shown = start
        yield from _wrappers(phase)
        yield entry(_label(phase, rendered.launch), _cut(map(quoted, phase.argv)))


def _wrappers(phase: Phase) -> Iterator[list[str]]:
    for prefix in phase.prefixes:
        ranks = "the first rank of a node" if prefix.local_first else f"ranks: {prefix.ranks}"
        yield entry("wrapped in", f"{_cut(map(quoted, prefix.argv))} ({ranks})")


def _label(phase: Phase, launch: Launch) -> str:
    if len(launch.phases) == 1:
        return "a rank runs"
    return f"{phase.role}{', rank 0' if phase.ranks == 'first' else ''}"


def _surroundings(spec: RunSpec, launch: Launch) -> Iterator[list[str]]:
    """Mounts, and variables: first those that the user and the recipe set, then the framework's."""
    mounts = [mount.joined() for mount in (*launch.mounts, *map(parse_mount, spec.mounts))]
    if mounts:
        yield entry("mounts", ", ".join(mounts))
    phases = launch.phases
    values = {**spec.env, **{name: text for phase in phases for name, text in phase.env.items()}}
    names = [name for name in values if not name.startswith("LLMBX_")]
    names.sort(key=lambda name: (name not in spec.env, _of_recipe(name, spec)))
    shown = [f"{name}={REDACTED if is_secret(name) else values[name]}" for name in names]
    shown += [f"{name} (by name)" for name in dict.fromkeys(n for p in phases for n in p.forward)]
    if shown:
        yield entry("variables", _cut(shown))


def _of_recipe(name: str, spec: RunSpec) -> bool:
    return spec.origins.get(f"env.{name}", "recipe").startswith("recipe")


def _finding(finding: Finding) -> list[str]:
    return entry("note" if finding.warning else "problem", f"{finding.problem}; {finding.fix}")


def _cut(words: Iterable[str]) -> str:
    """The words, without the ends of long ones, in one line."""
    flat = (repr(word)[1:-1] if len(word.splitlines()) > 1 else word for word in words)
    return " ".join(word if len(word) <= WORD else f"{word[: WORD - 1]}…" for word in flat)


def _in_brackets(origin: str) -> str:
    return f" ({origin})" if origin else ""
