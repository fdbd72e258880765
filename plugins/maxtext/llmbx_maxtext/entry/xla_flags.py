"""Check XLA_FLAGS before the training: XLA ends the process, with a stack, at a flag that it does not know."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata

VARIABLE = "XLA_FLAGS"
SECONDS = 120
"""Time limit of the check. On a slow file system the import takes long; then the training itself finds the fault."""

PROGRAM = """\
try:
    from jaxlib._jax import CompileOptions
except ImportError:
    from jaxlib.xla_extension import CompileOptions
CompileOptions()
"""
"""Makes XLA parse its flags. The first import is that of jaxlib since 0.6, the second that of earlier versions."""

FIX = f"remove your own flags from {VARIABLE}; for the recipe's, choose the image's MaxText release (--set maxtext=)"

_UNKNOWN = re.compile(r"Unknown flags? in XLA_FLAGS: *(.+)")
_VALUE = re.compile(r"Couldn't interpret value \S* for flag \S+")
_OTHER = re.compile(r"parse_flags_from_env\.cc:\d+\] *(.+)")


def problem(env: Mapping[str, str] = os.environ, python: str = sys.executable) -> str | None:
    """Return why the installed XLA refuses the flags in `env`, with the flags; None if it accepts them.

    Also None if it could not be found out: jaxlib is missing, or the check took too long.
    """
    if not env.get(VARIABLE, "").strip():
        return None
    try:
        done = subprocess.run(
            [python, "-c", PROGRAM], env={**env, "TF_CPP_MIN_LOG_LEVEL": "0"}, capture_output=True, text=True,
            errors="replace", timeout=SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return _reason(done.stderr) if done.returncode else None


def _reason(text: str) -> str | None:
    """Return the reason in XLA's messages; None if they are about something else."""
    if match := _UNKNOWN.search(text):
        # Before jaxlib 0.5, known flags follow after two spaces, left over from the list that XLA has parsed.
        flags = match[1].partition("  ")[0].strip()
        return f"the XLA of {_jaxlib()} does not know (or does not accept the value of) {flags}: {FIX}"
    if match := _VALUE.search(text) or _OTHER.search(text):
        return f"the XLA of {_jaxlib()} cannot read {VARIABLE}: {match[match.lastindex or 0].rstrip('.')}"
    return None


def _jaxlib() -> str:
    try:
        return f"jaxlib {metadata.version('jaxlib')}"
    except metadata.PackageNotFoundError:
        return "jaxlib"
