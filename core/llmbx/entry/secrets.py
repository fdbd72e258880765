"""Detect secret variables and redact them from environments and texts."""

from __future__ import annotations

import re
from collections.abc import Mapping

REDACTED = "***"

SECRET = (
    "TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|(API|ACCESS|AUTH|PRIVATE|SSH)KEY|PWD[0-9]*_|"
    "_(KEYS?|PAT|PASS|SSHPASS|CREDS?)[0-9]*_|_AUTH(_CONFIG)?_$"
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


def is_secret(name: str) -> bool:
    """Whether a variable of this name holds a secret."""
    return bool(re.search(SECRET, re.sub(HARMLESS, "_", f"_{name.upper()}_")))


def redact(environ: Mapping[str, str]) -> dict[str, str]:
    """The same variables with secret values replaced, and with passwords in URLs removed from the others."""
    return {name: REDACTED if is_secret(name) and value else blank(value) for name, value in environ.items()}


def blank(text: str) -> str:
    """`text` without the user and password in its URLs (`http://bob:word@proxy:3128`)."""
    return _URL.sub(lambda found: f"{found[1] or found[2]}{REDACTED}@", text) if "@" in text else text
