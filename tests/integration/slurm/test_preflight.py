"""The look at every node before the framework starts, on a real Slurm.

No node of the tests has a GPU: `nvidia-smi` is a stand-in that answers as healthy GPUs do, except where a test says so.
The folder that cannot be written and the container that does not start are real.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmbx.model import Wrapping
from llmbx.run.verdict import judge

from .conftest import SlurmRun, make_launch, make_spec

Submit = Callable[..., SlurmRun]

STAND_IN = """\
#!/bin/sh
# stands in for nvidia-smi: two healthy GPUs, except on n2
count=2 driver=550.54.15 reasons=0x0000000000000001
[ "$SLURMD_NODENAME" != n2 ] || FAULT
n=0
while [ $n -lt $count ]; do
  case $1 in *clocks*) echo "$reasons" ;; *) echo "NVIDIA H100 80GB HBM3, $driver, 81559, 81000" ;; esac
  n=$((n + 1))
done
"""


@pytest.fixture
def look(submit: Submit, tmp_path: Path) -> Callable[..., SlurmRun]:
    """`look(fault="count=1")`: a run on three nodes whose second one, n2, has this fault."""

    def start(fault: str = ":", prefix: tuple[str, ...] = ()) -> SlurmRun:
        bin_ = tmp_path / "bin"
        bin_.mkdir()
        (bin_ / "nvidia-smi").write_text(STAND_IN.replace("FAULT", fault))
        (bin_ / "nvidia-smi").chmod(0o755)
        spec = make_spec(
            gpus=6, gpu_type="h100", preflight=True, sbatch={"nodelist": "n1,n2,n3"},
            setup=(f"export PATH={bin_}:$PATH",),
        )  # fmt: skip
        return submit(make_launch("echo training", nodes=3), spec, (Wrapping(argv=prefix),))

    return start


def test_healthy_nodes_are_looked_at_and_the_run_goes_on(look: Callable[..., SlurmRun]) -> None:
    run = look()
    status = run.end()
    assert (status.exit_code, status.phase, status.node) == (0, None, None), run.batch
    assert run.log.count("training") == 6
    found = sorted(path.read_text() for path in run.folder.glob("preflight-*.txt"))
    assert found == ["gpus=2\ndriver=550.54.15\n"] * 3


CANNOT_WRITE = """
if [ "$SLURMD_NODENAME" = n2 ]; then mount --bind . . && mount -o remount,ro,bind .; fi
exec "$@"
"""


@pytest.mark.parametrize(
    ("fault", "prefix", "why"),
    [
        ("count=1", (), "1 of 2 GPUs"),
        ("reasons=0x0000000000000020", (), "GPU 0 is throttled (0x0000000000000020), GPU 1 is"),
        ("driver=535.1", (), "driver 535.1, but the other nodes have 550.54.15"),
        (":", ("unshare", "-m", "sh", "-c", CANNOT_WRITE, "sh"), "cannot write to the run folder"),
        (":", ("sh", "-c", '[ "$SLURMD_NODENAME" != n2 ] || exit 125; exec "$@"', "sh"), "Exited with exit code 125"),
    ],
)
def test_a_bad_node_ends_the_run_by_its_name(
    look: Callable[..., SlurmRun], fault: str, prefix: tuple[str, ...], why: str
) -> None:
    run = look(fault, prefix)
    status = run.end()
    assert (status.exit_code, status.phase, status.node) == (4, "preflight", "n2"), run.batch
    assert status.reason.startswith("node n2: ") and why in status.reason, status.reason
    assert "training" not in run.log
    assert judge(run.spec, status, [], []).cause == status.reason
    said: dict[str, Any] = json.loads((run.folder / "exit.json").read_text())
    assert said["reason"] == status.reason
