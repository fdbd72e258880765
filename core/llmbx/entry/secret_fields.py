"""Secrets that stand beside their name: `DB_PASSWORD=…`, `"api_key": "…"`, `Authorization: Bearer …`, `--token …`.

A name that only holds a word such as TOKEN or KEY is not enough: what frameworks print is full of them (`eos_token`,
`tokens_per_second`, `seq_key`). It depends on the name how much a value must look like a secret.
"""

from __future__ import annotations

import base64
import binascii
import functools
import re
from typing import NamedTuple

from llmbx.entry.secrets import HARMLESS, is_secret

PASSWORD = re.compile(
    r"(?:PASSWORD|PASSWD|PASSPHRASE|PASSCODE|PWD|SECRET|CREDENTIAL|CREDS)S?[0-9]*(?:_VALUE|_TEXT|_B64|_BASE64)?_$|"
    r"(?:DB|DATABASE|USER|ROOT|ADMIN|SSH|SMTP|MYSQL|SQL|REDIS|LDAP|FTP|PROXY|MAIL|LOGIN|KEY)_?PASS[0-9]*_$"
)
"""Names of passwords. A number may be one."""

KEY = re.compile(
    r"(?:API|APP|ACCESS|ACCOUNT|AUTH|PRIVATE|SECRET|SSH|SIGNING|ENCRYPTION|MASTER|DEPLOY|LICENSE|SHARED|"
    r"SUBSCRIPTION|CONSUMER|CLIENT)_?KEYS?[0-9]*(?:_DATA|_B64|_BASE64|_PEM)?_$|"
    r"(?:ACCESS|AUTH|API|APP|BEARER|REFRESH|SESSION|SECURITY|ID|OAUTH|IDENTITY|REGISTRY|PRIVATE|DEPLOY|BOT|USER|LOGIN|"
    r"HF|HUB|HUGGINGFACE|NGC|GITHUB|GITLAB|GH|SLACK|NPM|PYPI|VAULT|WANDB)_?TOKEN[0-9]*_$|"
    r"AMZ_(?:SIGNATURE|CREDENTIAL)_$|GOOG_SIGNATURE_$"
)
"""Names of keys and tokens that cannot be anything else."""

PLACEHOLDER = re.compile(
    r"none|null|nil|true|false|yes|no|on|off|str|string|int|bool|bytes|any|optional|required|unset|empty|default|hidden|"
    r"redacted|masked|value|missing|invalid|unknown|disabled|enabled|prompt|await|not|new|lambda|--.*|[x.*•-]+|"
    r"(?:[a-z]{1,40}[_-]){0,5}(?:password|passwd|passphrase|token|key|secret|credential|auth)s?|"
    r"(?=[a-z_]{0,80}(?:pass|secret|token|key|cred|auth))[a-z]{1,40}(?:_{1,2}[a-z]{1,40}){1,8}|"
    r"[a-z_]\w{0,60}(?:\.\w{1,60}){0,6}\.\w{0,60}(?:pass|secret|token|key|cred|auth)\w{0,60}|"
    r"0x[0-9a-f]+|\$[a-z_{(].*|%[(sdr].*|\{.*|<.*|\[.*|\(.*|@.*|[\w.]{1,200}[(\[].*|"
    r"(?:self|args|config|cfg|os|settings|options|kwargs)\..*",
    re.IGNORECASE,
)
"""Values that are not secrets: what programs print in place of one, types, variables and source code."""

FOLDER = re.compile(
    r"(?:~|\.{1,2})?/[a-z0-9_./-]*|(?!.{40}$)/(?:[\w.-]+/){2,}[\w.-]*|/(?:home|root|etc|mnt|opt|var|run|tmp|usr|data|workspace|scratch|lustre|shared?)/.*|"
    r"[A-Za-z]:\\.*|file:.*"
)
"""Paths. The secrets of some services may begin with `/`, but have capitals."""

