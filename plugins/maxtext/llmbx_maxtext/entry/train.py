"""The program of one rank: joins the other ranks, says what it finds, and becomes MaxText's own trainer.

Started as `python code/train.py PHASE KEY=VALUE …` in the run folder, with `LLMBX_SPEC` naming the specification and
`LLMBX_RANK`, `LLMBX_LOCAL_RANK`, `LLMBX_WORLD_SIZE`, `LLMBX_MASTER_ADDR` and `LLMBX_MASTER_PORT` set. The arguments
are MaxText's, handed over as they are. Exit status 2: this image or machine cannot run the recipe, said in one line.
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from llmbx.entry import rank, seen
from llmbx_maxtext.entry import kept, ranges

PACKAGES = ("maxtext", "jax", "jaxlib", "flax", "optax")
"""Packages whose versions belong to a result."""


def main(argv: Sequence[str]) -> None:
    """Run one rank of the phase `argv[0]` with MaxText's arguments."""
    phase, *arguments = argv
    spec, folder = rank.begin()
    this = rank.this()
    if missing := missing_program(spec):
        rank.stop(missing)
    if phase == "measure" and (fault := kept.problem(spec["pgle"], thorough=False)):
        rank.stop(f"the PGLE profile {spec['pgle']['folder']} cannot be used: {fault}")
    rank.say_where(this)
    if this.first:
        rank.say(f"phase {phase} begins ({this.world} rank{'s' if this.world > 1 else ''})")
        seen.write(folder, PACKAGES)
    if this.world > 1:
        join(spec, this)
    if phase != "collect" and "profiler=nsys" in arguments:
        ranges.mark(cuda=spec["gpu_type"] != "cpu")
    if this.world == 1:
        become(spec["program"], arguments)
    else:
        become_or_leave(spec["program"], arguments)


def missing_program(spec: dict[str, Any]) -> str | None:
    """One line when the release of MaxText that the run needs is not here, else None."""
    program = spec["program"]
    module, file = program["module"], program["program"]
    if rank.importable(module.split(".")[0]) if module else Path(file).is_file():
        return None
    what = f"{program['title']}, but there is no {module or file} for {sys.executable}"
    return f"recipe '{spec['recipe']}' needs {what}: {rank.origin(spec)}"


def join(spec: dict[str, Any], this: rank.Rank) -> None:
    """Join JAX's distributed runtime under llmbx's rank, wherever it was started.

    MaxText would find its peers by the scheduler's variables, or a cloud's. Releases since 2025-05 see that it is done;
    older ones begin again without asking, so the second call is made to do nothing.
    """
    import jax

    taken = devices(spec, this, os.environ)
    jax.distributed.initialize(f"{this.address}:{this.port}", this.world, this.number, local_device_ids=taken)
    jax.distributed.initialize = lambda *_, **__: None


def devices(spec: dict[str, Any], this: rank.Rank, env: Mapping[str, str]) -> list[int] | None:
    """The devices that this rank takes, as JAX numbers those it can see; None for all of them.

    A launcher that gives each rank its own GPU leaves only that one visible, which is then number 0.
    """
    if spec["gpu_type"] == "cpu":
        return None
    visible = [part for part in env.get("CUDA_VISIBLE_DEVICES", "").split(",") if part.strip()]
    return [0] if len(visible) == 1 else [this.local]


def become(program: dict[str, Any], arguments: Sequence[str]) -> None:
    """Run MaxText's trainer in this process, as `python -m MODULE CONFIG …` or `python FILE CONFIG …` would."""
    if program["module"]:
        package = importlib.util.find_spec(program["module"].split(".")[0])
        assert package is not None and package.submodule_search_locations
        config = Path(package.submodule_search_locations[0]) / program["config"]
        sys.argv = [program["module"], str(config), *arguments]
        runpy.run_module(program["module"], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(program["program"]).parent)
        sys.argv = [program["program"], program["config"], *arguments]
        runpy.run_path(program["program"], run_name="__main__")


def become_or_leave(program: dict[str, Any], arguments: Sequence[str]) -> None:
    """Like `become`, but a failing rank leaves at once: JAX would wait minutes for its peers, who wait for this one."""
    try:
        become(program, arguments)
    except SystemExit as end:
        if not end.code:
            raise
        print_last(end.code)
        os._exit(end.code if isinstance(end.code, int) else 1)
    except BaseException:
        traceback.print_exc()
        print_last(None)
        os._exit(1)


def print_last(word: object) -> None:
    """What Python itself would print before it leaves with `word`, then everything that is still held back."""
    if word is not None and not isinstance(word, int):
        print(word, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
