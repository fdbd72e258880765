"""What nodes have in common, and how many differ."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from llmbx.launchers.nodes import parse_node
from llmbx.model import Node
from llmbx_analysis.nodes import host_names, shared_facts

H100 = {"gpu": "NVIDIA H100 80GB HBM3", "gpu_power_limit_w": 700.0, "gpu_clock_sm_max_mhz": 1980}


def test_nodes_that_differ_are_counted() -> None:
    limited = {"gpu": "NVIDIA H100 80GB HBM3", "gpu_power_limit_w": 650.0}
    assert shared_facts([Node(host="n2", gpus=(H100, limited)), Node(host="n1", cores=8)]) == {
        "cores": 8,
        "gpu": "NVIDIA H100 80GB HBM3",
        "gpu_power_limit_w": "650.0 (1 GPU), 700.0 (1 GPU)",
        "gpu_clock_sm_max_mhz": 1980,
        "gpus_seen": 2,
    }
    assert shared_facts([]) == {}


def test_their_names_are_sorted() -> None:
    assert host_names([Node(host="n2"), Node(), Node(host="n1")]) == ("n1", "n2")


@given(st.text(max_size=300))
def test_any_text_has_plain_facts(text: str) -> None:
    shared = shared_facts([parse_node(f"gpu {text}"), parse_node(f"cores {text}")])
    assert all(isinstance(value, str | int | float | bool) for value in shared.values())
