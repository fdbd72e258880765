"""Scripts of the local launcher, as tests render and compare them, and parts for the scripts of other launchers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path

from llmbx.launchers.local import LocalLauncher
from llmbx.model import Launch, Phase, Prefix, RunSpec, Wrapping

from .conftest import make_launch, make_spec, shell_phase

RUN_DIR = Path("/install/workloads/pretrain_toy/experiments/x/x_1/x")
NSYS = ("nsys", "profile", "-o", "nsys_profile/rank%q{LLMBX_RANK}")

AWKWARD = Phase(
    role="train",
    argv=("python3", "it's.py", "--text", 'a "b" & c; $HOME `date`', "two\nlines", "", "-x"),
    env={"NAME": 'it\'s $HOME & "more";\nand more', "LEADING": "--dash"},
)

DOCKER = Wrapping(
    argv=("docker", "run", "--rm", "--env", "NCCL_DEBUG", "--env", "LLMBX_RANK", "image:1"),
    host_env={"DOCKER_HOST": "unix:///run/my docker.sock"},
)

IN_ADVANCE = RUN_DIR.parent.parent / "x_TIMESTAMP" / "x"
"""The run folder of a script that is written before it is known when it starts."""


INVALID: list[tuple[tuple[Phase, ...], str]] = [
    ((Phase(role="a/b", argv=("x",)),), "'a/b': a role may contain only"),
    ((Phase(role="a", argv=("x",)), Phase(role="a", argv=("y",))), "two phases"),
    ((Phase(role="a", argv=()),), "its argv is empty"),
    ((Phase(role="a", argv=("x\0",)),), "NUL"),
    ((Phase(role="a", argv=("x",), env={"A-B": "1"}),), "'A-B': a name may contain only"),
    ((Phase(role="a", argv=("x",), env={"A": "\0"}),), "NUL"),
]
"""Phases that no script can express, and what the error says."""


def pgle() -> tuple[Phase, ...]:
    """The three phases of profile-guided compilation."""
    collect = shell_phase("collect", "collect", skip_if="/cache/profile.pbtxt", makes=("nsys_profile/*.nsys-rep",))
    collect = collect.replace(prefixes=(Prefix(argv=NSYS, ranks="first"),), env={"XLA_FLAGS": "--a --b=1"})
    convert = shell_phase(
        "convert", "convert", ranks="first", skip_if="/cache/profile.pbtxt", needs=("nsys_profile/rank0.nsys-rep",),
        makes=("/cache/profile.pbtxt",),
    )  # fmt: skip
    return collect, convert, shell_phase("train", needs=("/cache/profile.pbtxt",))


def local(launch: Launch, spec: RunSpec | None = None, *wrappings: Wrapping, run_dir: Path = RUN_DIR) -> str:
    """The local launcher's script."""
    wraps = wrappings or tuple(Wrapping() for _ in launch.phases)
    return LocalLauncher().render(spec or make_spec(gpus=launch.world_size), launch, wraps, run_dir)


WHOLES: dict[str, Callable[[], str]] = {
    "local-plain.sh": lambda: local(make_launch("echo hello", files={"spec.json": b"{}\n"})),
    "local-full.sh": lambda: local(
        make_launch(*pgle(), ranks=2), None, *(DOCKER for _ in range(3)), run_dir=IN_ADVANCE
    ),
}  # fmt: skip
"""A script with one phase and nothing else, and one in a container, with a profiler and three phases.

Their golden files are wholes, which are read as programs; those of all other scripts keep only their own lines.
"""

OTHERS: dict[str, Callable[[], str]] = {
    "local-4-ranks.sh": lambda: local(
        make_launch(shell_phase("work", prefixes=(Prefix(argv=NSYS, ranks="first,mid,last"),)), ranks=4)
    ),
    "local-three-phases.sh": lambda: local(make_launch(*pgle(), ranks=2, files={"bin/code": b"\x00\x01"})),
    "local-docker.sh": lambda: local(make_launch(shell_phase("work", env={"NCCL_DEBUG": "INFO"})), None, DOCKER),
    "local-awkward.sh": lambda: local(make_launch(AWKWARD), make_spec(env={"SPACED": " a  b "})),
    "local-in-advance.sh": lambda: local(make_launch("echo hello"), run_dir=IN_ADVANCE),
}  # fmt: skip


@functools.cache
def wholes() -> Mapping[str, str]:
    """The scripts whose golden files are wholes, by name."""
    return {name: render() for name, render in WHOLES.items()}
