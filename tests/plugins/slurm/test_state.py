"""Job states from squeue and sacct: batches, caching, an unreachable controller, and messages of srun."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from llmbx.errors import InfraError, Unreachable
from llmbx.model import Job
from llmbx_slurm.commands import environment, hint_for, message
from llmbx_slurm.evidence import find_evidence
from llmbx_slurm.launcher import SlurmLauncher
from llmbx_slurm.state import Queue


class FakeSlurm:
    """Emulates Slurm's commands with two tables, and records the calls."""

    def __init__(self) -> None:
        self.queue: dict[str, str] = {}
        self.accounts: dict[str, str] = {}
        self.codes: dict[str, str] = {}
        self.accounting = True
        self.silent = False
        self.asked: list[tuple[str, ...]] = []
        self.clock = 0.0

    def __call__(self, *command: str) -> str:
        self.asked.append(command)
        if self.silent:
            raise Unreachable(f"{command[0]}: Unable to contact slurm controller (connect failure)")
        ids = next((part.partition("=")[2].split(",") for part in command if part.startswith("--jobs=")), [command[-1]])
        if command[0] == "squeue":
            if len(ids) == 1 and ids[0] not in self.queue:
                raise InfraError("squeue: slurm_load_jobs error: Invalid job id specified")
            return "".join(f"{job}|{self.queue[job]}\n" for job in ids if job in self.queue)
        if command[0] == "scontrol":
            return f"JobId={ids[0]} JobState=X ExitCode={self.codes.get(ids[0], '0:0')} RunTime=0\n"
        if not self.accounting:
            raise InfraError("sacct: Slurm accounting storage is disabled")
        return "".join(f"{job}|{self.accounts[job]}\n" for job in ids if job in self.accounts)

    def count(self, command: str) -> int:
        return sum(asked[0] == command for asked in self.asked)


@pytest.fixture
def slurm() -> FakeSlurm:
    return FakeSlurm()


@pytest.fixture
def queue(slurm: FakeSlurm) -> Queue:
    return Queue(slurm, lambda: slurm.clock)


def test_many_jobs_are_asked_for_in_one_question(slurm: FakeSlurm, queue: Queue) -> None:
    ids = [str(number) for number in range(1, 501)]
    slurm.queue = dict.fromkeys(ids, "RUNNING|100|N/A|n1|None")
    queue.watch(ids)
    assert all((queue.state(job) or pytest.fail(job)).name == "RUNNING" for job in ids)
    assert slurm.count("squeue") == 1 and len(slurm.asked) == 1
    slurm.clock = 10.0
    slurm.asked.clear()
    assert all(queue.state(job) is not None for job in ids)
    assert slurm.count("squeue") == 1 and len(slurm.asked) == 1


def test_jobs_that_are_watched_later_are_asked_for_at_once_and_together(slurm: FakeSlurm, queue: Queue) -> None:
    slurm.queue = dict.fromkeys(("1", "2", "3"), "RUNNING|100|N/A|n1|None")
    queue.state("1")
    queue.watch(["1", "2", "3"])
    assert [state.name for job in ("2", "3", "1") if (state := queue.state(job))] == ["RUNNING"] * 3
    assert slurm.count("squeue") == 2


def test_ended_jobs_cost_no_question_each(slurm: FakeSlurm, queue: Queue) -> None:
    ids = [str(number) for number in range(1, 501)]
    slurm.queue = dict.fromkeys(ids, "COMPLETED|100|110|n1|None")
    queue.watch(ids)
    assert all((queue.state(job) or pytest.fail(job)).name == "COMPLETED" for job in ids)
    assert len(slurm.asked) == 1


def test_very_many_jobs_fit_on_the_command_line(slurm: FakeSlurm, queue: Queue) -> None:
    ids = [str(number) for number in range(10_000_001, 10_025_001)]
    slurm.queue = dict.fromkeys(ids, "RUNNING|100|N/A|n1|None")
    queue.watch(ids)
    assert all(queue.state(job) is not None for job in ids)
    assert max(len(part) for command in slurm.asked for part in command) < 128 * 1024
    assert slurm.count("squeue") == 13


