"""Stubs for packages that Megatron-Bridge and NeMo import but a benchmark never calls.

Megatron-Bridge imports Transformer Engine, ModelOpt, energon and others without checking whether they are installed. If
one is not (on a machine without a GPU, or in a GPU image without Transformer Engine), `absent_packages` makes these
imports succeed: every imported name is a class that cannot be instantiated.

Megatron-Core is imported first, without stubs: it does check, and must see what is really installed to choose its torch
code paths. The stubs exist only inside the context manager; later imports raise `ImportError` as usual.
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
    "webdataset",
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
"""Modules that check what is installed, and are imported without stubs: Megatron-Core, and ModelOpt if installed."""

NEMO2 = (
    "onnx", "modelopt", "transformer_engine", "transformer_engine_torch", "triton", "h5py", "ijson", "matplotlib",
    "sacrebleu", "rouge_score", "jieba", "opencc", "pangu", "tiktoken", "mamba_ssm", "causal_conv1d",
    "nvidia_resiliency_ext", "bitsandbytes", "faiss",
)  # fmt: skip
"""Packages that NeMo 2.2 and 2.3 import without checking whether they are installed."""

NEMO2_FIRST = ("lightning.pytorch", "torchmetrics", "transformers", "fiddle", "nemo_run", *FIRST)
"""Modules that NeMo 2 depends on and that check what is installed; they are imported without stubs."""


def _decorator(function: Any = None, *_: Any, **__: Any) -> Any:
    """Act as a decorator that changes nothing, with or without arguments (Triton's run at import time)."""
    return function if callable(function) else (lambda inner: inner)


def _return_none(*_: Any, **__: Any) -> None:
    """Return None: there is no distillation teacher, and no quantization state to save or restore."""


class _Unquantized:
    """ModelOpt's state of a model that is not quantized. NeMo 2 reads it when it saves or loads a checkpoint."""

    @staticmethod
    def is_converted(*_: Any, **__: Any) -> bool:
        return False


class _Registry:
    """ModelOpt's registries. NeMo 2 registers classes in them when it is imported."""

    def register(self, *_: Any, **__: Any) -> Callable[..., Any]:
        return _decorator


CALLED: dict[str, Any] = {
    "triton.jit": _decorator,
    "triton.autotune": _decorator,
    "triton.heuristics": _decorator,
    "triton.Config": _return_none,
    "megatron.energon.stateless": _decorator,
    "megatron.energon.task_encoder.base.stateless": _decorator,
    "modelopt.torch.distill.plugins.megatron.get_tensor_shapes_adjust_fn_for_distillation": _return_none,
    "modelopt.torch.opt.plugins.restore_modelopt_state": _return_none,
    "modelopt.torch.opt.plugins.restore_sharded_modelopt_state": _return_none,
    "modelopt.torch.opt.plugins.save_modelopt_state": _return_none,
    "modelopt.torch.opt.plugins.save_sharded_modelopt_state": _return_none,
    "modelopt.torch.opt.ModeloptStateManager": _Unquantized,
    "modelopt.torch.quantization.nn.QuantModuleRegistry": _Registry(),
    "modelopt.torch.opt.dynamic.DMRegistry": _Registry(),
    "modelopt.torch.nas.registry.DMRegistry": _Registry(),
}
"""Stubs for names that are called at import time, in every training step, or when a checkpoint is saved or loaded."""


class _StubMeta(abc.ABCMeta):
    """Metaclass of stub classes: attributes and subscripts of a stub class are the class itself.

    It is an ABCMeta, because NeMo 2 combines such classes with abstract classes.
    """

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __getitem__(cls, _: Any) -> Any:
        return cls


def _stub_class(full_name: str) -> Any:
    """Return a class for `full_name` that works in annotations, as a base and in isinstance checks.

    Creating an instance raises `RuntimeError`.
    """
    import torch

    def refuse(self: Any, *_: Any, **__: Any) -> None:
        # energon's classes are instantiated while a recipe module is imported, and never used
        if not full_name.startswith("megatron.energon"):
            raise RuntimeError(f"{full_name} is not installed")

    return _StubMeta(full_name.rpartition(".")[2], (torch.nn.Module,), {"__init__": refuse, "__module__": full_name})


class _StubModule(types.ModuleType):
    """A module of a package that is not installed. It has every name."""

    __version__ = "0.0.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full_name = f"{self.__name__}.{name}"
        value = CALLED.get(full_name) or _stub_class(full_name)
        setattr(self, name, value)
        return value


class _Finder(importlib.abc.Loader):
    """Finder and loader for the modules of the packages `roots`."""

    def __init__(self, roots: Sequence[str]) -> None:
        self.roots = tuple(roots)
        self.made: list[str] = []

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if not any(name == root or name.startswith(f"{root}.") for root in self.roots):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        self.made.append(spec.name)
        return _StubModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Do nothing: a stub module has no code."""


def absent(packages: Sequence[str] = PACKAGES) -> list[str]:
    """Return those of `packages` that cannot be imported."""
    return [name for name in packages if not _importable(name)]


def _importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def import_first(names: Sequence[str] = FIRST) -> None:
    """Import modules that check what is installed. Those that the installed version does not have are skipped."""
    for name in names:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise


@contextmanager
def absent_packages(packages: Sequence[str] = PACKAGES, first: Sequence[str] = FIRST) -> Iterator[list[str]]:
    """Make those of `packages` importable that are not installed, and yield their names.

    The modules `first` are imported before, without stubs.
    """
    import_first(first)
    finder = _Finder(absent(packages))
    sys.meta_path.append(finder)
    try:
        yield list(finder.roots)
    finally:
        sys.meta_path.remove(finder)
        for name in finder.made:
            sys.modules.pop(name, None)
