"""The configuration that a run would train with, built without a GPU and without training.

`python -m llmbx_nemo.entry.configure` reads `{name: spec.json}` from stdin and writes `{name: {key: value}}` to stdout,
or `{name: {"error": …}}`: keys and forms as in `configs/final.json`. All specifications are of one driver. Transformer
Engine is declared present, the GPU is the specification's.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from llmbx_nemo.entry import declared
from llmbx_nemo.entry.execution import Host, Spec

Flat = dict[str, Any]


def main() -> None:
    """Answer every specification on stdin."""
    specs: dict[str, Spec] = json.load(sys.stdin)
    out, sys.stdout = sys.stdout, sys.stderr
    (driver,) = {spec["driver"] for spec in specs.values()}
    os.environ.setdefault("WORLD_SIZE", "1")
    answer = prepare(driver)
    json.dump({name: in_a_process_of_its_own(answer, spec) for name, spec in specs.items()}, out)


def prepare(driver: str) -> Callable[[Spec], Flat]:
    """Import the driver's framework with Transformer Engine declared; gives what builds a configuration."""
    if driver == "nemo2":
        from llmbx_nemo.entry import nemo2

        nemo2.prepare()
        declared.transformer_engine(driver)
        return nemo2_configuration
    from llmbx_nemo.entry import bridge

    bridge.prepare()
    declared.transformer_engine(driver)
    from megatron.bridge.training import comm_overlap

    comm_overlap.HAVE_TE = True
    return bridge_configuration


def bridge_configuration(spec: Spec) -> Flat:
    """What Megatron-Bridge's `pretrain` makes of the container before it trains."""
    from megatron.bridge.training import pretrain
    from megatron.bridge.training.gpt_step import forward_step

    from llmbx_nemo.entry import bridge, final

    found: Flat = {}

    def caught(*args: Any, **given: Any) -> None:
        found.update(final.flat((given.get("state") or args[0]).cfg))

    pretrain._pretrain = caught
    pretrain.pretrain(bridge.container(spec, host(spec)), forward_step)
    return found


def nemo2_configuration(spec: Spec) -> Flat:
    """What NeMo 2 builds of the recipe, and what it makes of it before it makes the model."""
    from llmbx_nemo.entry import nemo2

    return nemo2.configuration(spec, host(spec))


def host(spec: Spec) -> Host:
    """The GPU and the ranks of the specification, in this process's environment too."""
    os.environ["WORLD_SIZE"], os.environ["RANK"] = str(spec["gpus"]), "0"
    declared.gpu(spec["gpu_type"])
    return Host(cuda=True, te=True, world=spec["gpus"])


def in_a_process_of_its_own(answer: Callable[[Spec], Flat], spec: Spec) -> Flat:
    """The configuration, or `{"error": …}`. Tuned buffers are objects of a module, which the frameworks change."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            found = answer(spec)
        except BaseException as error:
            found = {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()[-3000:]}
        with os.fdopen(writer, "w", encoding="utf-8") as pipe:
            json.dump(found, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as pipe:
        found = json.load(pipe)
    os.waitpid(child, 0)
    return dict(found)


if __name__ == "__main__":
    main()