def test_an_answer_is_kept_for_a_moment_and_an_end_for_good(slurm: FakeSlurm, queue: Queue) -> None:
    slurm.queue["7"] = "PENDING|N/A|N/A||Resources"
    state = queue.state("7")
    assert state is not None and (state.name, state.reason, state.started) == ("PENDING", "Resources", None)
    slurm.queue["7"] = "FAILED|100|110|n1|NonZeroExitCode"
    slurm.codes["7"] = "5:0"
    slurm.clock = 1.9
    assert queue.state("7") is state
    slurm.clock = 2.1
    assert queue.state("7") is not None
    ended = queue.with_exit("7")
    assert ended is not None and (ended.name, ended.exit_code, ended.started, ended.ended) == ("FAILED", 5, 100, 110)
    slurm.clock = 1000.0
    asked = len(slurm.asked)
    assert queue.state("7") is ended and queue.with_exit("7") is ended and len(slurm.asked) == asked


@pytest.mark.parametrize(
    ("row", "name", "code"),
    [
        ("COMPLETED|100|110|n1|0:0", "COMPLETED", 0),
        ("FAILED|100|110|n1|3:0", "FAILED", 3),
        ("CANCELLED by 1000|100|110|n1|0:15", "CANCELLED", 143),
        ("TIMEOUT|100|110|n1|0:0", "TIMEOUT", None),
        ("OUT_OF_MEMORY|100|110|n1|0:125", "OUT_OF_MEMORY", None),
        ("NODE_FAIL|100|110|n[1-2]|0:0", "NODE_FAIL", None),
    ],
)
def test_what_the_controller_forgot_accounting_remembers(
    slurm: FakeSlurm, queue: Queue, row: str, name: str, code: int | None
) -> None:
    slurm.accounts["7"] = row
    state = queue.state("7")
    assert state is not None and (state.name, state.exit_code, state.live) == (name, code, False)


def test_without_accounting_a_forgotten_job_is_unknown(slurm: FakeSlurm, queue: Queue) -> None:
    slurm.accounting = False
    assert queue.state("7") is None
    slurm.clock = 10.0
    assert queue.state("7") is None
    assert slurm.count("sacct") == 1


def test_accounts_that_do_not_answer_are_no_end(slurm: FakeSlurm, queue: Queue, tmp_path: Path) -> None:
    def call(*command: str) -> str:
        if command[0] == "sacct":
            raise Unreachable("sacct: error: Problem talking to the database: Connection refused")
        return slurm(*command)

    queue._call = call
    launcher = SlurmLauncher()
    launcher._queue = queue
    with pytest.raises(Unreachable, match="Problem talking to the database"):
        launcher.status(JOB, tmp_path)
    write_exit(tmp_path, exit_code=4)
    assert launcher.status(JOB, tmp_path).exit_code == 4
    (tmp_path / "exit.json").unlink()
    slurm.accounts["7"] = "TIMEOUT|100|110|n1|0:0"
    queue._call, slurm.clock = slurm, 30.0
    assert launcher.status(JOB, tmp_path).verdict == "timeout"


def test_a_silent_controller_is_left_alone_for_a_while(slurm: FakeSlurm, queue: Queue) -> None:
    slurm.queue["7"] = "RUNNING|100|N/A|n1|None"
    queue.state("7")
    slurm.silent, slurm.clock = True, 5.0
    for _ in range(3):
        with pytest.raises(Unreachable):
            queue.state("7")
    assert slurm.count("squeue") == 2
    slurm.silent, slurm.clock = False, 16.0
    assert queue.state("7") is not None


def test_jobs_of_another_cluster_are_asked_for_there(slurm: FakeSlurm, queue: Queue) -> None:
    slurm.queue = {"7": "RUNNING|100|N/A|n1|None", "8": "RUNNING|100|N/A|n1|None"}
    assert queue.state("7;east") is not None and queue.state("8") is not None
    assert "--clusters=east" in slurm.asked[0] and "--clusters=east" not in slurm.asked[-1]


def launcher_with(slurm: FakeSlurm) -> SlurmLauncher:
    launcher = SlurmLauncher()
    launcher._queue = Queue(slurm, lambda: slurm.clock)
    return launcher


