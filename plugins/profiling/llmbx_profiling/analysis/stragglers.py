"""Find ranks that enter collectives late, and the time that other ranks wait for them. Pure.

Clocks of different nodes are not synchronized to a microsecond, so durations are compared instead of times. All ranks
leave a collective together: the rank with the shortest duration entered it last, and any longer duration includes
waiting time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from . import kernels
from .model import Straggler, Stragglers

Lengths = Mapping[tuple[int, str], Sequence[int]]
"""Durations of calls (ns) by step and kernel name, in the order of the calls."""


def find(lanes: Sequence[tuple[int | None, str, Lengths]]) -> Stragglers | None:
    """Return stragglers among lanes, given as (rank, label, lengths); None if no two lanes share a collective.

    Calls are matched by step, name and index in the step, if all lanes that call the collective in this step call it
    the same number of times. Ranks of different groups use the same names, so matched calls need not belong to the same
    collective: a short call of another group then looks like waiting in this one.
    """
    last, causes, waits = [0] * len(lanes), [0] * len(lanes), [0] * len(lanes)
    matched = unmatched = transfer = 0
    for key in sorted(
        {key for _, _, lengths in lanes for key in lengths if kernels.operation(key[1]) in kernels.ALL_RANK_COLLECTIVES}
    ):
        participants = [(index, lengths[key]) for index, (_, _, lengths) in enumerate(lanes) if key in lengths]
        counts = {len(calls) for _, calls in participants}
        if len(participants) < 2 or len(counts) > 1:
            unmatched += max(counts)
            continue
        indices = [index for index, _ in participants]
        for times in zip(*(calls for _, calls in participants), strict=True):
            shortest = min(times)
            total = sum(times) - shortest * len(times)
            matched += 1
            transfer += shortest
            if total == 0:
                continue
            late = indices[times.index(shortest)]
            last[late] += 1
            causes[late] += total
            for index, time in zip(indices, times, strict=True):
                waits[index] += time - shortest
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
