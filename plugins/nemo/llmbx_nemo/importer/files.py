"""The catalog's files: find the imported lines of a workload, replace them, and read the configurations in them."""

from __future__ import annotations

import tomllib
from pathlib import Path

from llmbx.api import Recipe, UsageError, convert_toml
from llmbx.api.verbs import evaluate_scale, scales_of

from .render import FIRST, LAST
from .rows import Configuration, Key


def split(text: str, path: Path) -> tuple[str, str, str]:
    """Split a file at its imported lines; the part between is empty if it has none, and the import is added last.

    Raises `UsageError` if only one of the two marks is there.
    """
    start, end = text.find(FIRST), text.find(LAST)
    if start < 0 and end < 0:
        return text + ("\n" if text else ""), "", ""
    if start < 0 or end < start:
        raise UsageError(f"{path}: the marks of the imported lines do not match: restore {FIRST!r} and {LAST!r}")
    end += len(LAST) + 1
    return text[:start], text[start:end], text[end:]


def read(path: Path) -> str:
    """Return the text of a file, empty if there is none. Raises `UsageError` if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8") if path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error


def configurations(imported: str, path: Path) -> dict[Key, Configuration]:
    """Return the configurations of imported lines, with their environments."""
    try:
        tables = tomllib.loads(imported).get("recipes", [])
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: not valid TOML: {error}") from error
    return {
        (row.size, dtype, gpu_type, gpus): Configuration(
            values={
                "fsdp": row.fsdp,
                "tp": row.tp,
                "pp": row.pp,
                "cp": row.cp,
                "ep": row.ep,
                "etp": row.etp,
                "vp": row.vp,
                "mbs": row.mbs,
                "cuda_graphs": row.cuda_graphs,
                "recompute_layers": row.recompute_layers,
                "offload_layers": row.offload_layers,
            },
            gbs=evaluate_scale(row.gbs, gpus),
            env=dict(sorted(recipe.exported(row, row.size, dtype, gpu_type, gpus, row.pp).items())),
        )
        for recipe in (convert_toml(table, Recipe, str(path)) for table in tables)
        for row in recipe.rows
        if not row.scaled_from
        for gpu_type in row.gpu_types
        for dtype in row.dtypes
        for gpus in scales_of(row.gpus)
    }
