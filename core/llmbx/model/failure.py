"""What made a run fail: the first failure, and what followed it."""

from __future__ import annotations

from .base import Value

NAMED = 4
"""Maximum number of ranks that are named in a line."""

NOT_STARTED = "not_started"
"""Kind of the failure of a run of which no rank was started."""

UNKNOWN_FIRST = ("nccl_error", "peer_lost")
"""Kinds of failure that each rank reports of another one, so that those that report it are not those that failed."""


class Echo(Value, frozen=True):
    """A line that another failure explains."""

    text: str
    """The line of the log."""
    rank: int | None = None
    """Its rank, if known."""
    time: str | None = None
    """When, as the line states it."""


class Failure(Value, frozen=True):
    """The first failure of a run, and what followed. What is not known, or in doubt, is None."""

    cause: str
    """The line that states it."""
    kind: str
    """Kind of its event."""
    rank: int | None = None
    """The rank that failed first; None if in doubt."""
    ranks: tuple[int, ...] = ()
    """All ranks that failed alike, or may have been the first."""
    node: str | None = None
    """The node of the first failure."""
    time: str | None = None
    """When, as the line states it."""
    doubt: str | None = None
    """Why the rank is not sure."""
    infrastructure: bool | None = None
    """Whether a retry on other nodes makes sense; None if unknown."""
    echoes: tuple[Echo, ...] = ()
    """What followed."""
    unrelated: tuple[Echo, ...] = ()
    """Failures that the run survived."""

    @property
    def who(self) -> str | None:
        """The rank, or the ranks that include it, in words; None if unknown."""
        if self.rank is not None:
            return f"rank {self.rank}"
        if not self.ranks or self.kind in UNKNOWN_FIRST:
            return None
        if self.doubt is not None:
            return f"rank {', '.join(map(str, self.ranks[:-1]))} or {self.ranks[-1]}" if len(self.ranks) > 1 else None
        shown = ", ".join(map(str, self.ranks[:NAMED]))
        return f"ranks {shown}" + (f" and {len(self.ranks) - NAMED} more" if len(self.ranks) > NAMED else "")
