"""Facts of nodes: written by the real shim with a fake nvidia-smi, and read back."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx.launchers.nodes import QUERY, node_named, node_of_rank, parse_gpu, parse_node, read_nodes
from llmbx.launchers.script import shell
from llmbx.launchers.shim import render_shim
from llmbx.model import Launch, Node, Phase
from llmbx.model.run_folder import NODE_SCRIPT as SCRIPT

STAND_IN = """#!/bin/sh
# A stand-in for nvidia-smi, whose real answer needs a GPU: two GPUs, the second with what it does not tell.
[ "$1" = --format=csv,noheader,nounits ] || exit 2
[ "$2" = --query-gpu={query} ] || exit 2
echo "NVIDIA H100 80GB HBM3, 550.54.15, 700.00, 1980, 2619, 1980, 700.00, 1980"
echo "NVIDIA H100 80GB HBM3, 550.54.15, 650.00, [N/A], 2619, [Not Supported], 700.00, [N/A]"
"""


def start(folder: Path, path: str, **env: str) -> None:
    launch = Launch(phases=(Phase(role="train", argv=("/bin/true",)),), nodes=2, ranks_per_node=1, gpus_per_rank=1)
    (folder / "rank-train.sh").write_text(render_shim(launch.phases[0], launch))
    (folder / SCRIPT).write_text(shell(SCRIPT).replace("QUERY", ",".join(QUERY)))
    subprocess.run(["/bin/sh", folder / "rank-train.sh"], check=True, env={"PATH": path, **env})


@pytest.fixture
def stand_in(tmp_path: Path) -> str:
    """A PATH with the fake nvidia-smi first."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "nvidia-smi").write_text(STAND_IN.format(query=",".join(QUERY)))
    (tools / "nvidia-smi").chmod(0o755)
    return f"{tools}:{os.environ['PATH']}"


def test_the_first_rank_of_each_node_describes_it(tmp_path: Path, stand_in: str) -> None:
    start(tmp_path, stand_in, LLMBX_NODE_RANK="0", OMP_NUM_THREADS="1")
    start(tmp_path, stand_in, LLMBX_NODE_RANK="10", SLURMD_NODENAME="n10")
    start(tmp_path, stand_in, LLMBX_NODE_RANK="2", LLMBX_LOCAL_RANK="1")
    first, last = read_nodes(tmp_path)
    assert (first.host, last.host) == (platform.node(), "n10")
    assert (first.hostname, first.rank) == (platform.node(), 0)
    assert (first.kernel, first.cores) == (platform.release(), os.cpu_count())
    assert first.gpus == (
        {"gpu": "NVIDIA H100 80GB HBM3", "driver": "550.54.15", "gpu_power_limit_w": 700.0,
         "gpu_clock_sm_max_mhz": 1980, "gpu_clock_memory_max_mhz": 2619, "gpu_clock_application_mhz": 1980,
         "gpu_power_default_w": 700.0, "gpu_clock_application_default_mhz": 1980},
        {"gpu": "NVIDIA H100 80GB HBM3", "driver": "550.54.15", "gpu_power_limit_w": 650.0,
         "gpu_clock_memory_max_mhz": 2619, "gpu_power_default_w": 700.0},
    )  # fmt: skip


def test_without_a_gpu_or_any_tool_a_node_still_starts(tmp_path: Path) -> None:
    start(tmp_path, "/nowhere")
    (node,) = read_nodes(tmp_path)
    assert node.gpus == ()
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "nvidia-smi").write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed' >&2\nexit 9\n")
    (tools / "nvidia-smi").chmod(0o755)
    start(tmp_path, f"{tools}:{os.environ['PATH']}")
    assert read_nodes(tmp_path)[0].gpus == ()


def test_a_query_that_hangs_is_given_up(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    limit = 'test "$1 $2 $3" = "-k 1 30" || exit 9\nshift 3\nexec /usr/bin/timeout -k 1 1 "$@"'
    for name, program in (
        ("nvidia-smi", "# A stand-in for nvidia-smi of a broken driver.\ntrap '' TERM\nexec sleep 600"),
        ("timeout", f"# A stand-in for timeout that waits for 1 s in place of 30.\n{limit}"),
    ):
        (tools / name).write_text(f"#!/bin/sh\n{program}\n")
        (tools / name).chmod(0o755)
    begun = time.monotonic()
    start(tmp_path, f"{tools}:{os.environ['PATH']}")
    assert time.monotonic() - begun < 300, "not the 600 s of the query"
    (node,) = read_nodes(tmp_path)
    assert node.gpus == () and node.host


def test_a_file_of_an_older_llmbx_lacks_the_defaults() -> None:
    assert parse_gpu("NVIDIA H100 80GB HBM3, 550.54.15, 700.00, 1980, 2619, 1980") == {
        "gpu": "NVIDIA H100 80GB HBM3", "driver": "550.54.15", "gpu_power_limit_w": 700.0,
        "gpu_clock_sm_max_mhz": 1980, "gpu_clock_memory_max_mhz": 2619, "gpu_clock_application_mhz": 1980,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("first", "rank", "node"),
    [
        ((0, 4, 8), 7, "n1"), ((0, 4, 8), 11, "n2"), ((0, 4, 8), 12, None), ((0,), 5, "n0"), ((0, 1), 1, "n1"),
        ((0, 1), 2, None), ((0, 3, 8), 3, None), ((0, 4, None), 1, None), ((), 0, None),
    ],
)  # fmt: skip
def test_the_node_of_a_rank_is_known_where_nodes_have_the_same_number_of_ranks(
    first: tuple[int | None, ...], rank: int, node: str | None
) -> None:
    nodes = [Node(host=f"n{place}", rank=number) for place, number in enumerate(first)]
    assert node_of_rank(nodes, rank) == node


@pytest.mark.parametrize(
    ("name", "node"),
    [("n1", "n1"), ("N1", "n1"), ("vm-17", "n1"), ("VM-17.cluster.example", "n1"), ("n3", None), ("vm", None)],
)
def test_a_node_is_known_by_the_schedulers_name_and_by_its_own(name: str, node: str | None) -> None:
    nodes = [Node(host="n1", hostname="vm-17.cluster"), Node(host="n2", hostname="vm-18.cluster")]
    assert node_named(nodes, name) == node


def test_a_name_of_several_nodes_names_none() -> None:
    assert node_named([Node(host="n1", hostname="vm"), Node(host="n2", hostname="vm")], "vm") is None


def test_nodes_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number in (10, 2, 0, 1):
        (tmp_path / f"node-{number}.txt").write_text(f"host n{number}\n")
    assert [node.host for node in read_nodes(tmp_path)] == ["n0", "n1", "n2", "n10"]


@given(st.text(max_size=300))
def test_any_text_is_a_node(text: str) -> None:
    assert isinstance(parse_node(text), Node) and isinstance(parse_gpu(text), dict)
