"""Secrets: which variables are, and how every text that is kept or shown is cleaned of them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .errors import UsageError

REDACTED = "***"
NAMES = re.compile(r"(^|_)(TOKEN|KEY|APIKEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(_|$|S$)", re.IGNORECASE)
"""A variable whose name contains one of these words holds a secret."""

FORWARDED = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "NGC_API_KEY", "WANDB_API_KEY")
"""Secrets that frameworks read; they are forwarded to the ranks by name when they are set."""


def is_secret(name: str) -> bool:
    """Whether a variable of this name holds a secret."""
    return bool(NAMES.search(name))


def redact(environ: Mapping[str, str]) -> dict[str, str]:
    """The same variables with the values of secrets replaced."""
    return {name: REDACTED if is_secret(name) and value else value for name, value in environ.items()}


def secret_names(environ: Mapping[str, str], asked: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the secrets that are forwarded. Raises `UsageError` when a secret's value is given as an option."""
    for name in asked:
        if is_secret(name):
            raise UsageError(
                f"--env {name}=…: a secret in an option ends up in process lists and shell histories; "
                f"export {name} instead, it is forwarded by name"
            )
    return tuple(name for name in FORWARDED if environ.get(name))


def scrub(text: str, environ: Mapping[str, str]) -> str:
    """`text` without the value of any secret in `environ` (values shorter than 8 characters are left alone)."""
    for name, value in environ.items():
        if is_secret(name) and len(value) >= 8:
            text = text.replace(value, REDACTED)
    return text
