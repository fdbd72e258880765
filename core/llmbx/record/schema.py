"""The JSON Schema of `result.json`, generated from the record and shipped as a file; a test compares the two."""

from __future__ import annotations

from importlib import resources
from typing import Any

import msgspec

from ..model import Result

FILE = "result.schema.json"


def generate() -> dict[str, Any]:
    """The schema of the results that the current code writes; every field of every object is required."""
    (reference,), definitions = msgspec.json.schema_components([Result], ref_template="#/$defs/{name}")
    for definition in definitions.values():
        definition["required"] = sorted(definition.get("properties", {}))
        definition["additionalProperties"] = False
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "llmbx result, schema version 1",
        **reference,
        "$defs": definitions,
    }


def shipped() -> dict[str, Any]:
    """The schema file in the package."""
    data = (resources.files("llmbx") / "data" / FILE).read_bytes()
    schema: dict[str, Any] = msgspec.json.decode(data)
    return schema
