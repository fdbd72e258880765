"""Stacks as py-spy writes them with `--format raw`: one line for each stack, outermost function first, and its count.

<module> (train.py);step (train.py);forward (torch/nn/modules/module.py) 88
"""

from collections import Counter
from collections.abc import Iterable

from llmbx.api import Value


class Function(Value, frozen=True):
    """The samples of one function: `own` while it ran itself, `total` with everything that it called."""

    name: str
    own: int
    total: int


class RankProfile(Value, frozen=True):
    """What the samples of one rank add up to."""

    rank: int
    samples: int
    functions: tuple[Function, ...]
    """The functions with the most samples of their own, in this order."""


def add_up(rank: int, lines: Iterable[str], most: int) -> RankProfile:
    """The profile of a rank, with its `most` busiest functions. Lines that are not stacks (cut, empty) are left out."""
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for line in lines:
        stack, _, count = line.strip().rpartition(" ")
        if stack and count.isdecimal():
            frames = stack.split(";")
            own[frames[-1]] += int(count)
            for frame in {*frames}:  # a recursive function counts once
                total[frame] += int(count)
    functions = tuple(Function(name=name, own=n, total=total[name]) for name, n in own.most_common(most))
    return RankProfile(rank=rank, samples=own.total(), functions=functions)
