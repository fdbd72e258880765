"""Secrets in a profile. nsys stores what the program prints, what it was started with, and the environment of every
process of the machine that it may look at."""

from __future__ import annotations

import re
from collections.abc import Mapping

from llmbx.secrets import is_secret, known

from .database import Database

SHORTEST = 8
"""Shorter values occur by chance."""

_SET = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="?([^"]*)')
_TEXTS = (("StringIds", "value"), ("META_DATA_CAPTURE", "value"))


def values(environ: Mapping[str, str]) -> dict[str, str]:
    """The secrets of an environment that are worth looking for, by name."""
    return {name: value for name, value in known(environ).items() if len(value) >= SHORTEST}


def secrets_in(database: Database, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the variables whose secrets are in an exported profile: by their values here, or as it was started."""
    found = set(_started_with(database))
    for table, column in _TEXTS:
        if table in database.tables:
            for name, value in values(environ).items():
                sql = f"SELECT 1 FROM {table} WHERE instr({column}, ?) LIMIT 1"
                if database.rows(sql, (value,)).fetchone():
                    found.add(name)
    return tuple(sorted(found))


def _started_with(database: Database) -> list[str]:
    if "META_DATA_CAPTURE" not in database.tables:
        return []
    rows = database.rows("SELECT value FROM META_DATA_CAPTURE WHERE name LIKE '%ENVIRONMENT_VARIABLE'")
    pairs = [_SET.match(text or "") for (text,) in rows]
    return [pair[1] for pair in pairs if pair and is_secret(pair[1]) and len(pair[2]) >= SHORTEST]
