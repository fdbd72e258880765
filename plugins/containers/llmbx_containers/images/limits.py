"""How long and how often an import is tried, and where a registry is spoken to without TLS: the user's variables."""

from __future__ import annotations

import os
from collections.abc import Mapping

from llmbx.errors import UsageError
from llmbx.model import Value

TIMEOUT = "LLMBX_IMAGE_TIMEOUT_S"
RETRIES = "LLMBX_IMAGE_RETRIES"
BACKOFF = "LLMBX_IMAGE_BACKOFF_S"
ANSWER = "LLMBX_REGISTRY_TIMEOUT_S"
PLAIN_HTTP = "LLMBX_HTTP_REGISTRIES"


class Limits(Value, frozen=True):
    """Limits of one import: seconds in all, how many retries, the first pause in seconds (it doubles), and how long
    a registry may be silent."""

    timeout_s: float = 7200.0
    retries: int = 4
    backoff_s: float = 1.0
    answer_s: float = 30.0


def limits(environ: Mapping[str, str] | None = None) -> Limits:
    """The limits that the environment asks for. Raises `UsageError` for a value that is no positive number."""
    variables = os.environ if environ is None else environ
    default = Limits()
    return Limits(
        timeout_s=_number(variables, TIMEOUT, default.timeout_s),
        retries=int(_number(variables, RETRIES, default.retries)),
        backoff_s=_number(variables, BACKOFF, default.backoff_s),
        answer_s=_number(variables, ANSWER, default.answer_s),
    )


def plain_http(registry: str, environ: Mapping[str, str] | None = None) -> bool:
    """Whether `registry` is spoken to without TLS: on loopback, and where `LLMBX_HTTP_REGISTRIES` names it."""
    variables = os.environ if environ is None else environ
    host = registry.rsplit(":", 1)[0] if registry.count(":") == 1 else registry
    named = variables.get(PLAIN_HTTP, "").replace(",", " ").split()
    return host == "localhost" or host.startswith("127.") or registry in named


def _number(variables: Mapping[str, str], name: str, default: float) -> float:
    text = variables.get(name, "").strip()
    try:
        value = float(text) if text else float(default)
    except ValueError:
        value = -1.0
    if value < 0 or value != value:
        raise UsageError(f"{name}={text!r}: expected a number of at least 0")
    return value
