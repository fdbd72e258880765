"""What goes through a container's wall: which variables, by name, and which folders. Pure functions."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from pathlib import Path

from ..errors import UsageError
from ..model import RANK_VARIABLES, Launch, Mount, Phase, RunSpec

HOST_VARIABLES = ("CUDA_VISIBLE_DEVICES", "HF_HOME", "USER", "LOGNAME")
"""Variables of the host that programs need inside, where they are set: GPUs of the rank, model cache, who runs."""


def forwarded(spec: RunSpec, phase: Phase) -> tuple[str, ...]:
    """Names of the variables that a rank of `phase` sees, each once: the run's, the phase's, secrets, its rank."""
    names = (*spec.env, *phase.env, *phase.forward, *spec.secrets, *HOST_VARIABLES, *RANK_VARIABLES)
    return tuple(dict.fromkeys(names))


def mounts(spec: RunSpec, launch: Launch, phase: Phase, run_dir: Path, forbidden: str) -> tuple[Mount, ...]:
    """The folders that the container sees, each once: the run's own, the launch's, the user's, the model cache.

    `forbidden` are characters that the container tool's own syntax cannot carry in a path: `UsageError` names them.
    """
    wanted = [Mount(source=str(run_dir)), *launch.mounts, *map(parse_mount, spec.mounts)]
    if cache := {**spec.env, **phase.env}.get("HF_HOME"):
        wanted.append(Mount(source=cache))
    by_target = {mount.target or mount.source: mount for mount in wanted}
    for mount in by_target.values():
        for path in (mount.source, mount.target or mount.source):
            if bad := next((character for character in forbidden if character in path), None):
                raise UsageError(f"the folder {path!r} cannot be mounted: its name holds {bad!r}; rename or link it")
    return tuple(by_target.values())


def parse_mount(text: str) -> Mount:
    """`SOURCE[:TARGET][:ro]` as a `Mount`. Raises `UsageError` for anything else."""
    parts = text.split(":")
    read_only = len(parts) > 1 and parts[-1] in ("ro", "rw")
    mode = parts.pop() if read_only else "rw"
    if not 1 <= len(parts) <= 2 or not all(part.startswith("/") for part in parts):
        raise UsageError(f"mount '{text}': expected SOURCE[:TARGET][:ro] with absolute paths")
    return Mount(source=parts[0], target=parts[1] if len(parts) == 2 else None, read_only=mode == "ro")


def joined(mount: Mount, read_only: str = "ro") -> str:
    """`source:target`, with `:ro` (or the tool's own word for it) when it must not be written."""
    text = f"{mount.source}:{mount.target or mount.source}"
    return f"{text}:{read_only}" if mount.read_only else text


def needs_gpus(spec: RunSpec, launch: Launch) -> bool:
    """Whether GPUs must be seen inside: a rank of a run without any may still count devices, which are the CPU's."""
    return launch.gpus_per_rank > 0 and spec.gpu_type != "cpu"


def if_there(wanted: Iterable[Mount], action: Callable[[str], str], read_only: str = "ro") -> str:
    """POSIX sh that does `action` (given a quoted `joined` mount) for each optional mount whose source a node has."""
    optional = [mount for mount in wanted if mount.optional]
    lines = [f"[ ! -e {shlex.quote(m.source)} ] || {action(shlex.quote(joined(m, read_only)))}" for m in optional]
    return "".join(f"{line}; " for line in lines)


def only_set(names: tuple[str, ...], action: str) -> str:
    """POSIX sh that does `action` for each of `names` that is set; in it `$n` is the name.

    A name that is not set stays so: an empty `CUDA_VISIBLE_DEVICES`, say, would hide every GPU.
    """
    return f'for n in {" ".join(names)}; do eval "[ -n \\"\\${{$n+x}}\\" ]" && {action}; done'
