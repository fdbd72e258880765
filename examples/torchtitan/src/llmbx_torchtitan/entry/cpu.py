"""What torchtitan 0.3.0 asks of a GPU, answered for a CPU. Used before torchtitan is imported."""

import os
import sys
import types
from datetime import timedelta

import torch
from torch.distributed import distributed_c10d

KERNELS = "torchtitan.distributed.minimal_async_ep.kernels"
"""The module of torchtitan that needs Triton: only GPUs run its kernels, and Triton takes 1 GB."""


class Placeholder(types.ModuleType):
    """A module in which every name exists, but none can be used."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Ellipsis


def memory():
    """Bytes of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def set_timeout(timeout: timedelta, group=None):
    """`torch.distributed.set_timeout` of later versions than PyTorch 2.13."""
    distributed_c10d._set_pg_timeout(timeout, group)


def prepare():
    """Make torchtitan take `torch.cpu` for its device; it takes CUDA if there is none."""
    sys.modules[KERNELS] = Placeholder(KERNELS)
    torch._utils._get_available_device_type = lambda: "cpu"
    torch.cpu.current_device = lambda: 0
    torch.cpu.get_device_name = lambda device=None: "cpu"
    torch.cpu.get_device_properties = lambda device=None: types.SimpleNamespace(total_memory=memory())
    torch.cpu.memory_stats = lambda device=None: {}
    torch.cpu.empty_cache = torch.cpu.reset_peak_memory_stats = lambda: None
    if not hasattr(torch.distributed, "set_timeout"):
        torch.distributed.set_timeout = set_timeout
