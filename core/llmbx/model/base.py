"""Base class and common types of the records."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Self

import msgspec

Scalar = bool | int | float | str | None
"""Value of a `--set` key or a catalog setting."""

Natural = Annotated[int, msgspec.Meta(ge=0)]
"""An integer >= 0."""

Positive = Annotated[int, msgspec.Meta(ge=1)]
"""An integer >= 1."""

Seconds = Annotated[float, msgspec.Meta(gt=0, le=sys.float_info.max)]
"""A finite number of seconds > 0."""

Rate = Annotated[float, msgspec.Meta(gt=0, le=sys.float_info.max)]
"""A finite number per second > 0."""

Date = Annotated[float, msgspec.Meta(ge=0, le=253_402_300_799)]
"""A time in epoch seconds from 1970 to 9999, which every library of dates can hold."""


class Value(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base class of the records: frozen and typed. Reading a record from TOML or JSON rejects unknown fields."""

    def replace(self, **changes: Any) -> Self:
        """Return a copy with `changes` applied."""
        return msgspec.structs.replace(self, **changes)
