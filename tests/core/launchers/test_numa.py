"""NUMA binding in the rank shim: by the rank's GPU, else by the recipe's formula, else not at all, with a warning."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from llmbx.launchers.nodes import read_node
from llmbx.launchers.shim import render_shim
from llmbx.model import Phase

from .conftest import make_launch

SMI = """\
#!/bin/sh
case $1 in
  --id=5 | --id=GPU-b) echo 00000008:1A:00.0 ;;
  --id=6) echo 00000000:07:00.0 ;;
  --id=7) echo 00000000:08:00.0 ;;
  *) exit 6 ;;
esac
"""
"""nvidia-smi of a node whose GPU 5 is at NUMA node 1, GPU 6 at a node without cores; GPU 7 does not tell."""

NUMACTL = """\
#!/bin/sh
[ ! -e forbidden ] || exit 1
[ "$3" = true ] || echo numactl "$@"
"""


class Node:
    """A machine with two NUMA nodes with cores (0 and 1) and one without (2)."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tools, self.shim = folder, folder / "bin", folder / "rank.sh"
        self.tools.mkdir()
        for tool in ("sh", "echo", "cat", "cut", "tr", "timeout", "uname"):
            (self.tools / tool).symlink_to(shutil.which(tool) or tool)
        for number, cores in enumerate(("0-35", "36-71", "")):
            self.write(f"sys/devices/system/node/node{number}/cpulist", f"{cores}\n")
        for bus, node in (("0008:1a:00.0", 1), ("0000:07:00.0", 2), ("0000:08:00.0", -1)):
            self.write(f"sys/bus/pci/devices/{bus}/numa_node", f"{node}\n")
        launch = make_launch(Phase(role="train", argv=("echo", "done")), ranks=8, ranks_per_numa_node=4)
        text = render_shim(launch.phases[0], launch).replace("/sys/", f"{folder}/sys/")
        self.shim.write_text(text)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def has(self, tool: str, text: str) -> None:
        self.write(f"bin/{tool}", text)

    def starts(self, local_rank: int, **variables: str) -> str:
        """What a rank of the node's 8 prints."""
        known = {"PATH": str(self.tools), "SLURM_LOCALID": str(local_rank), "SLURM_PROCID": str(local_rank)}
        command = ["/bin/sh", self.shim]
        done = subprocess.run(command, env=known | variables, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return done.stdout.strip()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    made = Node(tmp_path)
    made.has("numactl", NUMACTL)
    made.has("nvidia-smi", SMI)
    return made


def bound(number: int) -> str:
    return f"numactl --cpunodebind={number} --membind={number} echo done"


@pytest.mark.parametrize(
    ("local_rank", "visible", "number"),
    [
        (5, "0,1,2,3,4,5,6,7", 1),
        (1, "4,5,6,7", 1),  # GPU 5, although rank 1 / 4 is 0
        (3, "5", 1),  # the only GPU of the rank
        (2, "GPU-a,GPU-x,GPU-b", 1),
        (0, "0,1,2,3", 0),  # nvidia-smi fails: the formula
        (7, "", 1),  # the machine does not tell: the formula
        (6, "", 1),  # that NUMA node has no cores: the formula
    ],
)
def test_a_rank_is_bound_to_the_numa_node_of_its_gpu(node: Node, local_rank: int, visible: str, number: int) -> None:
    assert node.starts(local_rank, **({"CUDA_VISIBLE_DEVICES": visible} if visible else {})) == bound(number)


def test_without_nvidia_smi_the_formula_of_the_recipe_decides(node: Node) -> None:
    (node.tools / "nvidia-smi").unlink()
    assert (node.starts(3), node.starts(4)) == (bound(0), bound(1))


def test_a_rank_is_bound_to_a_numa_node_of_this_machine(tmp_path: Path) -> None:
    real = Node(tmp_path)
    real.has("numactl", NUMACTL)
    real.shim.write_text(real.shim.read_text().replace(f"{tmp_path}/sys/", "/sys/"))
    assert real.starts(0) == bound(0)


def test_a_rank_that_cannot_be_bound_runs_unbound_with_one_warning(node: Node) -> None:
    node.write("forbidden", "")  # as in a container that does not allow set_mempolicy
    warning = "llmbx: warning: rank 0 is not bound to a NUMA node: "
    assert node.starts(0) == f"{warning}numactl may not bind it\ndone"
    assert node.starts(1) == "done"
    (node.tools / "numactl").unlink()
    assert node.starts(0) == f"{warning}numactl is not installed\ndone"


def test_ranks_without_their_numa_node_say_so_on_the_first_node(node: Node) -> None:
    told = "llmbx: warning: rank 12 is not bound to a NUMA node: there is no NUMA node 3 with cores"
    assert node.starts(12) == f"{told}\ndone"
    assert node.starts(12, SLURM_NODEID="1") == "done"


def test_the_node_file_says_what_the_ranks_were_bound_by(node: Node) -> None:
    node.starts(0, CUDA_VISIBLE_DEVICES="5", SLURM_NODEID="3")
    node.starts(1, SLURM_NODEID="3")
    described = read_node(node.folder / "node-3.txt")
    assert described is not None and described.numa == "GPU"
    (node.tools / "numactl").unlink()
    node.starts(0, SLURM_NODEID="4")
    described = read_node(node.folder / "node-4.txt")
    assert described is not None and described.numa == "off: numactl is not installed"
