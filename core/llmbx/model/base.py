"""The common base of every value that crosses between rooms."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Self

import msgspec

Scalar = bool | int | float | str | None
"""What a `--set` value or a catalog setting may be."""

Natural = Annotated[int, msgspec.Meta(ge=0)]
"""A number of at least 0, as a file may say it."""

Positive = Annotated[int, msgspec.Meta(ge=1)]
"""A number of at least 1, as a file may say it."""

Seconds = Annotated[float, msgspec.Meta(gt=0, le=sys.float_info.max)]
"""A finite time above 0, as a file may say it."""


class Value(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A frozen, typed record. Unknown fields are errors when it is read from TOML or JSON."""

    def replace(self, **changes: Any) -> Self:
        """A copy with `changes` applied; the original stays as it is."""
        return msgspec.structs.replace(self, **changes)
