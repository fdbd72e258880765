"""bridge_configurations.py: what Megatron-Bridge makes of specifications, without a GPU and without training.

Reads `{name: spec.json}` from stdin and writes `{name: flat configuration}` to stdout: the container that training
would start with, after the framework's own finalisation. Transformer Engine is declared present, and the device's
capability is that of the specification's GPU type. Each configuration is made in a process of its own, because tuned
buffers are objects of a module.
"""

from __future__ import annotations

import json
import os
import sys
import types
from typing import Any

CAPABILITIES = {"h100": (9, 0), "b200": (10, 0), "gb200": (10, 0), "gb300": (10, 3)}
TE_VERSION = "2.7.0"
ARGUMENTS = ("exp_avg_dtype", "exp_avg_sq_dtype", "master_weight_dtype", "use_decoupled_grad", "store_param_remainders",
             "master_weights", "set_grad_none")  # fmt: skip
"""Arguments of Transformer Engine's Adam that Megatron-Core's OptimizerConfig looks for."""


def declare_transformer_engine() -> None:
    """A module of that name and version, and Megatron's own records of it, as if it were installed."""
    from megatron.bridge.training import comm_overlap
    from megatron.core import utils
    from megatron.core.models.common.embeddings import rope_utils
    from megatron.core.transformer.moe import moe_utils
    from packaging.version import Version

    adam = type("FusedAdam", (), {})
    exec(f"def init(self, {', '.join(f'{name}=None' for name in ARGUMENTS)}): ...", space := {})
    adam.__init__ = space["init"]  # type: ignore[misc]
    for name in ("", ".pytorch", ".pytorch.optimizers"):
        module: Any = types.ModuleType(f"transformer_engine{name}")
        module.__version__ = TE_VERSION
        sys.modules[module.__name__] = module
    sys.modules["transformer_engine.pytorch.optimizers"].FusedAdam = adam  # type: ignore[attr-defined]
    utils._te_version = Version(TE_VERSION)
    comm_overlap.HAVE_TE = True
    for name in ("fused_apply_rotary_pos_emb", "fused_apply_rotary_pos_emb_thd"):
        setattr(rope_utils, name, object())
    for name in ("fused_permute", "fused_permute_with_probs", "fused_sort_chunks_by_index", "fused_unpermute"):
        setattr(moe_utils, name, object())


def final_configuration(spec: dict[str, Any]) -> dict[str, Any]:
    """The configuration as training would get it."""
    import torch
    from megatron.bridge.training import pretrain

    from llmbx_nemo.entry import config, execution, final, published
    from llmbx_nemo.entry.settings import settings

    os.environ["WORLD_SIZE"], os.environ["RANK"] = str(spec["gpus"]), "0"
    torch.cuda.get_device_capability = lambda *_: CAPABILITIES[spec["gpu_type"]]
    host = execution.Host(cuda=True, te=True, world=spec["gpus"])
    if spec.get("published"):
        container = published.container(spec, host)
    else:
        container = config.container(settings(spec, host), execution.userbuffers(spec))
    found: dict[str, Any] = {}

    def caught(*_: Any, **given: Any) -> None:
        found.update(final.flat((given.get("state") or _[0]).cfg))

    pretrain._pretrain = caught
    from megatron.bridge.training.gpt_step import forward_step

    pretrain.pretrain(container, forward_step)
    return found


def in_a_process_of_its_own(spec: dict[str, Any]) -> dict[str, Any]:
    """The configuration, or `{"error": …}`."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            answer = final_configuration(spec)
        except BaseException as error:
            import traceback

            answer = {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()[-3000:]}
        with os.fdopen(writer, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answer = json.load(pipe)
    os.waitpid(child, 0)
    return dict(answer)


def main() -> None:
    """Answer every specification on stdin."""
    specs = json.load(sys.stdin)
    out, sys.stdout = sys.stdout, sys.stderr
    os.environ.setdefault("WORLD_SIZE", "1")
    from llmbx_nemo.entry import bridge

    bridge.prepare()
    declare_transformer_engine()
    json.dump({name: in_a_process_of_its_own(spec) for name, spec in specs.items()}, out)


if __name__ == "__main__":
    main()