def write_exit(folder: Path, **members: object) -> None:
    said = {"exit_code": 0, "started": 100.0, "ended": 110.0, "job_id": "7", "host": "n1", **members}
    (folder / "exit.json").write_text(json.dumps(said))


JOB = Job(launcher="slurm", job_id="7", submitted=1.0)
KILLED = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.\n"
LIMIT = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT x DUE TO TIME LIMIT ***"
TASK = "srun: error: n2: task 3: Out Of Memory\n"


def test_a_node_whose_clock_was_set_back_did_not_end_before_it_started(slurm: FakeSlurm, tmp_path: Path) -> None:
    slurm.accounts["7"] = "COMPLETED|5000|5010|n1|0:0"
    clock = {"boot_id": "b", "started": 50.0, "ended": 60.0}
    write_exit(tmp_path, started=5001.0, ended=5011.0 - 3600, since_boot=clock)
    status = launcher_with(slurm).status(JOB, tmp_path)
    assert (status.exit_code, status.reason) == (0, "")


@pytest.mark.parametrize(
    ("state", "said", "output", "expected"),
    [
        ("COMPLETED", {}, "", ("ended", 0, None, None, "")),
        ("FAILED", {"exit_code": 7, "rank": 2, "node": "n2"}, "", ("ended", 7, None, 2, "on node n2")),
        ("TIMEOUT", {"exit_code": 143, "signal": "TERM"}, "", ("ended", 143, "timeout", None, "TIMEOUT")),
        ("CANCELLED", {"exit_code": 143, "signal": "TERM"}, "", ("ended", 143, "cancelled", None, "CANCELLED")),
        ("PREEMPTED", {"exit_code": 143, "signal": "TERM"}, "", ("ended", 143, "preempted", None, "PREEMPTED")),
        ("CANCELLED", {"exit_code": 0}, "", ("ended", 0, "cancelled", None, "CANCELLED")),
        ("OUT_OF_MEMORY", {"exit_code": 1}, KILLED + TASK,
         ("ended", 1, "out_of_memory", 3, "OUT_OF_MEMORY; node n2: Out Of Memory")),
        ("FAILED", {"exit_code": 1}, KILLED + TASK, ("ended", 1, "out_of_memory", 3, "node n2: Out Of Memory")),
        ("NODE_FAIL", None, "srun: error: Node failure on n2\n",
         ("ended", None, "node_fail", None, "NODE_FAIL; node n2: the node failed")),
        ("NODE_FAIL", None, "", ("ended", None, "node_fail", None, "NODE_FAIL on one of n[1-2]")),
        ("BOOT_FAIL", None, "", ("ended", None, "node_fail", None, "BOOT_FAIL on one of n[1-2]")),
        ("DEADLINE", {"exit_code": 143, "signal": "TERM"}, "", ("ended", 143, "timeout", None, "DEADLINE")),
        (None, {"exit_code": 143, "signal": "TERM"}, LIMIT,
         ("ended", 143, "timeout", None, "stopped by SIGTERM")),
        (None, {"exit_code": 0}, "", ("ended", 0, None, None, "")),
        (None, None, "",
         ("lost", None, None, None, "the job is unknown to Slurm, and the script did not write exit.json")),
        (None, None, "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT x DUE TO PREEMPTION ***",
         ("ended", None, "preempted", None, "")),
        ("RUNNING", {"exit_code": 0}, "", ("ended", 0, None, None, "")),
        ("RUNNING", None, "", ("running", None, None, None, "running")),
        ("PENDING", None, "", ("pending", None, None, None, "pending")),
    ],
)  # fmt: skip
def test_the_evidence_is_weighed(
    slurm: FakeSlurm,
    tmp_path: Path,
    state: str | None,
    said: dict[str, object] | None,
    output: str,
    expected: tuple[object, ...],
) -> None:
    if state:
        slurm.queue["7"] = f"{state}|100|110|n[1-2]|None"
    if said is not None:
        write_exit(tmp_path, **said)
    path = tmp_path / "sbatch_x.out"
    path.write_text(output)
    os.utime(path, (1.0, 1.0))
    status = launcher_with(slurm).status(JOB, tmp_path)
    assert (status.state, status.exit_code, status.verdict, status.rank, status.reason) == expected


