"""Transformer Engine declared present, where a configuration is built on a machine without it and nothing is trained.

Megatron's and NeMo's configurations ask what is installed and choose by the answer. Declared is what the image has: the
module's name and version, and the frameworks' own records of it. No function of it can be called.
"""

from __future__ import annotations

import sys
import types
from typing import Any

VERSIONS = {"megatron-bridge": "2.7.0", "nemo2": "2.3.0"}
"""The version in the images of each driver; NeMo 2.3's Maverick asks for 2.3 at least."""

ARGUMENTS = (
    "exp_avg_dtype", "exp_avg_sq_dtype", "master_weight_dtype", "use_decoupled_grad", "store_param_remainders",
    "master_weights", "set_grad_none",
)  # fmt: skip
"""Arguments of Transformer Engine's Adam that Megatron-Core's OptimizerConfig looks for."""

MODULES: dict[str, tuple[str, ...]] = {
    "": (),
    ".pytorch": (),
    ".pytorch.optimizers": (),
    ".pytorch.fp8": ("FP8GlobalStateManager",),
    ".common": (),
    ".common.recipe": ("DelayedScaling",),
}
"""Modules that are looked into for the classes named."""

ROTARY = ("fused_apply_rotary_pos_emb", "fused_apply_rotary_pos_emb_thd")
ROUTING = (
    "fused_permute", "fused_permute_with_probs", "fused_sort_chunks_by_index",
    "fused_sort_chunks_by_index_with_probs", "fused_unpermute",
)  # fmt: skip

CAPABILITIES = {"h100": (9, 0), "h200": (9, 0), "b200": (10, 0), "gb200": (10, 0), "b300": (10, 3), "gb300": (10, 3)}
"""Compute capability by GPU type, which some settings depend on."""


def transformer_engine(driver: str) -> None:
    """Declare it. After the framework is imported."""
    from megatron.core import utils
    from megatron.core.models.common.embeddings import rope_utils
    from megatron.core.transformer.moe import moe_utils
    from packaging.version import Version

    for name, content in MODULES.items():
        module: Any = types.ModuleType(f"transformer_engine{name}")
        module.__version__ = VERSIONS[driver]
        vars(module).update({item: type(item, (), {}) for item in content})
        sys.modules[module.__name__] = module
    sys.modules["transformer_engine.pytorch.optimizers"].FusedAdam = adam()  # type: ignore[attr-defined]
    utils._te_version = Version(VERSIONS[driver])
    for module, names in ((rope_utils, ROTARY), (moe_utils, ROUTING)):
        for name in names:
            setattr(module, name, object())


def adam() -> Any:
    """A class whose constructor has the arguments that are looked for."""
    space: dict[str, Any] = {}
    exec(f"def init(self, {', '.join(f'{name}=None' for name in ARGUMENTS)}): ...", space)
    return type("FusedAdam", (), {"__init__": space["init"]})


def gpu(gpu_type: str) -> None:
    """Answer for this GPU type's capability."""
    import torch

    torch.cuda.get_device_capability = lambda *_: CAPABILITIES[gpu_type]
