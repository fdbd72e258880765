"""The look at every node before the framework starts, on a real Slurm.

No node of the tests has a GPU: `nvidia-smi` is a stand-in that answers as eight healthy GPUs do, except on n2.
The folder that cannot be written and the container that does not start are real.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from llmbx.model import Wrapping
from llmbx.run.launch import with_companions
from llmbx.run.verdict import judge
from llmbx_accept.facts.before_run import node_check

from ...plugins.accept import stand_in_gpus
from .conftest import SlurmRun, make_launch, make_spec

Submit = Callable[..., SlurmRun]


@pytest.fixture
def look(submit: Submit, tmp_path: Path) -> Callable[..., SlurmRun]:
    """`look({"count": "1"})`: a run on three nodes whose second one, n2, has this fault."""

    def start(fault: Mapping[str, str] | None = None, prefix: tuple[str, ...] = ()) -> SlurmRun:
        bin_ = stand_in_gpus.write(tmp_path / "stand-in-for-nvidia-smi", sys.executable, {"n2": fault or {}})
        spec = make_spec(
            gpus=6, gpu_type="h100", preflight=True, sbatch={"nodelist": "n1,n2,n3"},
            setup=(f"export PATH={bin_}:$PATH",),
        )  # fmt: skip
        launch = make_launch("echo training", nodes=3)
        launch = with_companions(launch, (node_check(spec, launch),))
        return submit(launch, spec, (Wrapping(argv=prefix),))

    return start


def test_healthy_nodes_are_looked_at_and_the_run_goes_on(look: Callable[..., SlurmRun]) -> None:
    run = look()
    status = run.end()
    assert (status.exit_code, status.phase, status.node) == (0, None, None), run.batch
    assert run.log.count("training") == 6
    texts = [path.read_text() for path in run.folder.glob("preflight-*.txt")]
    assert len(texts) == 3 and all("same.gpu.driver=580.95.05" in text for text in texts), texts
    assert not any("bad=" in text for text in texts), texts


CANNOT_WRITE = """
if [ "$SLURMD_NODENAME" = n2 ]; then mount --bind . . && mount -o remount,ro,bind .; fi
exec "$@"
"""


@pytest.mark.parametrize(
    ("fault", "prefix", "why"),
    [
        ({"count": "1"}, (), "gpu.count: 1, at least 2 is expected"),
        ({"thermal_slowdown>Not Active": "thermal_slowdown>Active"}, (), "gpu.slowdown: 7: hw_thermal_slowdown"),
        ({"driver": "560.35.03"}, (), "gpu.driver differs from the other nodes: 560.35.03"),
        (None, ("unshare", "-m", "sh", "-c", CANNOT_WRITE, "sh"), "cannot write to the run folder"),
        (None, ("sh", "-c", '[ "$SLURMD_NODENAME" != n2 ] || exit 125; exec "$@"', "sh"), "Exited with exit code 125"),
    ],
)
def test_a_bad_node_ends_the_run_by_its_name(
    look: Callable[..., SlurmRun], fault: Mapping[str, str] | None, prefix: tuple[str, ...], why: str
) -> None:
    run = look(fault, prefix)
    status = run.end()
    assert (status.exit_code, status.phase, status.node) == (4, "preflight", "n2"), run.batch
    assert status.reason.startswith("node n2: ") and why in status.reason, status.reason
    assert "training" not in run.log
    assert judge(run.spec, status, [], []).cause == status.reason
    said: dict[str, Any] = json.loads((run.folder / "exit.json").read_text())
    assert said["reason"] == status.reason
