"""Build the configuration that a run would train with, without a GPU and without training.

`python -m llmbx_nemo.entry.configure` reads `{name: spec.json}` from stdin and writes `{name: {key: value}}` to stdout,
or `{name: {"error": …}}`, with keys and values as in `configs/final.json`. All specifications must have the same
driver. The frameworks see an installed Transformer Engine and the GPU type of the specification.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from llmbx_nemo.entry import fake_te
from llmbx_nemo.entry.execution import Host, Spec

Flat = dict[str, Any]


def main() -> None:
    """Write the configuration of every specification on stdin."""
    specs: dict[str, Spec] = json.load(sys.stdin)
    out, sys.stdout = sys.stdout, sys.stderr
    (driver,) = {spec["driver"] for spec in specs.values()}
    os.environ.setdefault("WORLD_SIZE", "1")
    build = prepare(driver)
    json.dump({name: in_subprocess(build, spec) for name, spec in specs.items()}, out)


def prepare(driver: str) -> Callable[[Spec], Flat]:
    """Import the driver's framework with a fake Transformer Engine.

    Returns the function that builds a configuration.
    """
    if driver == "nemo2":
        from llmbx_nemo.entry import nemo2

        nemo2.prepare()
        fake_te.install(driver)
        return nemo2_configuration
    from llmbx_nemo.entry import bridge

    bridge.prepare()
    fake_te.install(driver)
    from megatron.bridge.training import comm_overlap

    comm_overlap.HAVE_TE = True
    return bridge_configuration


def bridge_configuration(spec: Spec) -> Flat:
    """Return the configuration as Megatron-Bridge's `pretrain` finalizes it before training."""
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
    """Return the configuration as NeMo 2 builds it from the recipe and changes it before it creates the model."""
    from llmbx_nemo.entry import nemo2

    return nemo2.configuration(spec, host(spec))


def host(spec: Spec) -> Host:
    """Return a host with the ranks of the specification, and set this process's GPU type and rank variables."""
    os.environ["WORLD_SIZE"], os.environ["RANK"] = str(spec["gpus"]), "0"
    fake_te.set_gpu_type(spec["gpu_type"])
    return Host(cuda=True, te=True, world=spec["gpus"])


def in_subprocess(build: Callable[[Spec], Flat], spec: Spec) -> Flat:
    """Build the configuration in a child process. Returns it, or `{"error": …}`.

    A child process is needed because the frameworks modify their modules' tuned buffers in place.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            found = build(spec)
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
