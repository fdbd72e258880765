"""Detect secret variables and redact them from environments and texts."""

from __future__ import annotations

import re
from collections.abc import Mapping

REDACTED = "***"
"""What stands in place of a secret."""

SECRET = (
    "TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|(API|ACCESS|AUTH|PRIVATE|SSH)KEY|PWD[0-9]*_|"
    "_(KEYS?|PAT|PASS|SSHPASS|CREDS?|JWT|COOKIES?)[0-9]*_|_AUTH(_CONFIG)?_$"
)
"""A variable is a secret if its name, in capitals and enclosed in `_`, matches this.

It and `HARMLESS` are extended regular expressions that `sed -E` also supports, because shell scripts use them too.
"""

HARMLESS = (
    "^_(OLD|INIT_|APPTAINER_|SINGULARITY_)?PWD_$|TOKENIZ[A-Z]*|TOKENS?_PER_|_PER_TOKENS?_|"
    "_(MAX|MIN|NUM|N|TOTAL|TRAIN|TRAINING|CONSUMED)_([A-Z0-9]+_){0,9}TOKENS?_|"
    "_(EOS|BOS|EOD|EOT|SOS|PAD|UNK|SEP|CLS|MASK|IMAGE|VIDEO|AUDIO|SPECIAL|START|STOP|BEGIN|END|NEXT|SINK|FIM|PREFIX|"
    "SUFFIX|MIDDLE|TEXT)_TOKENS?_|TOKENS?_(DISPATCHER|DROP|EMBED|BUDGET|COUNT|ID|LEN|TYPE)[A-Z]*|"
    "_(SEQ|SEQUENCE|CACHE|SORT|JSON|INDEX|PARTITION)_KEYS?_|SECRETAR(Y|IES)"
)
"""Parts of names that only look like secrets (folders, tokenizers, token counts); they are removed before matching."""

RECORDED = (
    "NCCL_",
    "RCCL_",
    "CUDA_",
    "CUDNN_",
    "CUBLAS",
    "NVIDIA_",
    "NVTE_",
    "TORCH",
    "PYTORCH_",
    "TRITON_",
    "XLA_",
    "JAX_",
    "TF_",
    "OMP_",
    "MKL_",
    "GOMP_",
    "KMP_",
    "OPENBLAS_",
    "UCX_",
    "OMPI_",
    "PMIX_",
    "PMI_",
    "FI_",
    "RDMAV_",
    "GLOO_",
    "HSA_",
    "HIP_",
    "ROC",
    "MALLOC_",
    "ONEDNN_",
    "DNNL_",
    "LIBTPU_",
    "TPU_",
    "TRANSFORMERS_OFFLINE",
    "HF_HUB_OFFLINE",
    "HF_HOME",
    "HF_HUB_CACHE",
    "TOKENIZERS_PARALLELISM",
    "PYTHON",
    "SLURM",
    "SBATCH_",
    "SRUN_",
    "LLMBX_",
    "LLMB_",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "PATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
)
"""Beginnings of the names of variables that records keep: those that change how a training runs. No other is kept."""


def recorded(environ: Mapping[str, str], prefixes: tuple[str, ...] = ()) -> dict[str, str]:
    """The variables that a record keeps: those of `RECORDED` and of `prefixes`, without every secret."""
    return {
        name: blank(value)
        for name, value in sorted(environ.items())
        if name.startswith((*RECORDED, *prefixes)) and not is_secret(name)
    }


def is_secret(name: str) -> bool:
    """Whether a variable of this name holds a secret."""
    return bool(re.search(SECRET, re.sub(HARMLESS, "_", f"_{name.upper()}_")))


def redact(environ: Mapping[str, str]) -> dict[str, str]:
    """The same variables with secret values replaced, and with passwords in URLs removed from the others."""
    return {name: REDACTED if is_secret(name) and value else blank(value) for name, value in environ.items()}


def blank(text: str) -> str:
    """`text` without secrets of a known form: tokens, private keys, passwords in URLs and values beside their names."""
    from llmbx.entry.find_secrets import without  # its expressions take some time to compile

    return without(text, REDACTED)
