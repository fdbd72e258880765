"""Convert rank selectors, as users write them, into rank numbers. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..errors import UsageError

_TERM = re.compile(r"(?P<word>[a-z]+)|(?P<low>\d+)(-(?P<high>\d+))?")


def choose(selector: str, world: int, stages: int, seed: str = "all") -> str:
    """Convert `selector` to numbers: "all", or ranks and ranges in ascending order ("0,32,48-51").

    A selector is a comma-separated list of: `all`, a rank (`8`), a range (`0-7`, inclusive), `first`, `mid` and `last`
    (the first rank of the first, the middle and the last of `stages` pipeline stages), or `seed` (the recipe's own
    selector, without ranks that a smaller run does not have). Pipeline stages are consecutive blocks of ranks. `world`
    is the number of ranks. Raises `UsageError` for any other term and for a rank that the run does not have.
    """
    chosen: set[int] = set()
    for term in selector.lower().split(","):
        if term.strip() == "seed":
            chosen.update(rank for part in seed.split(",") for rank in _term(part, selector, world, stages, clip=True))
        else:
            chosen.update(_term(term, selector, world, stages))
    return "all" if len(chosen) == world else spell(chosen)


def numbers(chosen: str, world: int) -> tuple[int, ...]:
    """Return the ranks of a selector returned by `choose`, ascending, for a run of `world` ranks."""
    return tuple(sorted({rank for term in chosen.split(",") for rank in _term(term, chosen, world, 1)}))


def spell(chosen: Iterable[int]) -> str:
    """Format rank numbers as ranks and ranges: 0, 1, 2, 7 becomes "0-2,7"."""
    runs: list[list[int]] = []
    for rank in sorted(set(chosen)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def _term(term: str, selector: str, world: int, stages: int, clip: bool = False) -> range:
    match = _TERM.fullmatch(term.strip())
    if match is None or match["word"] not in (None, "all", "first", "mid", "last"):
        raise UsageError(
            f"ranks {selector!r}: expected all, first, mid, last, seed, a rank (8) or a range (0-7), "
            f"got {term.strip()!r}"
        )
    if match["word"] == "all":
        return range(world)
    if match["word"]:
        stage = {"first": 0, "mid": stages // 2, "last": stages - 1}[match["word"]]
        first = stage * max(1, world // stages)
        return range(first, first + 1)
    low, high = int(match["low"]), int(match["high"] or match["low"])
    if high < low:
        raise UsageError(f"ranks {selector!r}: {term.strip()} ends before it starts")
    if high >= world and not clip:
        raise UsageError(f"ranks {selector!r}: there is no rank {high}, the run has ranks 0 to {world - 1}")
    return range(low, min(high, world - 1) + 1)