NUMBER = re.compile(r"[+-]?[0-9][0-9,_]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?%?")
SCHEME = re.compile(
    rb"(?:bearer|basic|digest|token|negotiate|apikey|api-key|aws4-hmac-sha256)(?:[ \t]+|%20|\+)", re.IGNORECASE
)
RANDOM = re.compile(r"(?=[^0-9]{0,999}[0-9])(?=[^A-Za-z]{0,999}[A-Za-z])[A-Za-z0-9+/=_~-]{16,4000}")
MIXED = re.compile(
    r"(?=[^0-9]{0,999}[0-9])(?=[^a-z]{0,999}[a-z])(?:(?=[^A-Z]{0,999}[A-Z])[A-Za-z0-9+/=_~-]{16,4000}|[0-9a-f]{32,4000}|[A-Za-z0-9+/]{16,4000}={1,2})"
)
RANDOM_LETTER = re.compile(r"[0-9+=]")
"""A key has one of these: without one, it is a word of a program."""

COOKIE = re.compile(r"(?=[^0-9]{0,999}[0-9])[^=\s]{1,200}=[^\n]{8,4000}")


def normal(name: str) -> str:
    """A name in capitals, its words between `_`: `clientSecret` and `client-secret` are `_CLIENT_SECRET_`."""
    last = re.split(r"[.\s]", name.strip("-._"))[-1]
    return "_" + re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", last).replace("-", "_").strip("_").upper() + "_"


class Kind(NamedTuple):
    """What a name says about its value."""

    shortest: int = 0
    """Length from which on any value is a secret; 0 if it must look like one."""
    digits: int = 0
    """Length from which on a number is a secret; 0 if none is."""
    form: re.Pattern[str] | None = None
    """What a value must look like otherwise."""
    pair: bool = False
    """Whether the value is a user and password in base64."""


@functools.lru_cache(maxsize=4096)
def kind_of(name: str) -> Kind | None:
    """What the value beside a name may be; None if it is not a secret."""
    words, variable = re.sub(HARMLESS, "_", normal(name)), name == name.upper()
    if normal(name) == "_PWD_" and not variable:  # in capitals, it is the working folder
        return Kind(shortest=4, digits=4)
    if PASSWORD.search(words) or (variable and re.search(r"_(?:SSH)?PASS[0-9]*_$", words)):
        return Kind(shortest=8 if "CRED" in words else 4, digits=4)
    if KEY.search(words):
        return Kind(shortest=8, digits=8, form=RANDOM_LETTER)
    if words.endswith("_AUTH_"):
        return Kind(pair=True, form=RANDOM if variable else None)
    if words.endswith("AUTHORIZATION_"):
        return Kind(form=RANDOM)
    if words.endswith(("_COOKIE_", "_COOKIES_")):
        return Kind(form=COOKIE)
    if variable and is_secret(name):  # the numbers of a vocabulary have seven digits at most; counts are in the plural
        return Kind(form=RANDOM, digits=8 if words.endswith("_TOKEN_") else 0)
    return Kind(form=MIXED) if words.endswith(("TOKEN_", "_PAT_", "_JWT_")) else None


def is_value(kind: Kind, value: str) -> bool:
    """Whether `value`, which stands beside a name of this kind, is a secret."""
    if NUMBER.fullmatch(value):
        return 0 < kind.digits <= len(value) and (value.isdigit() or kind.digits < 8)
    if PLACEHOLDER.fullmatch(value) or FOLDER.fullmatch(value):
        return False
    if kind.shortest:
        return len(value) >= kind.shortest and (kind.form is None or bool(kind.form.search(value)))
    return (kind.pair and _is_pair(value)) or (kind.form is not None and bool(kind.form.fullmatch(value)))


def _is_pair(value: str) -> bool:
    """Whether it is `user:password` in base64."""
    try:
        text = base64.b64decode(value + "=" * (-len(value) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        return False
    return b":" in text and len(text) >= 3 and text.isascii() and text.decode().isprintable()


def is_credential(value: str) -> bool:
    """Whether the text after `Authorization: Bearer` or another scheme is a credential, not prose."""
    return (
        not PLACEHOLDER.fullmatch(value)
        and len(value) >= 4
        and (not re.fullmatch(r"[A-Z]?[a-z]+[.,]?", value) or _is_pair(value))
    )
