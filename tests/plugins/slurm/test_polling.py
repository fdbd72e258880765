"""How often a followed job is asked for: often around changes, seldom otherwise. The guide has the figures."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from llmbx.api import Unreachable
from llmbx_slurm.launcher import SlurmLauncher
from llmbx_slurm.pending import Pending
from llmbx_slurm.state import Queue

from .test_state import JOB, FakeSlurm, write_exit

RPCS = {"squeue": 3, "scontrol": 2, "sacct": 0}
"""Requests to the controller of one command for one job (Slurm 22.05, `sdiag`): the job, the partitions or none, the
federation. sacct asks slurmdbd."""
HOUR = 3600
PENDING, RUNNING = "PENDING|N/A|N/A||Priority", "RUNNING|100|N/A|n1|None"


class Followed:
    """A job whose status is asked for every two seconds, as `llmbx run` does."""

    def __init__(self, folder: Path) -> None:
        self.slurm, self.launcher, self.folder = FakeSlurm(), SlurmLauncher(), folder
        self.launcher._queue = Queue(self.slurm, lambda: self.slurm.clock)
        self.launcher._pending = Pending(self.slurm, lambda: self.slurm.clock)

    def follow(self, state: str, seconds: int) -> int:
        """The requests in this time, in which the job has this state."""
        self.slurm.queue["7"] = state
        self.slurm.asked.clear()
        end = self.slurm.clock + seconds
        while self.slurm.clock < end:
            self.launcher.status(JOB, self.folder)
            self.slurm.clock += self.launcher.poll_s
        return sum(RPCS[command[0]] for command in self.slurm.asked)


@pytest.fixture
def followed(tmp_path: Path) -> Followed:
    return Followed(tmp_path)


def test_the_requests_of_an_hour_are_those_in_the_guide(followed: Followed) -> None:
    first, later = followed.follow(PENDING, HOUR), followed.follow(PENDING, HOUR)
    started = followed.follow(RUNNING, HOUR)
    said = (
        f"{first} requests to the controller in its first hour, {later} in every later hour in which its state does "
        f"not change, and {started} in the hour after its start"
    )
    assert said in " ".join((Path(__file__).parents[3] / "docs" / "guide.md").read_text().split())


def test_a_change_is_seen_within_seconds(followed: Followed) -> None:
    followed.follow(PENDING, HOUR)
    (followed.folder / "sbatch_x.out").write_text("started")  # long before the next query is due
    followed.slurm.queue["7"] = RUNNING
    assert followed.launcher.status(JOB, followed.folder).state == "running"
    followed.follow(RUNNING, HOUR)
    write_exit(followed.folder, exit_code=3)
    followed.slurm.queue["7"] = "TIMEOUT|100|110|n1|None"
    assert followed.launcher.status(JOB, followed.folder).verdict == "timeout"


def test_a_cancelled_job_is_asked_for_at_once(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llmbx_slurm.launcher.call", lambda *command: "")
    followed.follow(PENDING, HOUR)
    followed.launcher.cancel_pending(JOB, followed.folder)
    followed.slurm.queue["7"] = "CANCELLED|100|100||None"
    assert followed.launcher.status(JOB, followed.folder).verdict == "cancelled"


def test_one_scontrol_serves_a_pending_job(followed: Followed) -> None:
    followed.follow("PENDING|N/A|N/A||PartitionTimeLimit", HOUR)
    assert followed.slurm.count("scontrol") == 1


def test_a_controller_that_is_away_is_asked_once_a_minute(followed: Followed) -> None:
    followed.follow(RUNNING, 60)
    followed.slurm.silent = True
    followed.slurm.asked.clear()
    for _ in range(HOUR // 2):
        with suppress(Unreachable):
            followed.launcher.status(JOB, followed.folder)
        followed.slurm.clock += 2
    assert followed.slurm.count("squeue") <= 70
