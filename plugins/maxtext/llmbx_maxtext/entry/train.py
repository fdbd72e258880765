"""The program of one rank: connects to the other ranks, records versions, and runs MaxText's trainer.

It is started as `python code/train.py PHASE KEY=VALUE …` in the run folder. `LLMBX_SPEC` is the path of the
specification, and `LLMBX_RANK`, `LLMBX_LOCAL_RANK`, `LLMBX_WORLD_SIZE`, `LLMBX_MASTER_ADDR` and `LLMBX_MASTER_PORT` are
set. The arguments are passed to MaxText unchanged. If this image or machine cannot run the recipe, the program prints
one line and exits with status 2.
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
from llmbx_maxtext.entry import configuration, profile_cache, ranges, steps, xla_flags

try:
    from llmbx.entry import verify
except ImportError:  # no installed plugin brings it
    verify = None

VARIABLES = ("MAXTEXT_", "LIBTPU_", "XLA_PYTHON_", "M_")
"""Beginnings of the names of variables that change what the framework does (`M_` overrides MaxText's configuration)."""

NOT_REPEATED = "MaxText reduces the gradients inside its compiled step, which also replaces the weights"


def main(argv: Sequence[str]) -> None:
    """Run one rank of the phase `argv[0]` with MaxText's arguments."""
    phase, *arguments = argv
    spec, folder = rank.begin()
    this = rank.this()
    if missing := missing_program(spec):
        rank.stop(missing)
    if this.first and (refused := xla_flags.problem()):
        rank.stop(refused)
    if phase == "measure" and (fault := profile_cache.problem(spec["pgle"], thorough=False)):
        rank.stop(f"invalid PGLE profile {spec['pgle']['folder']}: {fault}")
    rank.say_where(this)
    if this.first:
        rank.say(f"phase {phase} begins ({this.world} rank{'s' if this.world > 1 else ''})")
        seen.write(folder, configuration.PACKAGES, variables=VARIABLES)
    if this.world > 1:
        join(spec, this)
    if phase != "collect" and "profiler=nsys" in arguments:
        ranges.mark(cuda=spec["gpu_type"] != "cpu")
    steps.measure(folder)
    if verify is not None:
        verify.refuse(spec, folder, NOT_REPEATED)
    watched = folder if this.first else None
    if this.world == 1:
        run_trainer(spec["program"], arguments, watched)
    else:
        run_trainer_or_exit(spec["program"], arguments, watched)


def missing_program(spec: dict[str, Any]) -> str | None:
    """Return an error message if the MaxText release that the run needs is not installed, else None."""
    program = spec["program"]
    module, file = program["module"], program["program"]
    if rank.importable(module.split(".")[0]) if module else Path(file).is_file():
        return None
    missing = f"{sys.executable} has no {module}" if module else f"{file} does not exist"
    return f"recipe '{spec['recipe']}' needs {program['title']}, but {missing}: {rank.origin(spec)}"


def join(spec: dict[str, Any], this: rank.Rank) -> None:
    """Initialize JAX's distributed runtime with llmbx's rank and address, independent of the launcher.

    MaxText would use the variables of a scheduler or cloud. Releases since 2025-05 detect that the runtime is
    initialized; older ones initialize it again, so further calls are disabled.
    """
    import jax

    taken = devices(spec, this, os.environ)
    jax.distributed.initialize(f"{this.address}:{this.port}", this.world, this.number, local_device_ids=taken)
    jax.distributed.initialize = lambda *_, **__: None


def devices(spec: dict[str, Any], this: rank.Rank, env: Mapping[str, str]) -> list[int] | None:
    """Return the devices of this rank, in JAX's numbering of the visible devices; None for all of them.

    If the launcher assigns one GPU to each rank, only this GPU is visible, and its number is 0.
    """
    if spec["gpu_type"] == "cpu" or spec["gpus"] > this.world:
        return None
    visible = [part for part in env.get("CUDA_VISIBLE_DEVICES", "").split(",") if part.strip()]
    return [0] if len(visible) == 1 else [this.local]


def run_trainer(program: dict[str, Any], arguments: Sequence[str], folder: Path | None = None) -> None:
    """Run MaxText's trainer in this process, as `python -m MODULE CONFIG …` or `python FILE CONFIG …` would.

    MaxText's final configuration is written to `folder`, if one is given.
    """
    if not program["module"]:
        sys.path[0] = str(Path(program["program"]).parent)
    if folder:
        configuration.record(program, folder)
    if program["module"]:
        package = importlib.util.find_spec(program["module"].split(".")[0])
        assert package is not None and package.submodule_search_locations
        config = Path(package.submodule_search_locations[0]) / program["config"]
        sys.argv = [program["module"], str(config), *arguments]
        runpy.run_module(program["module"], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [program["program"], program["config"], *arguments]
        runpy.run_path(program["program"], run_name="__main__")


def run_trainer_or_exit(program: dict[str, Any], arguments: Sequence[str], folder: Path | None = None) -> None:
    """Like `run_trainer`, but exit at once after a failure.

    Otherwise JAX would wait for minutes at exit for the other ranks, which wait for this one.
    """
    try:
        run_trainer(program, arguments, folder)
    except SystemExit as end:
        if not end.code:
            raise
        print_exit_message(end.code)
        os._exit(end.code if isinstance(end.code, int) else 1)
    except BaseException:
        traceback.print_exc()
        print_exit_message(None)
        os._exit(1)


def print_exit_message(code: object) -> None:
    """Print what Python would print for `sys.exit(code)`, and flush the output."""
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
