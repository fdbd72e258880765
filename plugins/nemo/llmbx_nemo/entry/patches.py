"""Patches that make Megatron's wheels work outside NVIDIA's images, with and without CUDA.

The images have Transformer Engine, and Megatron as a source tree with its Makefiles; an environment with the wheels
from the package index has neither. The patches change no arithmetic.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

try:
    from llmbx.entry import step_clock
except ImportError:  # no installed plugin brings it
    step_clock = None

COMPILERS = ("megatron.bridge.training.initialize",)
"""Modules that import the function `compile_helpers`, which compiles the helpers of the dataset, by name."""


def install() -> None:
    """Patch what is broken in the installed wheels, and nothing else. Call it after Megatron has been imported."""
    _router()
    _helpers()
    _mock_tokens()
    _checkpoint_writer()


def clock(folder: Path) -> Any:
    """Return a clock of the rank's steps, which sees where Megatron waits for the reduction of the gradients.

    None if no plugin brings one.
    """
    if step_clock is None:
        return None
    from megatron.core.distributed import DistributedDataParallel

    clock = step_clock.of_torch(folder)
    finish = DistributedDataParallel.finish_grad_sync

    def measured(self: Any, *args: Any, **kwargs: Any) -> Any:
        with clock.meeting():
            return finish(self, *args, **kwargs)

    DistributedDataParallel.finish_grad_sync = measured
    return clock


def _router() -> None:
    """Define a name that Megatron-Core 0.16's router reads but defines only with Transformer Engine (a NameError)."""
    from megatron.core.transformer.moe import moe_utils

    if not hasattr(moe_utils, "te_general_gemm"):
        moe_utils.te_general_gemm = None


def _mock_tokens() -> None:
    """Limit the tokens of mock data to the vocabulary.

    Up to Megatron-Core 0.15 they go up to 4,096 whatever the vocabulary size; later versions wrap them.
    """
    from megatron.core.datasets import gpt_dataset

    data = gpt_dataset.MockGPTLowLevelDataset
    if "vocab_size" in inspect.getsource(data.__getitem__):
        return
    sample = data.__getitem__

    def limited(self: Any, index: int) -> Any:
        tokens = sample(self, index)
        tokens[:-1] %= self.tokenizer.vocab_size  # the last token is the end of the document
        return tokens

    data.__getitem__ = limited


def _helpers() -> None:
    """Skip the compilation of the dataset's helpers: the wheel has them compiled, and has no Makefile for `make`."""
    from megatron.core.datasets import utils

    if Path(utils.__file__).with_name("Makefile").exists():
        return
    utils.compile_helpers = lambda: None
    for name in COMPILERS:
        if name in sys.modules:
            sys.modules[name].compile_helpers = utils.compile_helpers  # type: ignore[attr-defined]


def _checkpoint_writer() -> None:
    """Adapt a function of torch's checkpoints that Megatron-Core up to 0.13 calls without the two arguments of 2.7."""
    from megatron.core.dist_checkpointing.strategies import filesystem_async
    from torch.distributed.checkpoint import filesystem

    write = filesystem._write_item
    if "serialization_format" in inspect.getsource(filesystem_async):
        return
    if "serialization_format" not in inspect.signature(write).parameters:
        return

    def with_format(*args: Any) -> Any:
        transforms, rest = filesystem._StorageWriterTransforms(), args
        if isinstance(args[0], filesystem._StorageWriterTransforms):
            transforms, rest = args[0], args[1:]
        return write(transforms, *rest, filesystem.SerializationFormat.TORCH_SAVE)

    filesystem_async._write_item = with_format
