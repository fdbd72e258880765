"""The common base of every value that crosses between rooms."""

from __future__ import annotations

from typing import Any, Self

import msgspec

Scalar = bool | int | float | str | None
"""What a `--set` value or a catalog setting may be."""


class Value(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A frozen, typed record. Unknown fields are errors when it is read from TOML or JSON."""

    def replace(self, **changes: Any) -> Self:
        """A copy with `changes` applied; the original stays as it is."""
        return msgspec.structs.replace(self, **changes)
