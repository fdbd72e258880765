"""Which variables hold secrets, and an environment without their values."""

from __future__ import annotations

import re
from collections.abc import Mapping

REDACTED = "***"
NAMES = re.compile(r"(^|_)(TOKEN|KEY|APIKEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(_|$|S$)", re.IGNORECASE)
"""A variable whose name contains one of these words holds a secret."""


def is_secret(name: str) -> bool:
    """Whether a variable of this name holds a secret."""
    return bool(NAMES.search(name))


def redact(environ: Mapping[str, str]) -> dict[str, str]:
    """The same variables with the values of secrets replaced."""
    return {name: REDACTED if is_secret(name) and value else value for name, value in environ.items()}
