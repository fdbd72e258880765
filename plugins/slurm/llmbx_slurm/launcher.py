"""The Slurm launcher: submits the rendered script, and tells from queue, accounting and files how it stands."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from llmbx.errors import InfraError, UsageError
from llmbx.launchers import detached
from llmbx.launchers.base import Unreachable
from llmbx.launchers.exits import Exit, exit_status, forget_exit, read_exit
from llmbx.model import Finding, Job, JobStatus, Launch, RunSpec, Wrapping
from llmbx.model.launch import PREFLIGHT
from llmbx.secrets import is_secret

from . import render, time_limit
from .allocation import JOB
from .evidence import Evidence, read_evidence, read_step_evidence
from .find import find_jobs
from .params import check_params, check_srun
from .settings import sbatch_options, srun_options, with_option
from .state import PENDING, VERDICTS, Queue, SlurmState
from .tools import call, environment

SETTLE_S = 30.0
"""How long after the job's last sign of life its disappearance is not believed: accounting and shared folders lag."""

TOGETHER_S = 60.0
"""A run inside an allocation that failed so shortly before or after the allocation's end failed because of it."""

CLOCKS_S = 60.0
"""How far the clocks of a node and of the controller may be apart. A requeued job waits longer than that by itself."""

ON_NODE = ("account", "partition", "qos", "reservation", "constraint", "time")
"""Options of sbatch that a command on a single node takes over."""

STOPPED = ("cancelled", "timeout", "preempted")
"""Verdicts on jobs that were stopped from outside: what their ranks said while they were is no cause."""


