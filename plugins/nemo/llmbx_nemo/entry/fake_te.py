"""A fake Transformer Engine, for building a configuration without training on a machine that does not have it.

Megatron's and NeMo's configurations depend on what is installed. The fake provides what they check: the module's name,
its version in the image, and the frameworks' own variables about it. None of its functions can be called.
"""

from __future__ import annotations

import importlib.machinery
import sys
import types
from typing import Any

VERSIONS = {
    "nemo-toolkit": {"": "2.3.0"},
    "megatron-bridge": {"0.1": "2.7.0", "0.2": "2.9.0", "0.3": "2.12.0", "0.6": "2.17.1"},
}
"""The version in the image of each release, by package. NeMo 2.3's Maverick requires at least 2.3. Sources of the
others: Megatron-Bridge's software-versions page, and the lock file of v0.6.0."""

ARGUMENTS = (
    "exp_avg_dtype", "exp_avg_sq_dtype", "master_weight_dtype", "use_decoupled_grad", "store_param_remainders",
    "master_weights", "set_grad_none",
)  # fmt: skip
"""Arguments of Transformer Engine's Adam whose presence Megatron-Core's OptimizerConfig checks."""

MODULES: dict[str, tuple[str, ...]] = {
    "": (),
    ".pytorch": (),
    ".pytorch.optimizers": (),
    ".pytorch.fp8": ("FP8GlobalStateManager",),
    ".common": (),
    ".common.recipe": ("DelayedScaling",),
}
"""Submodules, and the classes that the frameworks look up in them."""

ROTARY = ("fused_apply_rotary_pos_emb", "fused_apply_rotary_pos_emb_thd")
ROUTING = (
    "fused_permute", "fused_permute_with_probs", "fused_sort_chunks_by_index",
    "fused_sort_chunks_by_index_with_probs", "fused_unpermute",
)  # fmt: skip

CAPABILITIES = {
    "a100": (8, 0),
    "h100": (9, 0),
    "h200": (9, 0),
    "b200": (10, 0),
    "gb200": (10, 0),
    "b300": (10, 3),
    "gb300": (10, 3),
    "vr200": (10, 7),
}
"""Compute capability by GPU type. Some settings depend on it."""


def version(package: str, installed: str) -> str:
    """Return the version of Transformer Engine in the image of an installed release; of an unknown one the newest."""
    versions = VERSIONS[package]
    return next(
        (simulated for release, simulated in versions.items() if installed.startswith(release)),
        [*versions.values()][-1],
    )


def install(driver: str) -> None:
    """Install the fake modules. Call it after the framework has been imported."""
    from importlib import metadata

    from megatron.core import utils
    from megatron.core.models.common.embeddings import rope_utils
    from megatron.core.transformer.moe import moe_utils
    from packaging.version import Version

    package = "nemo-toolkit" if driver == "nemo2" else driver
    te = version(package, metadata.version(package))
    for name, content in MODULES.items():
        module: Any = types.ModuleType(f"transformer_engine{name}")
        module.__version__ = te
        module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None)
        vars(module).update({item: type(item, (), {}) for item in content})
        sys.modules[module.__name__] = module
    sys.modules["transformer_engine.pytorch.optimizers"].FusedAdam = adam()  # type: ignore[attr-defined]
    utils._te_version = Version(te)
    for module, names in ((rope_utils, ROTARY), (moe_utils, ROUTING)):
        for name in names:
            setattr(module, name, object())
    if driver == "megatron-bridge":
        from megatron.bridge.training import comm_overlap

        comm_overlap.HAVE_TE = True


def adam() -> Any:
    """Return a class whose constructor has the arguments `ARGUMENTS`."""
    space: dict[str, Any] = {}
    exec(f"def init(self, {', '.join(f'{name}=None' for name in ARGUMENTS)}): ...", space)
    return type("FusedAdam", (), {"__init__": space["init"]})


def set_gpu_type(gpu_type: str) -> None:
    """Make torch report the name and compute capability of this GPU type. Raises `ValueError` for an unknown type."""
    import torch

    if gpu_type not in CAPABILITIES:
        raise ValueError(f"the compute capability of GPU type {gpu_type} is not known")
    major, minor = CAPABILITIES[gpu_type]
    device = types.SimpleNamespace(name=f"NVIDIA {gpu_type.upper()}", major=major, minor=minor)
    torch.cuda.get_device_capability = lambda *_: (major, minor)
    torch.cuda.get_device_properties = lambda *_: device
