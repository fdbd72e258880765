"""Find secrets in an exported profile.

nsys stores the output, command line and environment of the program, and the environment of every process on the machine
that it has access to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from llmbx.api import known_secrets
from llmbx.entry.secrets import is_secret

from .database import Database

MIN_LENGTH = 8
"""Minimum length of a value to search for; shorter values occur by chance."""

_SET = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="?([^"]*)')
_TEXTS = (("StringIds", "value"), ("META_DATA_CAPTURE", "value"))


def values(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets of an environment that are long enough to search for, by name."""
    return {name: value for name, value in known_secrets(environ).items() if len(value) >= MIN_LENGTH}


def secrets_in(database: Database, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the variables whose secrets occur in an exported profile.

    Found are the values of secrets in `environ`, and secrets in the environment recorded in the profile.
    """
    variables = set(_in_environment(database))
    for table, column in _TEXTS:
        if table in database.tables:
            for name, value in values(environ).items():
                sql = f"SELECT 1 FROM {table} WHERE instr({column}, ?) LIMIT 1"
                if database.rows(sql, tuple[int], (value,)):
                    variables.add(name)
    return tuple(sorted(variables))


def _in_environment(database: Database) -> list[str]:
    if "META_DATA_CAPTURE" not in database.tables:
        return []
    rows = database.rows(
        "SELECT value FROM META_DATA_CAPTURE WHERE name LIKE '%ENVIRONMENT_VARIABLE'", tuple[str | None]
    )
    pairs = [_SET.match(text or "") for (text,) in rows]
    return [pair[1] for pair in pairs if pair and is_secret(pair[1]) and len(pair[2]) >= MIN_LENGTH]
