"""Detect secret variables and redact them from everything stored or printed."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Mapping, MutableMapping

from .entry.secrets import HARMLESS, REDACTED, SECRET, blank, is_secret, redact
from .errors import UsageError

__all__ = [
    "FORWARDED",
    "HARMLESS",
    "REDACTED",
    "SECRET",
    "blank",
    "forget",
    "is_secret",
    "known",
    "redact",
    "scrub",
    "secret_names",
]

_forgotten: dict[str, str] = {}

FORWARDED = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "NGC_API_KEY", "WANDB_API_KEY")
"""Secrets that frameworks read; they are forwarded to the ranks by name if set."""


def secret_names(
    environ: Mapping[str, str],
    explicit: Mapping[str, str],
    configured: Mapping[str, str] | None = None,
    where: str = "",
) -> tuple[str, ...]:
    """Names of the secrets that are forwarded.

    Raises `UsageError` if a secret's value is set by an option (`explicit`) or in the cluster profile at `where`
    (`configured`).
    """
    for variables, place, exposure in (
        (explicit, "--env {}=…: ", "a secret in an option is visible in process lists, scripts and shell histories"),
        (configured or {}, f"{where}: env.{{}}: ", "a secret in a profile is copied into scripts and records"),
    ):
        for name, value in variables.items():
            what = place.format(name) + exposure
            if is_secret(name):
                how = "it is forwarded by name" if name in FORWARDED else "ranks outside of a container inherit it"
                raise UsageError(f"{what}; export {name} instead ({how})")
            if blank(value) != value:
                raise UsageError(f"{what}, and this URL contains a user or password; export {name} instead")
    return tuple(name for name in FORWARDED if environ.get(name))


def forget(environ: MutableMapping[str, str]) -> None:
    """Remove every secret from this process's environment, so that child processes and other processes cannot read it.

    The kernel shows a process's initial environment in /proc as long as the process lives, and profilers read it for
    every process: the values are overwritten there. `scrub` and `known` still know them.
    """
    _forgotten.update((name, value) for name, value in environ.items() if is_secret(name) and value)
    _overwrite()
    for name in _forgotten:
        environ.pop(name, None)


def known(environ: Mapping[str, str]) -> dict[str, str]:
    """The secrets in `environ` and those removed by `forget`, by name."""
    return {**_forgotten, **{name: value for name, value in environ.items() if is_secret(name)}}


def _overwrite() -> None:
    import ctypes

    # Only the C library knows the address of the initial environment; systems without this symbol have no /proc either.
    with contextlib.suppress(ValueError, OSError):
        entries = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
        for place in itertools.takewhile(bool, (entries[i] for i in itertools.count())):
            name, _, value = ctypes.string_at(place).partition(b"=")
            if is_secret(os.fsdecode(name)):
                ctypes.memset(place + len(name) + 1, ord("*"), len(value))


def scrub(text: str, environ: Mapping[str, str]) -> str:
    """`text` without the values of all `known` secrets, and without the passwords in URLs.

    Values shorter than 8 characters are not replaced.
    """
    for value in known(environ).values():
        if len(value) >= 8:
            text = text.replace(value, REDACTED)
    return blank(text)
