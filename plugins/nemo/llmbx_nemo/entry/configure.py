"""Build the configuration that a run would train with, without a GPU and without training.

`python code/configure.py [SPEC ...]` reads specifications (`spec.json` by default) and writes for each of them
`configs/final.json` in the folder of the file, as a run does. All specifications must have the same driver. For a
specification with GPUs the frameworks see an installed Transformer Engine and its GPU type.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llmbx.entry import final, seen
from llmbx_nemo.entry import execution, fake_te
from llmbx_nemo.entry.execution import Host, Spec

Flat = dict[str, Any]

REFUSED = 2
"""Exit code if the framework refuses a specification."""


def main(arguments: list[str]) -> int:
    """Write the configuration of every specification.

    Returns 0, 2 if the framework refuses one of them, or 1 if the program failed.
    """
    specs = {path: json.loads(path.read_bytes()) for path in map(Path, arguments or ["spec.json"])}
    ((driver, gpus),) = {(spec["driver"], spec["gpu_type"] != "cpu") for spec in specs.values()}
    os.environ.setdefault("WORLD_SIZE", "1")
    build = prepare(driver, gpus)
    codes = {in_subprocess(build, spec, path.parent) for path, spec in specs.items()} - {0}
    return 1 if codes - {REFUSED} else max(codes, default=0)


def prepare(driver: str, gpus: bool) -> Callable[[Spec], Flat]:
    """Import the driver's framework, for runs with GPUs with a fake Transformer Engine.

    Returns the function that builds a configuration.
    """
    if driver == "nemo2":
        from llmbx_nemo.entry import nemo2

        nemo2.prepare()
    else:
        from llmbx_nemo.entry import bridge

        bridge.use_hub(Path())
        bridge.prepare()
    if gpus:
        fake_te.install(driver)
    return nemo2_configuration if driver == "nemo2" else bridge_configuration


def bridge_configuration(spec: Spec) -> Flat:
    """Return the configuration as Megatron-Bridge's `pretrain` finalizes it before training."""
    from megatron.bridge.training import pretrain
    from megatron.bridge.training.gpt_step import forward_step

    from llmbx_nemo.entry import bridge

    flat: Flat = {}

    def caught(*args: Any, **given: Any) -> None:
        flat.update(final.flat((given.get("state") or args[0]).cfg))

    pretrain._pretrain = caught
    pretrain.pretrain(bridge.container(spec, host(spec)), forward_step)
    return flat


def nemo2_configuration(spec: Spec) -> Flat:
    """Return the configuration as NeMo 2 builds it from the recipe and changes it before it creates the model."""
    from llmbx_nemo.entry import nemo2

    return nemo2.configuration(spec, host(spec))


def host(spec: Spec) -> Host:
    """Return a host with the ranks of the specification, and set this process's GPU type and rank variables."""
    os.environ["WORLD_SIZE"], os.environ["RANK"] = str(spec["gpus"]), "0"
    gpus = spec["gpu_type"] != "cpu"
    if gpus:
        fake_te.set_gpu_type(spec.get("layout_of") or spec["gpu_type"])
    return Host(cuda=gpus, te=gpus, world=spec["gpus"])


def in_subprocess(build: Callable[[Spec], Flat], spec: Spec, folder: Path) -> int:
    """Build and write the configuration in a child process; its error is printed to stderr. Returns its exit code.

    A child process is needed because the frameworks modify their modules' tuned buffers in place.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            final.write_flat(build(spec), seen.versions(execution.PACKAGES), folder)
            code = 0
        except (AssertionError, ValueError) as error:  # what frameworks raise for values that do not fit together
            traceback.print_exception(error)
            code = REFUSED
        except BaseException as error:
            traceback.print_exception(error)
        sys.stderr.flush()
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
