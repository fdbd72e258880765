"""Failures of ranks in real trainings under a real Slurm: llmbx names the first one, whatever the others print."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ...patience import PATIENCE_S, wait_until
from ..conftest import COMMAND, clean_environment
from . import cluster
from .real_failures import FAILURES, TRAININGS, Failure

ROOT = Path(__file__).parents[3]
INJECTOR = ROOT / "tests/fixtures/fault_injector"
AT_ONCE = 6
"""Runs at a time: most of them wait for something most of the time."""

PATIENT = """\
[clusters.patient.srun]
kill-on-bad-exit = "0"
wait = "30"
"""


@dataclass(frozen=True)
class Ended:
    """What llmbx says of a run: its result, and its explanation."""

    result: dict[str, Any]
    explained: dict[str, Any]
    status: str


class Trainings:
    """Trainings on a Slurm of their own, whose last two nodes are there to be lost."""

    def __init__(self, slurm: cluster.Cluster, install: Path, config: Path) -> None:
        plugin = str(ROOT / "examples/torch_lm")
        variables = {"SLURM_CONF": str(slurm.config), "LLMBX_CONFIG": str(config), "LLMBX_PLUGINS": plugin}
        self.slurm, self.environment = slurm, clean_environment(install, **variables)

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The command, as a user types it."""
        return subprocess.run(
            [COMMAND, *arguments], env=self.environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )

    def llmbx(self, *arguments: str) -> str:
        """What the command prints."""
        return self.call(*arguments).stdout

    def run(self, failure: Failure) -> Ended:
        """Run it to its end."""
        outside = failure.outside
        printed = self.llmbx(
            *self.arguments(failure), *self.place(failure), *(("--detach",) if outside else ("--format", "json"))
        )
        result = self._interfere(printed.strip(), outside) if outside else json.loads(printed)
        explained = json.loads(self.llmbx("explain", result["run_id"], "--format", "json"))
        return Ended(result, explained, self.llmbx("status", result["run_id"]) if outside else result["cause"])

    def arguments(self, failure: Failure) -> list[str]:
        """What a user types for the run."""
        changed = {"PYTHONPATH": INJECTOR, "OMP_NUM_THREADS": "1", "INJECT_FAILURE": json.dumps(failure.inject)}
        nodes = ("nodelist=n5,n6" if failure.outside == "lose" else "exclude=n5,n6", *failure.sbatch)
        return [
            "run", *TRAININGS[failure.training], "--gpus", str(failure.world),
            "--gpus-per-node", str(failure.world // failure.nodes), "--launcher", "slurm",
            *(("--cluster", "patient") if failure.patient else ()),
            *(part for name, value in changed.items() for part in ("--env", f"{name}={value}")),
            *(part for option in nodes for part in ("--slurm-arg", option)),
        ]  # fmt: skip

    @staticmethod
    def place(failure: Failure) -> tuple[str, ...]:
        """Options for the first nodes, which the failures name: one that another job just leaves is waited for."""
        if failure.outside == "lose":
            return ()
        return "--slurm-arg", f"nodelist={','.join(f'n{number + 1}' for number in range(failure.nodes))}"

    def _interfere(self, name: str, outside: str) -> dict[str, Any]:
        """Do something to a run that was submitted, and follow it to its end; its result."""
        status = json.loads(self.llmbx("status", name, "--format", "json"))
        folder = Path(status["log"]).parent
        getattr(self, outside)(status["job_id"], folder)
        self.llmbx("logs", "--follow", name)
        result: dict[str, Any] = json.loads((folder / "result.json").read_text())
        return result

    def lose(self, job: str, folder: Path) -> None:
        """The last node goes dead: its ranks say no word more, and its slurmd is killed; the controller is told."""
        self._trains(folder)
        ranks = [int(path.name) for path in Path("/proc").glob("[0-9]*") if _of(path, job, "n6")]
        for process in {*ranks, *map(_parent, ranks)}:
            os.kill(process, signal.SIGSTOP)
        self.slurm.stop_daemon("slurmd.n6.pid", signal.SIGKILL)
        self.slurm.call("scontrol", "update", "nodename=n6", "state=down", "reason=Not responding")
        for process in {*ranks, *map(_parent, ranks)}:
            os.kill(process, signal.SIGKILL)

    def limit(self, job: str, folder: Path) -> None:
        """The time limit of the job comes."""
        self._trains(folder)
        # Slurm refuses a time that is past when the controller reads it: "now" is, if a second ends in between.
        self.slurm.call("scontrol", "update", f"jobid={job}", "EndTime=now+5")

    def cancel(self, job: str, folder: Path) -> None:
        """Its user cancels the job."""
        self._trains(folder)
        self.slurm.call("scancel", job)

    def block(self, job: str, folder: Path) -> None:
        """A folder is where the output of the job, which is held, must be."""
        next(folder.glob("sbatch_*.out"), folder / f"sbatch_{folder.name}.out").mkdir()
        self.slurm.call("scontrol", "release", job)

    def _trains(self, folder: Path) -> None:
        def trains() -> bool:
            return any("step 5/" in log.read_text() for log in folder.glob("log-*.out"))

        wait_until(trains, "no step was seen")


def _of(process: Path, job: str, node: str) -> bool:
    """Whether a process is a rank of the job on the node."""
    try:
        variables = (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return {f"SLURM_JOB_ID={job}".encode(), f"SLURMD_NODENAME={node}".encode()} <= {*variables}


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.fixture(scope="module")
def trainings(shared_install: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trainings]:
    """A Slurm whose nodes have names of their own beside those in Slurm, and the environment of the trainings."""
    why = cluster.install()
    if why:
        if os.environ.get("CI"):
            pytest.fail(f"{why}; CI must run the Slurm tests")
        pytest.skip(why)
    config = tmp_path_factory.mktemp("failures") / "llmbx.toml"
    config.write_text(PATIENT)
    with tempfile.TemporaryDirectory(prefix="llmbx-slurm-") as folder:
        private = cluster.Cluster(Path(folder), nodes=6, cpus=32, cgroups=True, hosts="host-{}.example", first_job=2001)
        try:
            private.start()
            found = Trainings(private, shared_install, config)
            found.llmbx("run", "torch_lm", "--gpus", "1", "--steps", "2")  # builds the environment once
            yield found
        finally:
            private.stop()


@pytest.fixture(scope="module")
def ended(trainings: Trainings) -> Iterator[dict[str, Future[Ended]]]:
    """All runs, of which several are made at a time."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        order = sorted(FAILURES, key=lambda name: not FAILURES[name].outside)  # these wait for Slurm
        yield {name: pool.submit(trainings.run, FAILURES[name]) for name in order}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", FAILURES)
def test_the_first_failure_is_named(name: str, ended: dict[str, Future[Ended]]) -> None:
    failure, found = FAILURES[name], ended[name].result()
    result, explained = found.result, found.explained["failed"]
    assert result["status"] == failure.status and result["data_valid"] is False, result["cause"]
    assert any(cause in result["cause"] for cause in failure.cause.split(" or ")), result["cause"]
    assert result["cause"] in found.status and explained["cause"] in result["cause"]
    assert result["cause_rank"] == explained["rank"] == failure.rank, result["cause"]
    assert failure.doubt or tuple(result["cause_ranks"]) == failure.named, result["cause"]
    assert result["cause_node"] == explained["node"] == failure.node
    assert bool(result["doubt"]) == failure.doubt
    assert explained["infrastructure"] is failure.infrastructure
    told = {line["rank"] for line in found.explained["followed"]}
    assert {*failure.only} <= told and not {*failure.only} & {*result["cause_ranks"]}, told


LEAVE = """\
import atexit, os, sys
atexit.register(lambda: (sys.stdout.flush(), os._exit(0)))
"""
"""The rank ends at once after its last step: PyTorch, as it ends its threads on a busy machine, sometimes aborts."""

BROKEN = f"""\
import pathlib, sys, time
if not pathlib.Path("attempts").exists():
    print({{!r}}, flush=True)
    while "task 0: Exited" not in next(pathlib.Path().glob("sbatch_*.out")).read_text():
        time.sleep(0.1)
    sys.exit(1)
{LEAVE}"""
"""A rank whose hardware breaks, and that ends after the other one."""

NOTICES = f"""\
import pathlib
if not pathlib.Path("attempts").exists():
    await_log({{!r}})
    raise ConnectionResetError("Connection reset by peer")
{LEAVE}"""
ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
XID = "{} kernel: NVRM: Xid (PCI:0000:9d:00): 79, pid=9523, GPU has fallen off the bus."


BY_ITSELF = {0: NOTICES.format("uncorrectable ECC"), 1: BROKEN.format(ECC)}
"""The second rank prints an error of its GPU. The first one notices that it is gone, and ends before it."""


def by_another(host: str) -> dict[int, str]:
    """The first rank prints what the kernel of the second one's node says, which has another name than in Slurm."""
    return {0: f"print({XID.format(host)!r}, flush=True)\n{NOTICES.format('fallen off')}", 1: BROKEN.format("ready")}


@pytest.mark.parametrize(("who", "cause"), [("itself", ECC), ("another rank", "NVRM: Xid")])
def test_a_retry_leaves_out_the_node_of_the_failure_by_the_name_that_slurm_has_for_it(
    who: str, cause: str, trainings: Trainings
) -> None:
    slurm = trainings.slurm
    steps = BY_ITSELF if who == "itself" else by_another(slurm.host("n2") if slurm.hosts else "n2")
    arguments = trainings.arguments(Failure(cause, step=steps))
    done = trainings.call(*arguments, "--retries", "1", "--format", "json")
    result = json.loads(done.stdout)
    assert (done.returncode, result["status"], result["attempt"]) == (0, "completed", 1), done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "attempt 0 failed: " in line]
    assert cause in line and line.endswith("; attempt 1 of 1 without n2")
    assert "ExcNodeList=n[2,5-6]" in slurm.call("scontrol", "show", "job", result["job_id"])


def test_the_first_cause_stays_if_no_other_node_is_left(trainings: Trainings) -> None:
    trainings.slurm.call("scontrol", "create", "PartitionName=pair", "Nodes=n3,n4", "State=UP")
    arguments = trainings.arguments(Failure(ECC, step=BY_ITSELF, sbatch=("partition=pair",)))
    done = trainings.call(*arguments, "--retries", "1", "--format", "json")
    (line,) = [line for line in done.stderr.splitlines() if "attempt 0 failed" in line]
    assert ECC in line and done.returncode == 4
    listed = json.loads(trainings.llmbx("jobs", "--format", "json"))
    folder = Path(json.loads(trainings.llmbx("status", listed[0]["run_id"], "--format", "json"))["log"]).parent
    result = json.loads((folder / "result.json").read_text())
    assert (result["attempt"], result["cause_rank"], result["cause_node"]) == (1, 1, "n4")
    assert ECC in result["cause"]
    assert any(warning.startswith("attempt 1 could not be started: ") for warning in result["warnings"])
