"""Render the parts that the scripts of all launchers share: files, exports and phases, as bash. Pure."""

from __future__ import annotations

import base64
import functools
import re
import shlex
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..model.launch import JOB_NAME, RANK_VARIABLES, Launch, Phase, Wrapping
from ..model.run_folder import NODE_SCRIPT, PLANNED, log_name
from ..secrets import is_secret
from . import nodes
from .shim import render_shim, shim_name

if TYPE_CHECKING:
    from ..model import RunSpec

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ROLE = re.compile(r"[a-z0-9][a-z0-9_-]*")
_END = "END_OF_FILE"


@functools.cache
def shell(name: str, package: str = __package__) -> str:
    """Read a constant part of the scripts from the folder `shell` of `package`."""
    return resources.files(package).joinpath("shell", name).read_text(encoding="utf-8")


def check_launch(launch: Launch, wrappings: Sequence[Wrapping]) -> None:
    """Raise `UsageError` for a launch that no script can express."""
    roles = [phase.role for phase in launch.phases]
    for role in roles:
        if not _ROLE.fullmatch(role):
            raise UsageError(f"phase {role!r}: a role may contain only a-z, 0-9, - and _, as it is part of a file name")
        if roles.count(role) > 1:
            raise UsageError(f"phase {role!r}: two phases of the launch have this role")
    if len(wrappings) != len(roles):
        raise UsageError(f"{len(roles)} phases ({', '.join(roles)}) but {len(wrappings)} wrappings")
    for companion in launch.companions:
        if not _ROLE.fullmatch(companion.name) or not companion.argv:
            raise UsageError(f"companion {companion.name!r}: expected a name of a-z, 0-9, - and _, and an argv")
    for phase in launch.phases:
        if not phase.argv:
            raise UsageError(f"phase {phase.role!r}: its argv is empty")
        if any("\0" in text for text in (*phase.argv, *phase.env.values())):
            raise UsageError(f"phase {phase.role!r}: arguments and variables cannot contain a NUL byte")


def setting(name: str, value: str) -> str:
    """Return `name=value` as a line of bash."""
    return f"{name}={shlex.quote(value)}"


def quoted(word: str) -> str:
    """Return `word` as a shell word, with the script's variable `job_name` in place of `JOB_NAME`."""
    if JOB_NAME not in word:
        return shlex.quote(word)
    return '"$job_name"'.join(shlex.quote(part) if part else "" for part in word.split(JOB_NAME))


def planned(run_dir: Path) -> bool:
    """Whether `run_dir` is the folder of a script that is written in advance, without a timestamp."""
    return run_dir.parent.name.endswith(PLANNED)


def head(title: str, run_dir: Path, spec: RunSpec, job_id: str, output: str = "") -> str:
    """Return the first lines after the interpreter and the scheduler's options; `job_id` is a shell word.

    A script that is written in advance continues as a copy of itself in a new folder; `output` is the file there that
    gets the output of the copy (empty: it stays where it is).
    """
    lines = [f"# {title}", "# This script does not need llmbx or any other file of the machine that rendered it."]
    lines += ["set -u", setting("run_dir", str(run_dir))]
    if planned(run_dir):
        into = f' >> "$folder/"{shlex.quote(output)} 2>&1' if output else ""
        lines.append(shell("claim.sh").replace("INTO", into).rstrip("\n"))
    lines.append("umask go-w # only the owner of a run changes its files")
    lines += [setting("log", log_name(spec)), f"job_id={job_id}"]
    return "\n".join([*lines, 'mkdir -p "$run_dir" && cd "$run_dir" || exit 1'])


def files(launch: Launch) -> str:
    """Return the lines with which the script writes the launch's files and the rank shims."""
    shims = {shim_name(phase): render_shim(phase, launch).encode() for phase in launch.phases}
    shims[NODE_SCRIPT] = shell(NODE_SCRIPT).replace("QUERY", ",".join(nodes.QUERY)).encode()
    return "\n".join(_file(name, content) for name, content in {**launch.files, **shims}.items())


def _file(name: str, content: bytes) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.name:
        raise UsageError(f"file {name!r}: expected a path inside the run folder")
    lines = [] if len(path.parts) == 1 else [f"mkdir -p -- {shlex.quote(f'./{path.parent}')}"]
    target = shlex.quote(f"./{path}")
    if _is_text(content):
        tool, text = "cat", content.decode()
    else:
        tool, text = "base64 -d", base64.encodebytes(content).decode()
    lines.append(f"{tool} > {target} << '{_END}' || unwritten {target}\n{text}{_END}")
    return "\n".join(lines)


