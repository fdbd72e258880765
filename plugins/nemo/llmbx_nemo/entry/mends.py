"""What Megatron's wheels lack outside NVIDIA's images, with CUDA and without. No arithmetic is changed.

The images have Transformer Engine, and Megatron as a source tree with its Makefiles; a Python with the wheels from the
package index has neither.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

COMPILERS = ("megatron.bridge.training.initialize",)
"""Modules that have taken the function that compiles the data set's helpers."""


def install() -> None:
    """Mend what is broken in the installed wheels, and nothing else. After Megatron is imported."""
    _router()
    _helpers()
    _mock_tokens()
    _checkpoint_writer()


def _router() -> None:
    """Megatron-Core 0.16's router asks for a name that it defines only with Transformer Engine: a NameError."""
    from megatron.core.transformer.moe import moe_utils

    if not hasattr(moe_utils, "te_general_gemm"):
        moe_utils.te_general_gemm = None


def _mock_tokens() -> None:
    """Up to Megatron-Core 0.15 mock data has tokens up to 4,096 whatever the vocabulary; later versions wrap them."""
    from megatron.core.datasets import gpt_dataset

    data = gpt_dataset.MockGPTLowLevelDataset
    if "vocab_size" in inspect.getsource(data.__getitem__):
        return
    sample = data.__getitem__

    def inside(self: Any, index: int) -> Any:
        tokens = sample(self, index)
        tokens[:-1] %= self.tokenizer.vocab_size  # the last one is the end of the document
        return tokens

    data.__getitem__ = inside


def _helpers() -> None:
    """The wheel ships the data set's helpers compiled, and `make` would fail for want of the Makefile."""
    from megatron.core.datasets import utils

    if Path(utils.__file__).with_name("Makefile").exists():
        return
    utils.compile_helpers = lambda: None
    for name in COMPILERS:
        if name in sys.modules:
            sys.modules[name].compile_helpers = utils.compile_helpers  # type: ignore[attr-defined]


def _checkpoint_writer() -> None:
    """Megatron-Core up to 0.13 calls a function of torch's checkpoints that takes two arguments more since 2.7."""
    from megatron.core.dist_checkpointing.strategies import filesystem_async
    from torch.distributed.checkpoint import filesystem

    write = filesystem._write_item
    if "serialization_format" in inspect.getsource(filesystem_async):
        return
    if "serialization_format" not in inspect.signature(write).parameters:
        return

    def with_format(*given: Any) -> Any:
        transforms, rest = filesystem._StorageWriterTransforms(), given
        if isinstance(given[0], filesystem._StorageWriterTransforms):
            transforms, rest = given[0], given[1:]
        return write(transforms, *rest, filesystem.SerializationFormat.TORCH_SAVE)

    filesystem_async._write_item = with_format
