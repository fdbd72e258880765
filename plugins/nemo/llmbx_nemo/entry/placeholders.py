"""Placeholders for packages that Megatron-Bridge imports and a benchmark never calls.

Megatron-Bridge imports Transformer Engine, ModelOpt, energon and others without asking whether they are there. Where
one is absent (a machine without a GPU, or a GPU image without Transformer Engine), `absent_packages` lets those
imports succeed: every name they take is a class that cannot be made. Nothing here computes anything.

Megatron-Core comes first, on its own: it does ask, and must see the truth to choose its torch code paths.
The placeholders exist only inside the context; what is imported later gets an honest ImportError.
"""

from __future__ import annotations

import abc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

PACKAGES = (
    "transformer_engine",
    "transformer_engine_torch",
    "nvidia_resiliency_ext",
    "modelopt",
    "triton",
    "datasets",
    "peft",
    "megatron.energon",
    "diffusers",
    "timm",
    "open_clip",
    "qwen_vl_utils",
)

FIRST = (
    "megatron.core.dist_checkpointing",
    "megatron.core.models.gpt.gpt_layer_specs",
    "megatron.core.optimizer",
    "megatron.core.transformer.moe.experts",
    "megatron.core.transformer.multi_token_prediction",
    "modelopt.torch.distill.plugins.megatron",
    "modelopt.torch.opt.plugins",
)
"""What asks before it imports, and must see the truth: Megatron-Core, and ModelOpt where it is installed."""

NEMO2 = (
    "onnx", "modelopt", "transformer_engine", "transformer_engine_torch", "triton", "h5py", "ijson", "matplotlib",
    "sacrebleu", "rouge_score", "jieba", "opencc", "pangu", "tiktoken", "mamba_ssm", "causal_conv1d",
    "nvidia_resiliency_ext", "bitsandbytes", "faiss",
)  # fmt: skip
"""What NeMo 2.2 and 2.3 import in the same way."""

NEMO2_FIRST = ("lightning.pytorch", "torchmetrics", "transformers", "fiddle", "nemo_run", *FIRST)
"""What NeMo 2 stands on and asks before it imports."""


def _decorator(function: Any = None, *_: Any, **__: Any) -> Any:
    """A decorator that changes nothing, with or without arguments (Triton's run at import time)."""
    return function if callable(function) else (lambda inner: inner)


def _nothing(*_: Any, **__: Any) -> None:
    """Answers None: no distillation teacher, no quantisation state to save or restore."""


class _Unquantised:
    """ModelOpt's state of a model, which NeMo 2 asks for around a checkpoint: there is none."""

    @staticmethod
    def is_converted(*_: Any, **__: Any) -> bool:
        return False


class _Registry:
    """ModelOpt's registries, in which NeMo 2 enters classes when it is imported."""

    def register(self, *_: Any, **__: Any) -> Callable[..., Any]:
        return _decorator


NEUTRAL: dict[str, Any] = {
    "triton.jit": _decorator,
    "triton.autotune": _decorator,
    "triton.heuristics": _decorator,
    "triton.Config": _nothing,
    "modelopt.torch.distill.plugins.megatron.get_tensor_shapes_adjust_fn_for_distillation": _nothing,
    "modelopt.torch.opt.plugins.restore_modelopt_state": _nothing,
    "modelopt.torch.opt.plugins.restore_sharded_modelopt_state": _nothing,
    "modelopt.torch.opt.plugins.save_modelopt_state": _nothing,
    "modelopt.torch.opt.plugins.save_sharded_modelopt_state": _nothing,
    "modelopt.torch.opt.ModeloptStateManager": _Unquantised,
    "modelopt.torch.quantization.nn.QuantModuleRegistry": _Registry(),
    "modelopt.torch.opt.dynamic.DMRegistry": _Registry(),
    "modelopt.torch.nas.registry.DMRegistry": _Registry(),
}
"""The names that are called: at import time, in every training step, or around a checkpoint."""


class _Absent(abc.ABCMeta):
    """The metaclass of a name from an absent package: its attributes and subscripts are itself.

    An ABCMeta, because NeMo 2 mixes such names with abstract classes.
    """

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __getitem__(cls, _: Any) -> Any:
        return cls


def _absent(full_name: str) -> Any:
    """A class that stands for `full_name` in annotations, bases and isinstance checks; making one is an error."""
    import torch

    def refuse(self: Any, *_: Any, **__: Any) -> None:
        # energon's are made while a recipe module is imported, and never used
        if not full_name.startswith("megatron.energon"):
            raise RuntimeError(f"{full_name} is not installed here")

    return _Absent(full_name.rpartition(".")[2], (torch.nn.Module,), {"__init__": refuse, "__module__": full_name})


class _Module(types.ModuleType):
    """A module of an absent package: it has every name."""

    __version__ = "0.0.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full_name = f"{self.__name__}.{name}"
        value = NEUTRAL.get(full_name) or _absent(full_name)
        setattr(self, name, value)
        return value


class _Finder(importlib.abc.Loader):
    """Finds the modules of the absent packages."""

    def __init__(self, roots: Sequence[str]) -> None:
        self.roots = tuple(roots)
        self.made: list[str] = []

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if not any(name == root or name.startswith(f"{root}.") for root in self.roots):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        self.made.append(spec.name)
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to execute."""


def absent(packages: Sequence[str] = PACKAGES) -> list[str]:
    """Which of `packages` cannot be imported here."""
    return [name for name in packages if not _importable(name)]


def _importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def import_first(names: Sequence[str] = FIRST) -> None:
    """Import what decides by what is really installed; absent packages and modules of other versions are left out."""
    for name in names:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise


@contextmanager
def absent_packages(packages: Sequence[str] = PACKAGES, first: Sequence[str] = FIRST) -> Iterator[list[str]]:
    """While this is entered, absent packages can be imported; gives their names. `first` is imported before."""
    import_first(first)
    finder = _Finder(absent(packages))
    sys.meta_path.append(finder)
    try:
        yield list(finder.roots)
    finally:
        sys.meta_path.remove(finder)
        for name in finder.made:
            sys.modules.pop(name, None)