INSIDE = JOB.replace(process="999999999-1")
FAILED = {"exit_code": 143, "ended": 110.0}


@pytest.mark.parametrize(
    ("queue", "said", "host", "expected"),
    [
        ("TIMEOUT|1|112|n1|None", FAILED, None, ("ended", "timeout", "TIMEOUT")),
        ("CANCELLED|1|5000|n1|None", FAILED, None, ("ended", None, "")),  # long after the run had ended
        ("COMPLETED|1|112|n1|None", FAILED, None, ("ended", None, "")),
        ("COMPLETING|1|N/A|n1|None", FAILED, None, ("running", None, "the allocation is ending")),
        ("TIMEOUT|1|112|n1|None", {"exit_code": 0, "ended": 110.0}, None, ("ended", None, "")),
        ("NODE_FAIL|1|112|n1|None", None, None, ("ended", "node_fail", "NODE_FAIL on one of n1")),
        ("RUNNING|1|N/A|n1|None", None, None, ("lost", None, "its script ended without writing exit.json")),
        ("RUNNING|1|N/A|n1|None", None, "login2", ("running", None, "runs on login2")),
        ("COMPLETED|1|112|n1|None", None, "login2",
         ("lost", None, "the allocation has ended, but the script did not write exit.json")),
        (None, None, "login2", ("lost", None, "the allocation has ended, but the script did not write exit.json")),
    ],
)  # fmt: skip
def test_a_run_inside_an_allocation_is_not_the_allocation(
    slurm: FakeSlurm,
    tmp_path: Path,
    queue: str | None,
    said: dict[str, object] | None,
    host: str | None,
    expected: tuple[object, ...],
) -> None:
    if queue:
        slurm.queue["7"] = queue
    if said is not None:
        write_exit(tmp_path, **said)
    if host:
        (tmp_path / "local.json").write_text(json.dumps({"host": host, "boot_id": "x"}))
    status = launcher_with(slurm).status(INSIDE, tmp_path)
    assert (status.state, status.verdict, status.reason) == expected


def test_a_word_of_another_job_in_the_folder_does_not_count(slurm: FakeSlurm, tmp_path: Path) -> None:
    write_exit(tmp_path, job_id="6", exit_code=9)
    slurm.queue["7"] = "RUNNING|100|N/A|n1|None"
    assert launcher_with(slurm).status(JOB, tmp_path).state == "running"


def test_the_word_of_an_earlier_start_does_not_count_for_a_requeued_job(slurm: FakeSlurm, tmp_path: Path) -> None:
    write_exit(tmp_path, exit_code=143, signal="TERM")
    (tmp_path / "sbatch_x.out").write_text("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT x DUE TO JOB REQUEUE ***")
    slurm.queue["7"] = "FAILED|300|300|n1|NonZeroExitCode"
    slurm.codes["7"] = "1:0"
    status = launcher_with(slurm).status(JOB, tmp_path)
    assert (status.state, status.exit_code, status.verdict) == ("ended", 1, None)
    assert status.reason == "FAILED: requeued, but the script did not start again"
    slurm.queue["7"] = "FAILED|130|140|n1|NonZeroExitCode"  # clocks that are not quite the same
    assert launcher_with(slurm).status(JOB, tmp_path).exit_code == 143


def test_silence_is_not_an_end(slurm: FakeSlurm, tmp_path: Path) -> None:
    launcher = launcher_with(slurm)
    slurm.queue["7"] = "RUNNING|100|N/A|n1|None"
    launcher.status(JOB, tmp_path)
    slurm.silent, slurm.clock = True, 5.0
    with pytest.raises(Unreachable):
        launcher.status(JOB, tmp_path)
    write_exit(tmp_path, exit_code=4)
    assert launcher.status(JOB, tmp_path).exit_code == 4
    (tmp_path / "exit.json").unlink()
    with pytest.raises(Unreachable):
        launcher_with(slurm).status(JOB, tmp_path)


@pytest.mark.parametrize("words", ["Access/permission denied", "no such words in any list", "Unable to contact slurm"])
def test_no_failure_of_squeue_ends_a_job(slurm: FakeSlurm, words: str) -> None:
    def fail(*command: str) -> str:
        raise InfraError(f"squeue: {words}")

    with pytest.raises(Unreachable, match=words):
        Queue(fail, lambda: slurm.clock).state("7")


