"""What is measured on one GPU: the cases, and the attempts to make them faster. Data only.

A case is a row of the recipes "one-gpu". An attempt is a case with one thing changed, and the step time that is
expected of it, written down before it is run; `NOTES.md` keeps what came of it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One run: workload, size, dtype, and `--set` pairs. `target` is the MFU to reach (full attention), if any.

    Targets are the recipes' own figures on H100: MaxText Llama 2 recipe (70B, BF16, 64 GPUs), Llama 3.1 recipe (NeMo 2;
    70B and 8B, BF16).
    """

    name: str
    plugin: str
    workload: str
    size: str
    dtype: str = "bf16"
    sets: tuple[str, ...] = ()
    target: float | None = None


@dataclass(frozen=True)
class Attempt:
    """A case with `sets` and `env` changed. `prediction`: what the step time should do, and why."""

    name: str
    case: str
    prediction: str
    sets: tuple[str, ...] = ()
    env: tuple[str, ...] = ()


CASES = (
    Case("llama3.1-8b", "nemo", "llama3.1", "8b-1gpu", target=0.625),
    Case("llama3.1-70b", "nemo", "llama3.1", "70b-1gpu", target=0.543),
    Case("grok1", "nemo", "grok1", "314b-1gpu"),
    Case("llama4", "nemo", "llama4", "400b-1gpu"),
    Case("llama2-70b", "maxtext", "llama2", "70b-1gpu", target=0.526),
    Case("llama2-70b-fp8", "maxtext", "llama2", "70b-1gpu", dtype="fp8"),
)

PAIRED = {"nemo": "llama3.1-8b", "maxtext": "llama2-70b"}
"""The case of each framework that is run bare, too, and profiled."""

XLA = "XLA_FLAGS="

ATTEMPTS = (
    Attempt("flash", "llama3.1-8b", "10 % slower: torch's own flash attention is not written for Hopper, cuDNN's is",
            sets=("attention=flash",)),
    Attempt("cudnn", "llama3.1-8b", "as before: sdpa prefers cuDNN, so this shows that it was taken",
            sets=("attention=cudnn",)),
    Attempt("unfused", "llama3.1-8b", "twice as slow, or out of memory: 2 x 4 GiB of scores a layer, in FP32 and BF16",
            sets=("attention=unfused", "gbs=1")),
    Attempt("recompute", "llama3.1-8b", "25 % slower: one more forward pass of every layer; memory down by 18 GiB",
            sets=("rl=16",)),
    Attempt("mbs2", "llama3.1-8b", "2 % faster: larger matrix products, half the kernels; 31 GiB more may not fit",
            sets=("mbs=2",)),
    Attempt("ga16", "llama3.1-70b", "2 % faster: the optimizer's 35 ms are shared by 16 micro-batches instead of 4",
            sets=("gbs=16",)),
    Attempt("mbs8", "llama2-70b", "3 % faster: one optimizer step for twice the tokens; 22 GiB more memory",
            sets=("mbs=8", "gbs=8")),
    Attempt("remat-none", "llama2-70b", "2 % faster: attention is not done twice; some GiB more memory",
            sets=("remat_policy=none",)),
    Attempt("remat-full", "llama2-70b", "25 % slower: one more forward pass of every layer",
            sets=("remat_policy=full",)),
    Attempt("unscanned", "llama2-70b", "1 % faster, and a longer compilation: XLA sees all layers at once",
            sets=("scan_layers=false",)),
    Attempt("triton-gemm", "llama2-70b", "between 2 % slower and 3 % faster: XLA may choose Triton's matrix products",
            env=(XLA + "--xla_gpu_enable_triton_gemm=true",)),
    Attempt("command-buffers", "llama2-70b", "1 % faster: CUDA graphs save launches, of which there are few here",
            env=(XLA + "--xla_gpu_enable_command_buffer=FUSION,CUBLAS,CUDNN",)),
    Attempt("dot-product", "llama2-70b", "30 % slower, or out of memory: XLA keeps the scores of 4096 x 4096 tokens",
            sets=("attention=dot_product",)),
)  # fmt: skip


def case(name: str) -> Case:
    """The case of that name."""
    return next(found for found in CASES if found.name == name)
