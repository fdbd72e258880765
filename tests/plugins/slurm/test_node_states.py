"""Nodes on which no job can start, by what sinfo prints."""

from __future__ import annotations

from llmbx_slurm.node_states import unusable

SINFO = """\
n1|idle|none
n1|idle|none
n2|drained|bad DIMM
n3|down*|Not responding
n4|allocated|none
n5|mixed|none
n6|draining|none
"""


def test_nodes_that_are_down_drained_or_unknown_are_named_with_the_reason() -> None:
    nodes = tuple(f"n{number}" for number in range(1, 8))
    assert unusable(nodes, lambda *_: SINFO) == {
        "n2": "drained: bad DIMM",
        "n3": "down: Not responding",
        "n6": "draining",
        "n7": "not a node of this cluster",
    }
