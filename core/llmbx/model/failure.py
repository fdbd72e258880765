"""What made a run fail: the first failure, and what followed it."""

from __future__ import annotations

from .base import Value

NAMED = 4
"""Maximum number of ranks that are named in a line."""

UNKNOWN_FIRST = ("nccl_error", "peer_lost")
"""Kinds of failure that each rank reports of another one, so that those that report it are not those that failed."""


class Echo(Value, frozen=True):
    """A line that another failure explains, with its rank and the time that it states."""

    text: str
    rank: int | None = None
    time: str | None = None


class Failure(Value, frozen=True):
    """The first failure of a run, and what followed. What is not known, or in doubt, is None.

    `ranks` are all ranks that failed alike, or may have been the first; `doubt` says why `rank` is not sure.
    `infrastructure` is whether a retry on other nodes makes sense. `unrelated` are failures that the run survived.
    """

    cause: str
    kind: str
    rank: int | None = None
    ranks: tuple[int, ...] = ()
    node: str | None = None
    time: str | None = None
    doubt: str | None = None
    infrastructure: bool | None = None
    echoes: tuple[Echo, ...] = ()
    unrelated: tuple[Echo, ...] = ()

    @property
    def who(self) -> str | None:
        """The rank, or the ranks of which it is one, in words; None if unknown."""
        if self.rank is not None:
            return f"rank {self.rank}"
        if not self.ranks or self.kind in UNKNOWN_FIRST:
            return None
        if self.doubt is not None:
            return f"rank {', '.join(map(str, self.ranks[:-1]))} or {self.ranks[-1]}" if len(self.ranks) > 1 else None
        shown = ", ".join(map(str, self.ranks[:NAMED]))
        return f"ranks {shown}" + (f" and {len(self.ranks) - NAMED} more" if len(self.ranks) > NAMED else "")
