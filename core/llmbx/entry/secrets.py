"""Detect secret variables and redact them from environments and texts."""

from __future__ import annotations

import re
from collections.abc import Mapping

REDACTED = "***"

SECRET = (
    "TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|(API|ACCESS|AUTH|PRIVATE|SSH)KEY|PWD[0-9]*_|"
    "_(KEYS?|PAT|PASS|SSHPASS|CREDS?|JWT|COOKIES?)[0-9]*_|_AUTH(_CONFIG)?_$"
)
"""A variable is a secret if its name, in capitals and enclosed in `_`, matches this.

It and `HARMLESS` are extended regular expressions that `sed -E` also supports, because shell scripts use them too.
"""

HARMLESS = (
    "^_(OLD|INIT_|APPTAINER_|SINGULARITY_)?PWD_$|TOKENIZ[A-Z]*|TOKENS?_PER_|_PER_TOKENS?_|"
    "_(MAX|MIN|NUM|TOTAL)_([A-Z0-9]+_){0,9}TOKENS_|SECRETAR(Y|IES)"
)
"""Parts of names that only look like secrets (folders, tokenizers, token counts); they are removed before matching."""

_URL = re.compile(r"""(https?://)[^\s/?#"'\\]*@|(://)[^\s/?#"'\\:@]*:[^\s/?#"'\\]*@""", re.IGNORECASE)


# The character before must not belong to the token, so that the search cannot begin again inside of it. A colour code,
# an escape such as \\n and an encoded character end in a letter or digit; they are replaced with the token.
_TOKEN = (
    r"(?:(?<![A-Za-z0-9_-])|\x1b\[[0-9;]{0,12}m|\\[abfnrtv]|%[0-9A-Fa-f]{2})(?:hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|"
    r"glpat-[A-Za-z0-9_-]{20,}|nvapi-[A-Za-z0-9_-]{20,}|sk-[A-Za-z0-9_-]{20,}|[rs]k_(?:live|test)_[A-Za-z0-9]{16,}|xapp-[A-Za-z0-9-]{16,}|hvs\.[A-Za-z0-9_-]{20,}|"
    r"ya29\.[A-Za-z0-9_-]{20,}|xox[abprs]-[A-Za-z0-9-]{10,}|"
    r"A[KS]IA[0-9A-Z]{16}|AIza[A-Za-z0-9_-]{35}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{50,}|dckr_pat_[A-Za-z0-9_-]{20,}|"
    r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,})"
)
"""Tokens that can be recognized by their form: those of Hugging Face, GitHub, GitLab, NGC, OpenAI, Stripe, Slack,
Vault, AWS, Google, npm, PyPI, Docker Hub and SendGrid, and JSON Web Tokens. Sources: the documentation of each service.
"""

BEGINNINGS = (
    "hf_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "nvapi-",
    "sk-",
    "xox",
    "AKIA",
    "ASIA",
    "AIza",
    "npm_",
    "pypi-",
    "dckr_pat_",
    "eyJ",
    "SG.",
    "k_live_",
    "k_test_",
    "xapp-",
    "hvs.",
    "ya29.",
)
"""Texts of which a token of a known form contains one; to look for them first is faster."""

_PRIVATE_KEY = r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----[^-]{0,12000}"
_TOKENS, _KEYS = re.compile(_TOKEN), re.compile(_PRIVATE_KEY)

RECORDED = (
    "NCCL_",
    "RCCL_",
    "CUDA_",
    "CUDNN_",
    "CUBLAS",
    "NVIDIA_",
    "NVTE_",
    "TORCH_",
    "TORCHINDUCTOR_",
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
    """`text` without the user and password in its URLs (`http://bob:word@proxy:3128`), and without known tokens."""
    if "@" in text:
        text = _URL.sub(lambda found: f"{found[1] or found[2]}{REDACTED}@", text)
    if any(beginning in text for beginning in BEGINNINGS):
        text = _TOKENS.sub(REDACTED, text)
    return _KEYS.sub(REDACTED, text) if "PRIVATE KEY" in text else text
