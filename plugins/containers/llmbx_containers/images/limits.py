"""Timeouts, retries and plain-HTTP registries, read from LLMBX_* variables."""

from __future__ import annotations

import os
from collections.abc import Mapping

from llmbx.api import UsageError, Value

TIMEOUT = "LLMBX_IMAGE_TIMEOUT_S"
RETRIES = "LLMBX_IMAGE_RETRIES"
BACKOFF = "LLMBX_IMAGE_BACKOFF_S"
RESPONSE = "LLMBX_REGISTRY_TIMEOUT_S"
PLAIN_HTTP = "LLMBX_HTTP_REGISTRIES"


class Limits(Value, frozen=True):
    """Limits of one import.

    `timeout_s`: total time; `backoff_s`: pause before the first retry, doubled for each further one; `response_s`:
    response timeout of a registry. All in seconds.
    """

    timeout_s: float = 7200.0
    retries: int = 4
    backoff_s: float = 1.0
    response_s: float = 30.0


def limits(environ: Mapping[str, str] | None = None) -> Limits:
    """Read the limits from environment variables. Raises `UsageError` for a value that is not a number >= 0."""
    variables = os.environ if environ is None else environ
    default = Limits()
    return Limits(
        timeout_s=_number(variables, TIMEOUT, default.timeout_s),
        retries=int(_number(variables, RETRIES, default.retries)),
        backoff_s=_number(variables, BACKOFF, default.backoff_s),
        response_s=_number(variables, RESPONSE, default.response_s),
    )


def plain_http(registry: str, environ: Mapping[str, str] | None = None) -> bool:
    """Whether `registry` uses plain HTTP: on loopback, or if listed in `LLMBX_HTTP_REGISTRIES`."""
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
        raise UsageError(f"{name}={text!r}: expected a number >= 0")
    return value
