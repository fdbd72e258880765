"""What the scripts of all launchers share: files, exports and phases as bash. Pure text, nothing is started here."""

from __future__ import annotations

import base64
import functools
import re
import shlex
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path, PurePosixPath

from ..errors import UsageError
from ..model import RANK_VARIABLES, Launch, Phase, RunSpec, Wrapping
from ..model.run_folder import batch_name as batch_name  # for authors of launchers
from ..model.run_folder import log_name as log_name
from ..secrets import is_secret
from . import nodes
from .shim import phase_ranks, render_shim, shim_name

SCRIPT = "run.sh"
"""The script itself, in the run folder."""

EXIT = "exit.json"
"""What the script leaves in the run folder when it ends (see `exits`)."""

GIVEN_UP = "given-up"
"""A file in the run folder that keeps a script from doing anything: the run was counted as never started."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ROLE = re.compile(r"[a-z0-9][a-z0-9_-]*")
_END = "END_OF_FILE"


@functools.cache
def shell(name: str, package: str = __package__) -> str:
    """A part of the scripts that is the same for every run, from the folder `shell` of `package`."""
    return resources.files(package).joinpath("shell", name).read_text(encoding="utf-8")


def check_launch(launch: Launch, wrappings: Sequence[Wrapping]) -> None:
    """Raise `UsageError` for a launch that no script can be made of."""
    roles = [phase.role for phase in launch.phases]
    for role in roles:
        if not _ROLE.fullmatch(role):
            raise UsageError(f"phase {role!r}: a role is made of a-z, 0-9, - and _, since it names a file")
        if roles.count(role) > 1:
            raise UsageError(f"phase {role!r}: two phases of one launch have this role")
    if len(wrappings) != len(roles):
        raise UsageError(f"{len(roles)} phases ({', '.join(roles)}) but {len(wrappings)} wrappings")
    for phase in launch.phases:
        if not phase.argv:
            raise UsageError(f"phase {phase.role!r}: its argv is empty")
        if any("\0" in text for text in (*phase.argv, *phase.env.values())):
            raise UsageError(f"phase {phase.role!r}: arguments and variables cannot hold a NUL byte")


def setting(name: str, value: str) -> str:
    """`name=value` as a line of bash."""
    return f"{name}={shlex.quote(value)}"


def head(title: str, run_dir: Path, spec: RunSpec, job_id: str) -> str:
    """The first lines after the interpreter and the scheduler's options; `job_id` is a shell word."""
    lines = [f"# {title}", "# It needs neither llmbx nor anything else of the machine that rendered it."]
    lines += ["set -u", setting("run_dir", str(run_dir)), setting("log", log_name(spec)), f"job_id={job_id}"]
    return "\n".join([*lines, 'mkdir -p "$run_dir" && cd "$run_dir" || exit 1'])


def files(launch: Launch) -> str:
    """The launch's files and the shims, written by the script itself."""
    shims = {shim_name(phase): render_shim(phase, launch).encode() for phase in launch.phases}
    shims[nodes.SCRIPT] = shell(nodes.SCRIPT).replace("QUERY", ",".join(nodes.QUERY)).encode()
    return "\n".join(_file(name, content) for name, content in {**launch.files, **shims}.items())


def _file(name: str, content: bytes) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.name:
        raise UsageError(f"file {name!r}: a launch's files lie inside the run folder")
    lines = [] if len(path.parts) == 1 else [f"mkdir -p -- {shlex.quote(f'./{path.parent}')}"]
    target = shlex.quote(f"./{path}")
    if _is_text(content):
        tool, text = "cat", content.decode()
    else:
        tool, text = "base64 -d", base64.encodebytes(content).decode()
    lines.append(f"{tool} > {target} << '{_END}' || unwritten {target}\n{text}{_END}")
    return "\n".join(lines)


def _is_text(content: bytes) -> bool:
    """Whether a here-document keeps every byte."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return False
    return text.endswith("\n") and "\0" not in text and _END not in text.split("\n")


def environment(spec: RunSpec, phase: Phase, wrapping: Wrapping) -> dict[str, str]:
    """What the phase exports by value: the run's, the phase's, then what its runtime wants on the host. No secrets.

    Raises `UsageError` for a name that no shell can export.
    """
    merged = {**spec.env, **phase.env, **wrapping.host_env}
    for name, value in merged.items():
        check_variable(name, value)
    return {name: value for name, value in merged.items() if not is_secret(name)}


def check_variable(name: str, value: str) -> None:
    """Raise `UsageError` for a variable that no shell can export."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"environment variable {name!r}: a name is made of letters, digits and _, and no digit comes first"
        )
    if "\0" in value:
        raise UsageError(f"environment variable {name}: a value cannot hold a NUL byte")


def exports(variables: Mapping[str, str]) -> list[str]:
    """One `export` a variable, each value intact."""
    return [f"export {setting(name, value)}" for name, value in variables.items()]


def forget_ranks() -> str:
    """Keeps a rank that starts a run of its own from handing its place down."""
    return "unset " + " ".join(name for name in RANK_VARIABLES if name.startswith("LLMBX_"))


def rank_function(spec: RunSpec, phase: Phase, wrapping: Wrapping, start: Sequence[str] = ()) -> str:
    """The bash function that becomes one rank (or, with `start` in front, all ranks) of the phase."""
    words = [shlex.quote(word) for word in (*start, *wrapping.argv)]
    command = _folded([*(["exec"] if start else []), *words, "/bin/sh", f'"$run_dir"/{shim_name(phase)}'])
    body = [*exports(environment(spec, phase, wrapping)), command]
    return "\n".join([f"{function_name(phase)}() {{", *(f"  {line}" for line in body), "}"])


def _folded(words: Sequence[str], width: int = 110) -> str:
    """Quoted words as one command over several lines."""
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(word) < width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return " \\\n    ".join(lines)


def setup(spec: RunSpec) -> list[str]:
    """The run's own lines, as they would run in a login shell: unset variables are no error there."""
    lines = ["set +u", *spec.setup, "set -u", 'cd "$run_dir" || exit 1']
    return ["\n".join(lines)] if spec.setup else []


def function_name(phase: Phase) -> str:
    """The phase's function in the script."""
    return "rank_" + phase.role.replace("-", "_")


def phases(launch: Launch) -> str:
    """The phases in order, each with its checks; the end of `run` is the barrier between them."""
    return "\n\n".join([*(_phase(phase, phase_ranks(phase, launch)) for phase in launch.phases), "finish 0"])


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
