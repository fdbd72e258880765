"""Single changes to rows of Megatron-Bridge's performance recipes, with the rule that refuses each; None if it is fine.

`tests/integration/test_nemo_upstream.py` asks the real Megatron-Bridge the same.
"""

from __future__ import annotations

from llmbx.config.profiles import Config
from llmbx.config.request import Request
from llmbx.model import RunSpec
from llmbx.plugins.manager import load
from llmbx.resolve import resolve

DEEPSEEK = ("deepseek-v3", "671b/bf16/gb200/256")  # CUDA graphs of parts of a layer
FULL = ("deepseek-v3", "671b/mxfp8/gb200/256")  # CUDA graphs of an iteration, expert communication overlapped
HOPPER = ("deepseek-v3", "671b/fp8/h100/1024")  # no CUDA graphs
QWEN = ("qwen3", "30b-a3b/bf16/h100/16")
STASH = ("qwen3", "30b-a3b/mxfp8/b200/8")  # activations of experts are offloaded
BIASED = ("gpt-oss", "120b/bf16/b200/64")
ENDS = ("qwen3", "235b-a22b/mxfp8/gb200/256")  # embedding and loss count as layers in the split
LLAMA = ("llama3.1", "70b/fp8/gb200/64")  # FSDP
DENSE = ("llama3.1", "8b/fp8/b200/8")  # CUDA graphs of an iteration

Case = tuple[tuple[str, str], dict[str, str], str | None]

CASES: list[Case] = [
    (DEEPSEEK, {"pp": "4", "vp": "2"}, None),
    (DEEPSEEK, {"pp": "1", "vp": "1"}, None),
    (DEEPSEEK, {"pp": "2", "vp": "8"}, None),  # as many stages as the row: its split is kept
    (DEEPSEEK, {"pp": "4", "vp": "3"}, "layers"),
    (DEEPSEEK, {"layers": "16"}, "layers"),
    (DEEPSEEK, {"layers": "16", "pp": "1", "vp": "1"}, None),
    (DEEPSEEK, {"rl": "2"}, "rl"),
    (DEEPSEEK, {"rl": "2", "cg": "false"}, None),
    (HOPPER, {"cg": "true"}, "cg"),
    (HOPPER, {"rl": "2"}, None),
    (FULL, {"pp": "4", "vp": "1"}, "vp"),
    (FULL, {"ep": "1"}, "ep"),
    (FULL, {"rl": "2"}, "rl"),
    (QWEN, {"rl": "2"}, "rl"),
    (QWEN, {"ep": "8"}, None),
    (QWEN, {"ep": "1"}, "ep"),
    (QWEN, {"ol": "2"}, "ol"),
    (QWEN, {"ol": "2", "cg": "false"}, None),
    (STASH, {"ol": "2", "cg": "false"}, "ol"),
    (BIASED, {"etp": "2", "ep": "8"}, "etp"),
    (BIASED, {"ol": "2"}, "ol"),  # selective recomputation
    (ENDS, {"layers": "24"}, "layers"),
    (ENDS, {"layers": "22"}, None),
    (DENSE, {"ol": "2"}, None),
    (LLAMA, {"fsdp": "true"}, None),
    (LLAMA, {"fsdp": "false"}, "fsdp"),
    (QWEN, {"fsdp": "true"}, "fsdp"),
]


def spec_of(case: Case) -> RunSpec:
    """The run of a case."""
    (workload, row), changes, _ = case
    size, dtype, gpu_type, gpus = row.split("/")
    asked = Request(
        workload=workload, size=size, dtype=dtype, gpu_type=gpu_type, gpus=int(gpus), recipe="bridge-0.6",
        settings=changes, launcher="slurm",
    )  # fmt: skip
    return resolve(asked, load(), Config(), {}, {})


def name_of(value: object) -> str:
    """The name of a case."""
    (_, row), changes, _ = value  # type: ignore[misc]
    return f"{row}-" + "-".join(f"{key}{text}" for key, text in changes.items())