def _is_text(content: bytes) -> bool:
    """Whether a here-document can express the content without changing a byte."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return False
    return text.endswith("\n") and "\0" not in text and _END not in text.split("\n")


def environment(spec: RunSpec, phase: Phase, wrapping: Wrapping) -> dict[str, str]:
    """Return the variables that the phase exports by value: the run's, the phase's, then its runtime's. No secrets.

    Raises `UsageError` for a name or value that no shell can export.
    """
    merged = {**spec.env, **phase.env, **wrapping.host_env}
    for name, value in merged.items():
        check_variable(name, value)
    return {name: value for name, value in merged.items() if not is_secret(name)}


def check_variable(name: str, value: str) -> None:
    """Raise `UsageError` for a variable that no shell can export."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"environment variable {name!r}: a name may contain only letters, digits and _, and not start with a digit"
        )
    if "\0" in value:
        raise UsageError(f"environment variable {name}: a value cannot contain a NUL byte")


def exports(variables: Mapping[str, str]) -> list[str]:
    """Return one quoted `export` line per variable."""
    return [f"export {setting(name, value)}" for name, value in variables.items()]


def forget_ranks() -> str:
    """Return the line that unsets the rank variables, for a rank that itself starts a run."""
    return "unset " + " ".join(name for name in RANK_VARIABLES if name.startswith("LLMBX_"))


def rank_function(spec: RunSpec, phase: Phase, wrapping: Wrapping, start: Sequence[str] = ()) -> str:
    """Return the bash function that runs one rank of the phase or, with the command `start`, all ranks."""
    words = [quoted(word) for word in (*start, *wrapping.argv)]
    command = folded([*(["exec"] if start else []), *words, "/bin/sh", f'"$run_dir"/{shim_name(phase)}'])
    body = [*exports(environment(spec, phase, wrapping)), command]
    return "\n".join([f"{function_name(phase)}() {{", *(f"  {line}" for line in body), "}"])


def start_line(script: str, phase: Phase) -> str:
    """Return the command in `rank_function` that starts the ranks, without the shim.

    Empty if there is no other, or if it has shell code of several lines (a container tool on this machine).
    """
    body = script.partition(f"\n{function_name(phase)}() {{\n")[2].partition("\n}\n")[0].splitlines()
    first = len(body) - 1
    while first > 0 and body[first - 1].endswith(" \\"):
        first -= 1
    words = " ".join(line.strip().removesuffix(" \\") for line in body[first:])
    if words.count("'") % 2:
        return ""
    return words.partition(f'/bin/sh "$run_dir"/{shim_name(phase)}')[0].removeprefix("exec ").strip()


def folded(words: Sequence[str], width: int = 110) -> str:
    """Join quoted words into one command over several lines."""
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(word) < width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return " \\\n    ".join(lines)


def setup(spec: RunSpec) -> list[str]:
    """Return the user's setup lines, run as in a login shell, where unset variables are not an error."""
    lines = ["set +u", *spec.setup, "set -u", "umask go-w", 'cd "$run_dir" || exit 1']
    return ["\n".join(lines)] if spec.setup else []


def function_name(phase: Phase) -> str:
    """Return the name of the phase's function in the script."""
    return "rank_" + phase.role.replace("-", "_")


def phases(launch: Launch) -> str:
    """Return the phases in order, each with its checks; a phase starts when `run` of the previous one has returned."""
    return "\n\n".join([*(_phase(phase, launch.ranks_of(phase)) for phase in launch.phases), "finish 0"])


def _phase(phase: Phase, ranks: int) -> str:
    inner = [f"needs {shlex.join(phase.needs)}"] if phase.needs else []
    stale = [path for path in phase.makes if _in_folder(path)]
    if stale:
        inner.append(f"forget {shlex.join(stale)}")
    inner.append(f"run {ranks} {function_name(phase)}")
    if phase.makes:
        inner.append(f"makes {shlex.join(phase.makes)}")
    inner.append("leave false")
    first = f"enter {phase.role}"
    if phase.skip_if is None:
        return "\n".join([first, *inner])
    return "\n".join(
        [first, f"if ! skipped_for {shlex.quote(phase.skip_if)}; then", *(f"  {line}" for line in inner), "fi"]
    )


def _in_folder(path: str) -> bool:
    return not path.startswith("/") and ".." not in PurePosixPath(path).parts
