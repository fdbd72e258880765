"""Find a Megatron-Bridge tree, and call the performance recipes in it in a process of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from llmbx.api import UsageError, Value

PLACES = ("megatron/bridge", "src/megatron/bridge", "lib*/python3*/site-packages/megatron/bridge")
"""Where `megatron/bridge` lies in an unpacked wheel, a checkout and an environment."""

VERSION = re.compile(r"^(MAJOR|MINOR|PATCH) = (\d+)$", re.MULTILINE)


class Function(Value, frozen=True):
    """A pre-training function of the performance recipes, and what it sets; None where it sets nothing.

    An `alias` is a second name of a function, which upstream's program does not scale to other numbers of GPUs.
    """

    function: str
    module: str
    model: str
    gpus: int
    gpu_type: str
    variant: str
    alias: bool = False
    files: tuple[str, ...] = ()
    error: str | None = None
    hub: str | None = None
    tp: int | None = None
    pp: int | None = None
    cp: int | None = None
    vp: int | None = None
    ep: int | None = None
    etp: int | None = None
    mbs: int | None = None
    gbs: int | None = None
    graphs: str | None = None
    recompute: str | None = None
    recompute_layers: int | None = None
    offload: bool | None = None
    offload_layers: int | None = None
    fsdp: bool | None = None
    sequence_length: int | None = None
    env: dict[str, str | int | float | bool] = {}


PACKAGE = "megatron/bridge/perf_recipes"
SCRIPTS = "scripts/performance"
"""Where the performance recipes are: in the package from 0.6 on, before that in a checkout only."""


class Tree(Value, frozen=True):
    """A Megatron-Bridge tree: the folder that holds `megatron/`, and the version in it."""

    folder: Path
    version: str

    @property
    def recipes(self) -> str:
        """Where the performance recipes are. Raises `UsageError` if the tree has none."""
        if (self.folder / PACKAGE).is_dir():
            return PACKAGE
        if (self.folder.parent / SCRIPTS / "configs").is_dir():
            return SCRIPTS
        raise UsageError(
            f"{self.folder}: Megatron-Bridge {self.version} has no performance recipes in its package: "
            f"0.6 and later have them, 0.4 and 0.5 have them in a checkout ({SCRIPTS})"
        )

    @property
    def release(self) -> str:
        """The version without its patch."""
        return self.version.rpartition(".")[0]


def find_tree(source: Path) -> Tree:
    """Return the tree in an environment, a checkout or an unpacked wheel. Raises `UsageError` if there is none."""
    for place in PLACES:
        for package in sorted(source.glob(place)):
            info = package / "package_info.py"
            numbers = dict(VERSION.findall(info.read_text(encoding="utf-8"))) if info.is_file() else {}
            if len(numbers) == 3:
                return Tree(
                    folder=package.parents[1],
                    version=f"{numbers['MAJOR']}.{numbers['MINOR']}.{numbers['PATCH']}",
                )
    raise UsageError(f"{source}: no megatron/bridge in it: expected an environment, a checkout or an unpacked wheel")


def functions(tree: Tree) -> list[Function]:
    """Return the pre-training functions of the tree. Raises `UsageError` if it has none, or if they cannot be read.

    They are called with stand-ins for everything outside of the recipes, so that nothing has to be installed.
    """
    from llmbx.api import convert_toml

    name = "record.py" if tree.recipes == PACKAGE else "record_scripts.py"
    program = Path(__file__).with_name(name)
    argv = [sys.executable, "-I", "-S", str(program), str(tree.folder)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise UsageError(f"{tree.folder}: the performance recipes cannot be read: {last}")
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    if not rows:
        raise UsageError(f"{tree.folder}: Megatron-Bridge {tree.version} has no performance recipes")
    return [convert_toml(row, Function, f"{tree.folder}: {row['function']}") for row in rows]
