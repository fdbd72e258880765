"""Who comes late to collectives, and what the others wait for it. Pure.

Clocks of different nodes do not agree to a microsecond, lengths do: all ranks leave a collective together, so the rank
that is in it for the shortest time came last, and what another rank spends beyond that, it spent waiting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from . import kernels
from .values import Straggler, Stragglers

Lengths = Mapping[tuple[int, str], Sequence[int]]
"""By step and kernel name: how long each call took (ns), in the order of the calls."""


def find(lanes: Sequence[tuple[int | None, str, Lengths]]) -> Stragglers | None:
    """Stragglers among lanes given as (rank, label, lengths); None where fewer than two lanes share a collective.

    A collective of one step is matched by its name and its place in the step, when all lanes that call it at all in
    that step call it equally often. Ranks of different groups call the same names, so what is matched need not be one
    collective: a short one of another group then looks like waiting in this one.
    """
    last, causes, waits = [0] * len(lanes), [0] * len(lanes), [0] * len(lanes)
    matched = unmatched = transfer = 0
    for key in sorted(
        {key for _, _, lengths in lanes for key in lengths if kernels.operation(key[1]) in kernels.TOGETHER}
    ):
        sharers = [(place, lengths[key]) for place, (_, _, lengths) in enumerate(lanes) if key in lengths]
        counts = {len(calls) for _, calls in sharers}
        if len(sharers) < 2 or len(counts) > 1:
            unmatched += max(counts)
            continue
        who = [place for place, _ in sharers]
        for times in zip(*(calls for _, calls in sharers), strict=True):
            shortest = min(times)
            total = sum(times) - shortest * len(times)
            matched += 1
            transfer += shortest
            if total == 0:
                continue
            late = who[times.index(shortest)]
            last[late] += 1
            causes[late] += total
            for place, time in zip(who, times, strict=True):
                waits[place] += time - shortest
    if not matched:
        return None
    rows = [
        Straggler(rank=rank, label=label, last=last[i], last_share=last[i] / matched, causes_s=causes[i] / 1e9,
                  waits_s=waits[i] / 1e9)
        for i, (rank, label, _) in enumerate(lanes)
    ]  # fmt: skip
    return Stragglers(
        matched=matched,
        unmatched=unmatched,
        transfer_s=transfer / 1e9,
        wait_s=sum(waits) / 1e9,
        ranks=tuple(sorted(rows, key=lambda row: -row.causes_s)),
    )
