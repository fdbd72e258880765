"""What Megatron's wheels lack outside NVIDIA's images, with CUDA and without. No arithmetic is changed.

The images have Transformer Engine, and Megatron as a source tree with its Makefiles; a Python with the wheels from the
package index has neither.
"""

from __future__ import annotations

from pathlib import Path


def install() -> None:
    """Mend what is broken in the installed wheels, and nothing else. After Megatron is imported."""
    _router()
    _helpers()


def _router() -> None:
    """Megatron-Core 0.16's router asks for a name that it defines only with Transformer Engine: a NameError."""
    from megatron.core.transformer.moe import moe_utils

    if not hasattr(moe_utils, "te_general_gemm"):
        moe_utils.te_general_gemm = None


def _helpers() -> None:
    """The wheel ships the data set's helpers compiled, and `make` would fail for want of the Makefile."""
    from megatron.bridge.training import initialize
    from megatron.core.datasets import utils

    if not Path(utils.__file__).with_name("Makefile").exists():
        initialize.compile_helpers = lambda: None
