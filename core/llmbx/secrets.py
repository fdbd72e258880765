"""Detect secret variables and redact them from everything stored or printed."""

from __future__ import annotations

import base64
import contextlib
import functools
import itertools
import json
import os
import re
from collections.abc import Iterator, Mapping, MutableMapping
from urllib.parse import quote, quote_plus

from .entry.secrets import HARMLESS, REDACTED, SECRET, blank, is_secret, recorded, redact
from .errors import UsageError

__all__ = [
    "FORWARDED",
    "HARMLESS",
    "REDACTED",
    "SECRET",
    "Finder",
    "blank",
    "encodings",
    "forget",
    "is_secret",
    "known",
    "recorded",
    "redact",
    "refuse",
    "scrub",
    "secret_names",
]

_forgotten: dict[str, str] = {}

FORWARDED = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "NGC_API_KEY", "WANDB_API_KEY")
"""Secrets that frameworks read; they are forwarded to the ranks by name if set."""


_USER_OF_IMAGE = re.compile(r"[^/\s@:]{1,99}:[^/\s@]{1,200}@(?!sha256:)")

_PASSWORD = re.compile(r"(?<=://)[^\s/?#:@]{0,200}:([^\s/?#@]{1,500})@")

_FIGURE = re.compile(r"[+-]?[0-9][0-9,_.]*(?:[eE][+-]?[0-9]+)?")

SHORTEST = 8
"""Shorter values are not searched for: they would be found in ordinary text."""


@functools.lru_cache(maxsize=64)
def encodings(value: str) -> tuple[str, ...]:
    """The forms in which a secret's value may be printed, the longest first; empty if it is shorter than 8 characters.

    As it is, in JSON, in a URL, in a quoted shell word, in hexadecimal digits, and in base64 at each of the three
    positions that it may have in an encoded text; each line of a value with several lines.
    """
    if len(value) < SHORTEST or _FIGURE.fullmatch(value):  # it may be in any record
        return ()
    data = value.encode("utf-8", "surrogateescape")
    texts = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]}
    texts |= {quote(data, safe=""), quote(data), quote_plus(data), value.replace("'", "'\\''")}
    texts |= {data.hex(), data.hex().upper()}
    for before in range(3):
        first, last = -(-before * 8 // 6), (before + len(data)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            texts.add(encode(b"\0" * before + data).decode()[first:last])
    texts |= {line.strip() for line in value.splitlines() if len(line.strip()) >= 2 * SHORTEST}
    return tuple(sorted((text for text in texts if len(text) >= SHORTEST), key=len, reverse=True))


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
                contains = (
                    "this URL contains a user or password"
                    if "://" in value
                    else "this value contains a token or password"
                )
                raise UsageError(f"{what}, and {contains}; export {name} instead")
    return tuple(name for name in FORWARDED if environ.get(name))


def refuse(texts: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Raise `UsageError` if an option contains a secret; `texts` has the values of options by their names."""
    for option, text in texts.items():
        if scrub(text, environ) != text or _USER_OF_IMAGE.match(text):
            raise UsageError(
                f"{option}: it contains a secret (a token or a password), which is visible in process lists, scripts "
                f"and records: remove it, and export it as a variable or log in with the tool that needs it"
            )


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
    """The secrets in `environ` and those removed by `forget`, by name; also the passwords in its URLs."""
    secrets = {name: value for name, value in environ.items() if is_secret(name) and not _is_path(value)}
    for name, value in environ.items():
        if "://" in value and "@" in value:
            secrets |= {f"{name} (password)": password[1] for password in _PASSWORD.finditer(value)}
    return {**_forgotten, **secrets}


def _is_path(value: str) -> bool:
    """Whether the value is the path of something that exists: an existing path is not treated as a secret."""
    return value.startswith(("/", "~/")) and os.path.exists(os.path.expanduser(value))  # noqa: PTH110, PTH111


def _overwrite() -> None:
    import ctypes

    # Only the C library knows the address of the initial environment; systems without this symbol have no /proc either.
    with contextlib.suppress(ValueError, OSError):
        entries = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
        for place in itertools.takewhile(bool, (entries[i] for i in itertools.count())):
            name, _, value = ctypes.string_at(place).partition(b"=")
            if is_secret(os.fsdecode(name)):
                ctypes.memset(place + len(name) + 1, ord("*"), len(value))


class Finder:
    """Finds the known secrets of an environment in any of their encodings, and secrets of a known form, in bytes."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        secrets = {name: value for name, value in known(environ).items() if value}
        texts = {text.encode("utf-8", "surrogateescape") for value in secrets.values() for text in encodings(value)}
        self._needles = tuple(sorted(texts, key=len))
        self._numbers = tuple(
            (_number(name, value), len(value)) for name, value in secrets.items() if _is_number(name, value)
        )

    def spans(self, data: bytes, continued: bool = False) -> Iterator[tuple[int, int]]:
        """Where secrets are; two may overlap. `continued` is whether `data` may begin inside of a name."""
        from .entry import find_secrets

        for needle in self._needles:
            at = data.find(needle)
            while at >= 0:
                yield at, at + len(needle)
                at = data.find(needle, at + 1)
        for number, digits in self._numbers:
            yield from ((match.end() - digits, match.end()) for match in number.finditer(data))
        yield from find_secrets.spans(data, continued)


def _is_number(name: str, value: str) -> bool:
    from .entry.secret_fields import is_value, kind_of

    kind = kind_of(name)
    return value.isdigit() and len(value) >= SHORTEST and kind is not None and is_value(kind, value)


def _number(name: str, value: str) -> re.Pattern[bytes]:
    """Finds a secret of digits in a line that is about it: alone it may be any figure of a log."""
    about = f"passw|passphrase|pwd|secret|credential|auth|login|{re.escape(name)}"
    return re.compile(rf"(?:{about})[^\n]{{0,80}}?(?<![\w.]){value}(?!\w|\.[0-9])".encode(), re.IGNORECASE)


def scrub(text: str, environ: Mapping[str, str]) -> str:
    """`text` without the values of all `known` secrets in any of their `encodings`, and without `blank`'s secrets.

    Values shorter than 8 characters are replaced only beside their names, and so are numbers.
    """
    from .entry.find_secrets import without

    return without(text, REDACTED, Finder(environ).spans)