@pytest.mark.parametrize(
    "text", ["\0\ufffd\n|||", "7|RUNN", "7|WELCOME|1|2|3|4", "Traceback (most recent call last):\n  File"]
)
def test_damaged_output_is_not_the_state_of_a_job(slurm: FakeSlurm, text: str) -> None:
    with pytest.raises(Unreachable, match="squeue printed something else than the states of jobs"):
        Queue(lambda *command: text, lambda: slurm.clock).state("7")


def test_a_banner_beside_the_states_does_no_harm(slurm: FakeSlurm) -> None:
    text = "Welcome\n7|RUNNING|100|N/A|n1|None\n"
    state = Queue(lambda *command: text, lambda: slurm.clock).state("7")
    assert state is not None and state.name == "RUNNING"


def test_accounting_that_fails_once_is_asked_again(slurm: FakeSlurm) -> None:
    """A job that the controller has purged meanwhile is not lost because of it."""
    answers = iter(["sacct: Problem with the weather", None])

    def unlucky(*command: str) -> str:
        if command[0] == "sacct" and (words := next(answers)):
            raise InfraError(words)
        return slurm(*command)

    queue = Queue(unlucky, lambda: slurm.clock)
    slurm.accounts["7"] = "FAILED|100|110|n1|5:0"
    with pytest.raises(Unreachable, match="weather"):
        queue.state("7")
    slurm.clock = 100.0
    state = queue.state("7")
    assert state is not None and state.exit_code == 5


def test_a_job_that_was_just_seen_is_not_lost_by_one_empty_answer(slurm: FakeSlurm, tmp_path: Path) -> None:
    slurm.accounting = False
    launcher = launcher_with(slurm)
    slurm.queue["7"] = "RUNNING|100|N/A|n1|None"
    launcher.status(JOB, tmp_path)
    (job,) = slurm.queue.items()
    slurm.queue.clear()
    slurm.clock = 10.0
    assert launcher.status(JOB, tmp_path).state == "running"
    slurm.queue |= [job]
    slurm.clock = 20.0
    assert launcher.status(JOB, tmp_path).reason == "running"
    slurm.queue.clear()
    for slurm.clock in range(30, 70, 2):
        status = launcher.status(JOB, tmp_path)
    assert status.state == "lost"


@pytest.mark.parametrize(("host", "where"), [("n2", "n2"), ("", "one of n[1-2]")])
def test_an_output_that_the_node_could_not_open_is_named(
    slurm: FakeSlurm, tmp_path: Path, host: str, where: str
) -> None:
    slurm.queue["7"] = "FAILED|100|100|n[1-2]|JobLaunchFailure"
    slurm.codes["7"] = f"0:53 BatchHost={host}" if host else "0:53"
    status = launcher_with(slurm).status(JOB, tmp_path)
    assert status.reason == f"{where} could not open the job's output ({tmp_path} is not visible or not writable there)"
    assert (status.state, status.exit_code, status.verdict) == ("ended", 4, "not_started")
    assert status.node == (host or None)


@pytest.mark.parametrize(
    ("text", "rank", "node"),
    [
        ("srun: error: n2: task 5: Exited with exit code 7\nsrun: error: n1: tasks 0-3: Terminated\n", 5, "n2"),
        ("srun: error: gpu-01: tasks 0,2-3: Exited with exit code 1\n", None, "gpu-01"),
        ("srun: error: node.cluster: task 0: Segmentation fault (core dumped)\n", 0, "node.cluster"),
        ("x llmbx: starts as 7 on n1\nsrun: error: n1: task 1: Killed\nx llmbx: starts as 7 on n2\n", None, None),
    ],
)
def test_which_rank_failed_first(text: str, rank: int | None, node: str | None) -> None:
    found = find_evidence(text)
    assert (found.rank, found.node) == (rank, node)


