"""Environment variables (by name) and mounts that are passed into a container. Pure functions."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from pathlib import Path

from ..errors import UsageError
from ..model import RANK_VARIABLES, Launch, Mount, Phase, RunSpec

HOST_VARIABLES = ("CUDA_VISIBLE_DEVICES", "HF_HOME", "USER", "LOGNAME")
"""Host variables that are passed in if they are set: GPUs of the rank, model cache, user name."""


def forwarded(spec: RunSpec, phase: Phase) -> tuple[str, ...]:
    """Return the unique names of the variables for a rank of `phase`: the run's, the phase's, secrets, its rank."""
    names = (*spec.env, *phase.env, *phase.forward, *spec.secrets, *HOST_VARIABLES, *RANK_VARIABLES)
    return tuple(dict.fromkeys(names))


def mounts(spec: RunSpec, launch: Launch, phase: Phase, run_dir: Path, forbidden: str) -> tuple[Mount, ...]:
    """Return the unique mounts of the container: the run folder, the launch's, the user's, the model cache.

    Raises `UsageError` for a path with one of the characters `forbidden`, which the container tool's syntax cannot
    express.
    """
    requested = [Mount(source=str(run_dir)), *launch.mounts, *map(parse_mount, spec.mounts)]
    if cache := {**spec.env, **phase.env}.get("HF_HOME"):
        requested.append(Mount(source=cache))
    by_target = {mount.target or mount.source: mount for mount in requested}
    for mount in by_target.values():
        for path in (mount.source, mount.target or mount.source):
            if bad := next((character for character in forbidden if character in path), None):
                raise UsageError(
                    f"the folder {path!r} cannot be mounted: its path contains {bad!r}; rename it or use a link"
                )
    return tuple(by_target.values())


def parse_mount(text: str) -> Mount:
    """Parse `SOURCE[:TARGET][:ro]`. Raises `UsageError` for anything else."""
    parts = text.split(":")
    read_only = len(parts) > 1 and parts[-1] in ("ro", "rw")
    mode = parts.pop() if read_only else "rw"
    if not 1 <= len(parts) <= 2 or not all(part.startswith("/") for part in parts):
        raise UsageError(f"mount '{text}': expected SOURCE[:TARGET][:ro] with absolute paths")
    return Mount(source=parts[0], target=parts[1] if len(parts) == 2 else None, read_only=mode == "ro")


def needs_gpus(spec: RunSpec, launch: Launch) -> bool:
    """Whether GPUs must be visible inside. In CPU runs `gpus_per_rank` counts CPU devices."""
    return launch.gpus_per_rank > 0 and spec.gpu_type != "cpu"


def if_there(wanted: Iterable[Mount], action: Callable[[str], str], read_only: str = "ro") -> str:
    """Return POSIX sh that runs `action` (of a quoted mount) for each optional mount whose source exists."""
    optional = [mount for mount in wanted if mount.optional]
    lines = [f"[ ! -e {shlex.quote(m.source)} ] || {action(shlex.quote(m.joined(read_only)))}" for m in optional]
    return "".join(f"{line}; " for line in lines)


def only_set(names: tuple[str, ...], action: str) -> str:
    """Return POSIX sh that runs `action` for each of `names` that is set; `$n` is the name.

    Unset variables must stay unset: an empty `CUDA_VISIBLE_DEVICES`, for example, would hide every GPU.
    """
    return f'for n in {" ".join(names)}; do eval "[ -n \\"\\${{$n+x}}\\" ]" && {action}; done'
