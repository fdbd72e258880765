"""Secrets: which variables are, and how every text that is kept or shown is cleaned of them."""

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
"""Secrets that frameworks read; they are forwarded to the ranks by name when they are set."""


def secret_names(
    environ: Mapping[str, str], asked: Mapping[str, str], configured: Mapping[str, str] | None = None, where: str = ""
) -> tuple[str, ...]:
    """Names of the secrets that are forwarded.

    Raises `UsageError` when a secret's value is given as an option, or `configured` in the cluster profile at `where`.
    """
    for variables, place, ends_up in (
        (asked, "--env {}=…: ", "a secret in an option ends up in process lists, scripts and shell histories"),
        (configured or {}, f"{where}: env.{{}}: ", "a secret in a profile ends up in scripts and records"),
    ):
        for name, value in variables.items():
            what = place.format(name) + ends_up
            if is_secret(name):
                how = "it is forwarded by name" if name in FORWARDED else "ranks outside a container inherit it"
                raise UsageError(f"{what}; export {name} instead, {how}")
            if blank(value) != value:
                raise UsageError(f"{what}, and this URL has a user or password in it; export {name} instead")
    return tuple(name for name in FORWARDED if environ.get(name))


def forget(environ: MutableMapping[str, str]) -> None:
    """Take every secret out of this process's environment, where processes that it starts and others would find it.

    The kernel shows a process's first environment in /proc for as long as it lives, and profilers read that of every
    process: there the values are overwritten. `scrub` and `known` go on knowing them.
    """
    _forgotten.update((name, value) for name, value in environ.items() if is_secret(name) and value)
    _overwrite()
    for name in _forgotten:
        environ.pop(name, None)


def known(environ: Mapping[str, str]) -> dict[str, str]:
    """The secrets of `environ` and those that this process has forgotten, by name."""
    return {**_forgotten, **{name: value for name, value in environ.items() if is_secret(name)}}


def _overwrite() -> None:
    import ctypes

    # Only the C library knows where the first environment lies; one that does not say has no /proc either.
    with contextlib.suppress(ValueError, OSError):
        entries = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
        for place in itertools.takewhile(bool, (entries[i] for i in itertools.count())):
            name, _, value = ctypes.string_at(place).partition(b"=")
            if is_secret(os.fsdecode(name)):
                ctypes.memset(place + len(name) + 1, ord("*"), len(value))


def scrub(text: str, environ: Mapping[str, str]) -> str:
    """`text` without the value of any secret that is `known`, and without the passwords of URLs.

    Values shorter than 8 characters are left alone.
    """
    for value in known(environ).values():
        if len(value) >= 8:
            text = text.replace(value, REDACTED)
    return blank(text)