class SlurmLauncher:
    """Starts the ranks as tasks of one srun a phase, inside a job submitted with sbatch."""

    name = "slurm"
    summary = "a job submitted with sbatch, one srun a phase"
    flag_syntax = "srun"
    remote = True
    checks_nodes = True
    attended = False
    poll_s = 2.0

    def __init__(self) -> None:
        self._queue = Queue()

    def available(self) -> str | None:
        """Why no job can be submitted here, or None."""
        return None if shutil.which("sbatch") else "sbatch is not on PATH: this machine is not part of a Slurm cluster"

    def inside(self, spec: RunSpec) -> SlurmLauncher:
        """The launcher for where llmbx runs: inside an allocation its steps are used, and nothing is submitted.

        Raises `UsageError` for an allocation that is too small or has ended.
        """
        from .inside import inside

        return inside(spec) or self

    def claims(self, nodes: int, on_gpus: bool, environ: Mapping[str, str]) -> str | None:
        """A run inside a job, of several nodes, or on GPUs that this machine does not have is Slurm's."""
        if environ.get(JOB) and shutil.which("srun"):
            return f"inside Slurm job {environ[JOB]}"
        if nodes > 1:
            return "the run takes several nodes"
        if on_gpus and shutil.which("sbatch") and not shutil.which("nvidia-smi"):
            return "no GPU on this machine, and Slurm is there"
        return None

    def check_spec(self, spec: RunSpec, environ: Mapping[str, str]) -> None:
        """Raise `UsageError` for options that no script can carry; those of sbatch do not count inside a job."""
        check_srun(srun_options(spec), f"cluster '{spec.cluster}'")
        if not environ.get(JOB):
            check_params(sbatch_options(spec), spec.origins)

    def time_limit(self, settings: Mapping[str, Any], origins: Mapping[str, str]) -> tuple[int | None, str] | None:
        """The time limit among the options of sbatch, in minutes (None: no limit), and its origin."""
        text = settings.get("sbatch", {}).get("time")
        if text is None:
            return None
        origin = f"sbatch option time={text} ({origins['slurm.sbatch.time']})"
        try:
            return time_limit.minutes(text), origin
        except ValueError as error:
            raise UsageError(f"{origin}: {error}") from None

    def without_node(self, spec: RunSpec, node: str) -> RunSpec | None:
        """The specification that leaves this node out; None where nodes were asked for by name."""
        given = sbatch_options(spec)
        if "nodelist" in given:
            return None
        origin = "; ".join(filter(None, (spec.origins.get("slurm.sbatch.exclude"), f"{node} failed")))
        return with_option(spec, "exclude", ",".join(filter(None, (given.get("exclude"), node))), origin)

    def run_on_node(self, argv: Sequence[str], name: str, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """srun with one task on one node that runs `argv` there, and waits for its end. Raises `InfraError`."""
        if not shutil.which("srun"):
            raise InfraError("srun is not on PATH: this machine cannot reach a compute node; use --launcher local")
        given = settings.get("sbatch", {})
        options = [f"--{option}={given[option]}" for option in ON_NODE if given.get(option)]
        return ("srun", "--nodes=1", "--ntasks=1", f"--job-name={name}", *options, *argv)

    def check(self, install: Path) -> Finding | None:
        """Ask the controller for its partitions (for `llmbx doctor`); a finding when it does not answer or has none."""
        if reason := self.available():
            return _finding(reason, "install Slurm's client, or use --launcher local", absent=True)
        try:
            up = call("sinfo", "--noheader", "--format=%P %a", timeout_s=10).count(" up")
        except InfraError as error:
            said = str(error).split("; ")
            if any("configuration source" in part for part in said):
                fix = "set SLURM_CONF to a cluster's slurm.conf, or use --launcher local"
                return _finding("Slurm's client is here, and no cluster is configured for it", fix, absent=True)
            return _finding(said[0], "see `scontrol ping`")
        return None if up else _finding("no partition is up", "see `sinfo -s`")

    def render(self, spec: RunSpec, launch: Launch, wrappings: tuple[Wrapping, ...], run_dir: Path) -> str:
        """The sbatch script. Raises `UsageError` for options that it cannot carry."""
        return render.render(spec, launch, wrappings, run_dir)

    def submit(self, script: Path, spec: RunSpec, run_dir: Path) -> Job:
        """Submit the script; the submitting shell's variables go with it. Raises `InfraError`, with a hint."""
        forget_exit(run_dir)
        variables = submitted_environment(spec)
        printed = call("sbatch", "--parsable", str(script), cwd=str(run_dir), environ=variables, timeout_s=300)
        job_id = printed.strip().splitlines()[-1].strip() if printed.strip() else ""
        if not job_id.partition(";")[0].isdigit():
            raise InfraError(f"sbatch: expected a job id, got {printed.strip()!r}")
        return Job(launcher=self.name, job_id=job_id, submitted=time.time())

    def status(self, job: Job, run_dir: Path) -> JobStatus:
        """How the job stands: Slurm's word, the script's last word, and what srun wrote, in this order of trust."""
        if job.process is not None:
            return self._beside(job, job.process, run_dir)
        try:
            state = self._queue.look(job.job_id)
        except Unreachable as error:
            return self._unreachable(job, run_dir, error)
        end = _last_word(job, run_dir)  # after the queue: a job that it calls ended has had its last word
        if state is not None and state.live and not (end is not None and end.exit_code == 0):
            where = f"{state.word.lower()}: {state.reason}" if state.reason else state.word.lower()
            pending = state.word in PENDING
            return JobStatus(
                state="pending" if pending else "running", reason=where, started=None if pending else state.started
            )
        if end is not None and state is not None and _is_older(end, state):
            return _never_began(self._queue.with_exit(job.job_id) or state)
        if end is None:  # only then is the exit code worth a question of its own
            state = self._queue.with_exit(job.job_id)
        return _ended(job, run_dir, None if state and state.live else state, end)

    def watch(self, jobs: Sequence[Job]) -> None:
        """Ask for all these jobs at once, when the next of them is asked for."""
        self._queue.watch(job.job_id for job in jobs)

    def find(self, runs: Mapping[Path, RunSpec]) -> dict[Path, Job]:
        """The jobs of these run folders: by what their scripts left there, else by the folder that Slurm has noted."""
        return find_jobs(runs)

    def cancel(self, job: Job, run_dir: Path) -> None:
        """Cancel the job; Slurm sends TERM, and KILL after its own grace.

        Inside an allocation only the run's steps end.
        """
        if job.process is not None:
            detached.stop(job.process, run_dir)
            return
        number, _, cluster = job.job_id.partition(";")
        call("scancel", *([f"--clusters={cluster}"] if cluster else []), number)

    def dump_stacks(self, job: Job, run_dir: Path) -> None:
        """Send SIGUSR1 to every rank (not to the script)."""
        if job.process is not None:
            detached.dump_stacks(job.process, run_dir)
            return
        number, _, cluster = job.job_id.partition(";")
        call("scancel", *([f"--clusters={cluster}"] if cluster else []), "--signal=USR1", number)

    def _beside(self, job: Job, process: str, run_dir: Path) -> JobStatus:
        """How a run inside an allocation stands; the allocation's own end counts where its script left no word."""
        end = _last_word(job, run_dir)
        if end is not None:
            return self._beside_ended(job, run_dir, end)
        status = detached.status(process, run_dir, job.submitted)
        if status.state == "running" and not status.reason:
            return status
        try:
            state = self._queue.look(job.job_id)
        except Unreachable:
            return status
        if state is not None and state.word in VERDICTS:
            return _ended(job, run_dir, state, None)
        if status.state == "running" and (state is None or not state.live):
            return JobStatus(state="lost", reason="its allocation has ended, and its script left no word")
        return status

    def _beside_ended(self, job: Job, run_dir: Path, end: Exit) -> JobStatus:
        """The end of a run inside an allocation, which counts as the run's where both ended together."""
        try:
            state = self._queue.look(job.job_id) if end.exit_code else None
        except Unreachable:
            state = None
        if state is not None and state.word == "COMPLETING":
            return JobStatus(state="running", reason="its allocation is ending", started=end.started)
        together = state is not None and state.ended is not None and abs(state.ended - end.ended) < TOGETHER_S
        return _ended(job, run_dir, state if together and state and state.word in VERDICTS else None, end)

    def _unreachable(self, job: Job, run_dir: Path, error: Unreachable) -> JobStatus:
        end = _last_word(job, run_dir)
        if end is not None:
            return _ended(job, run_dir, None, end)
        known = self._queue.last(job.job_id)
        if known is None:
            raise error
        reason = f"last seen {known.word.lower()}; {error}"
        return JobStatus(state="pending" if known.word in PENDING else "running", reason=reason, started=known.started)


def submitted_environment(spec: RunSpec) -> dict[str, str]:
    """The variables that a run's script starts with: this shell's but for those of a job around it, and its secrets."""
    variables = {**environment(), **{name: value for name, value in spec.env.items() if is_secret(name)}}
    variables.pop("SLURM_TIME_FORMAT")
    return variables


def _finding(problem: str, fix: str, absent: bool = False) -> Finding:
    return Finding(rule="launcher slurm", problem=problem, fix=fix, warning=absent)


def _last_word(job: Job, run_dir: Path) -> Exit | None:
    """What the job's own script left; not what an earlier job left in the same folder."""
    end = read_exit(run_dir)
    return end if end is not None and end.job_id == job.job_id.partition(";")[0] else None


def _is_older(end: Exit, state: SlurmState) -> bool:
    """Whether the script's word is of a start before the one that Slurm tells of: the job was requeued."""
    return not state.live and state.started is not None and end.ended < state.started - CLOCKS_S


def _never_began(state: SlurmState) -> JobStatus:
    """The end of a requeued job whose script never ran again: what lies in its folder is the earlier start's."""
    return JobStatus(
        state="ended", exit_code=state.exit_code, started=state.started, ended=state.ended,
        verdict=VERDICTS.get(state.word), reason=f"{state.word}: requeued, and its script did not begin again",
    )  # fmt: skip


def _ended(job: Job, run_dir: Path, state: SlurmState | None, end: Exit | None) -> JobStatus:
    evidence = _evidence(run_dir)
    if state is None and end is None:
        return _gone(job, run_dir, evidence)
    known = state or SlurmState(word="")
    status = exit_status(end) if end is not None else JobStatus(state="ended")
    if status.phase == PREFLIGHT and status.reason and known.word not in VERDICTS:
        return status
    verdict = _verdict(known, evidence, status)
    stopped = verdict in STOPPED
    changed: JobStatus = status.replace(
        exit_code=status.exit_code if status.exit_code is not None else known.exit_code,
        started=status.started or known.started,
        ended=status.ended or known.ended,
        **({"rank": None, "node": None} if stopped else _where(status, evidence)),
        verdict=verdict,
        reason=_reason(known, evidence, status, verdict),
    )
    return changed


def _where(status: JobStatus, evidence: Evidence) -> dict[str, int | str | None]:
    """Rank and node that failed first: the script's word, but slurmstepd's on memory, which it saw from nearer by."""
    if evidence.verdict == "out_of_memory" and evidence.node is not None:
        return {"rank": evidence.rank, "node": evidence.node}
    rank = status.rank if status.rank is not None else evidence.rank
    return {"rank": rank, "node": status.node or evidence.node}


def _verdict(state: SlurmState, evidence: Evidence, status: JobStatus) -> str | None:
    """Slurm's own state where it is one, else what was written into the output, else what the script knows."""
    if state.word == "COMPLETED":
        return None
    if state.word in VERDICTS:
        return VERDICTS[state.word]
    if evidence.verdict == "out_of_memory" or not state.word:
        return evidence.verdict or status.verdict
    return status.verdict


def _gone(job: Job, run_dir: Path, evidence: Evidence) -> JobStatus:
    """Slurm has forgotten the job and its script left no word."""
    silent = time.time() - max(job.submitted, _last_sign(run_dir))
    if silent < SETTLE_S:
        return JobStatus(state="running", reason="not in the queue any more, waiting for its last word")
    if evidence.verdict:
        return JobStatus(
            state="ended", rank=evidence.rank, node=evidence.node, verdict=evidence.verdict, reason=_seen(evidence)
        )
    return JobStatus(
        state="lost", rank=evidence.rank, reason="Slurm has forgotten the job, and its script left no word"
    )


def _reason(state: SlurmState, evidence: Evidence, status: JobStatus, verdict: str | None) -> str:
    word = state.word if state.word not in ("COMPLETED", "FAILED") else ""
    if verdict in STOPPED:
        return " ".join(
            filter(None, (word or status.reason or verdict, state.reason if state.reason.startswith("by ") else ""))
        )
    nodes = f"on one of {state.nodes}" if verdict == "node_fail" and state.nodes and not evidence.node else ""
    said = _seen(evidence) or status.reason
    return "; ".join(part for part in (" ".join(filter(None, (word, nodes))), said) if part)


def _seen(evidence: Evidence) -> str:
    where = f"node {evidence.node}: " if evidence.node else ""
    return f"{where}{evidence.what}" if evidence.what else ""


def _evidence(run_dir: Path) -> Evidence:
    outputs, logs = sorted(run_dir.glob("sbatch_*.out")), sorted(run_dir.glob("log-*.out"))
    step = read_step_evidence(logs[-1]) if logs else Evidence()  # what slurmstepd says of a step is in its ranks' log
    if step.what:
        return step
    found = read_evidence(outputs[-1]) if outputs else Evidence()
    return found if found.verdict else msgspec.structs.replace(found, verdict=step.verdict)


def _last_sign(run_dir: Path) -> float:
    return max((path.stat().st_mtime for path in run_dir.glob("*.out")), default=0.0)