def test_a_step_that_srun_could_not_make_is_told_in_its_words() -> None:
    text = (
        "srun: error: MPI: Unable to load any plugin\n"
        "srun: error: Invalid MPI type 'pmix', --mpi=list for acceptable types\n"
        "2026-11-21T17:33:37+0000 llmbx: ended with exit code 1\n"
    )
    assert find_evidence(text).what == "srun: Invalid MPI type 'pmix', --mpi=list for acceptable types"
    assert find_evidence("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT x ***\n" + text).what == ""


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("sbatch: error: GPUs not found\n", "SBATCH_GPUS_PER_NODE"),
        ("sbatch: unrecognized option '--segment=16'\nTry \"sbatch --help\"\n", "--slurm-segment none"),
        ("sbatch: error: Batch job submission failed: Requested topology configuration is not available",
         "scontrol show topology"),
        ("sbatch: error: Cannot submit to this partition without GPU resources", "SBATCH_GRES"),
        ("sbatch: error: Batch job submission failed: Invalid generic resource (gres) specification", "no such GRES"),
        ("sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified",
         "account=NAME"),
        ("sbatch: error: Batch job submission failed: Invalid qos specification", "qos=NAME"),
        ("sbatch: error: QOSMaxNodePerUserLimit\nsbatch: error: Batch job submission failed: "
         "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
         "a limit of your QOS or account"),
        ("sbatch: error: Batch job submission failed: Requested time limit is invalid (missing or exceeds some limit)",
         "time=HH:MM:SS"),
    ],
)  # fmt: skip
def test_errors_of_sbatch_say_what_would_be_right(text: str, hint: str) -> None:
    assert hint in (hint_for(text) or "")
    assert not message(text).startswith("sbatch") and "\n" not in message(text)


def test_a_surrounding_job_is_not_handed_down() -> None:
    found = environment({"SLURM_JOB_ID": "1", "SLURM_CONF": "/c", "SBATCH_QOS": "x", "LLMBX_RANK": "3", "LLMB_X": "y"})
    assert found == {"SLURM_CONF": "/c", "LLMB_X": "y", "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C.UTF-8"}


HELD = "CANCELLED|1795655900|1795655900||JobHeldUser"
ACCOUNT = "CANCELLED by 1000|1795655900|1795655900|None assigned|0:0"


@pytest.mark.parametrize(
    ("queue", "account", "reason"),
    [(HELD, None, "CANCELLED before it started"), (None, ACCOUNT, "CANCELLED by 1000 before it started")],
)
def test_a_job_that_was_cancelled_while_it_was_pending_never_started(
    slurm: FakeSlurm, tmp_path: Path, queue: str | None, account: str | None, reason: str
) -> None:
    """Slurm has the end of such a job as its start."""
    slurm.queue |= {"7": queue} if queue else {}
    slurm.accounts |= {"7": account} if account else {}
    status = launcher_with(slurm).status(JOB, tmp_path)
    assert (status.state, status.verdict, status.reason) == ("ended", "cancelled", reason)
    assert (status.started, status.ended) == (None, 1795655900.0)


NEVER = "CANCELLED|1795655900|1795655900||DependencyNeverSatisfied"


def test_a_cancelled_job_that_could_never_start_says_why(slurm: FakeSlurm, tmp_path: Path) -> None:
    """Slurm cancels such jobs itself with --kill-on-invalid-dep; the end of a pending job is also its start."""
    slurm.queue["7"] = NEVER
    status = launcher_with(slurm).status(JOB, tmp_path)
    assert (status.state, status.exit_code, status.verdict, status.started) == ("ended", 4, "not_started", None)
    assert status.reason.startswith("job 7 was cancelled: it can never start (DependencyNeverSatisfied): the job that")


def test_the_reason_is_kept_when_only_accounting_knows_the_job(slurm: FakeSlurm, tmp_path: Path) -> None:
    launcher = launcher_with(slurm)
    slurm.queue["7"] = "PENDING|N/A|N/A||DependencyNeverSatisfied"
    assert launcher.status(JOB, tmp_path).state == "pending"
    slurm.queue.clear()
    slurm.accounts["7"], slurm.clock = ACCOUNT, 100.0
    status = launcher.status(JOB, tmp_path)
    assert (status.verdict, status.exit_code) == ("not_started", 4) and "DependencyNeverSatisfied" in status.reason
