"""The Slurm launcher: submits run scripts, and determines their status from queue, accounting and output files."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from llmbx.api import (
    Exit,
    Finding,
    InfraError,
    Job,
    JobStatus,
    Launch,
    Launcher,
    Proposal,
    RunFolder,
    RunSpec,
    Unreachable,
    UsageError,
    Wrapping,
)
from llmbx.entry.secrets import is_secret

from . import complete, node_states, propose, reasons, render, time_limit
from .allocation import JOB
from .commands import call, environment, owners_umask
from .evidence import Evidence, read_evidence, read_step_evidence
from .find import find_jobs
from .params import check_nodelist, check_params, check_srun
from .pending import Pending
from .preflight import PREFLIGHT
from .settings import outage_limit, queue_limit, sbatch_options, srun_options, with_option
from .state import PENDING, VERDICTS, Queue, SlurmState

GRACE_S = 30.0
"""A job that disappeared counts as lost only this many seconds after its last output: accounting and shared folders
lag."""

TOGETHER_S = 60.0
"""If a run inside an allocation fails within this many seconds of the allocation's end, the allocation is the cause."""

CLOCK_SKEW_S = 60.0
"""Tolerated clock difference between nodes and controller, in seconds. A requeued job is pending longer than that."""

ON_NODE = ("account", "partition", "qos", "reservation", "constraint", "time")
"""sbatch options that are also used for a command on a single node."""

ON_NODES_MINUTES = 5
"""Time limit of a command on many nodes: if its srun is killed, Slurm may keep its job until then."""

STOPPED = ("cancelled", "timeout", "preempted")
"""Verdicts of jobs that were stopped from outside; error messages of their ranks are not the cause."""


class SlurmLauncher(Launcher):
    """Submits a job with sbatch, which starts the ranks with one srun per phase."""

    name = "slurm"
    summary = "a job submitted with sbatch, one srun per phase"
    flag_syntax = "srun"
    remote = True
    attended = False
    poll_s = 2.0

    def __init__(self, inside: Callable[[RunSpec], SlurmLauncher | None] = lambda spec: None) -> None:
        """`inside` returns the launcher for the allocation that this process runs in, if it runs in one."""
        self._queue = Queue()
        self._pending = Pending()
        self._signs: dict[str, tuple[Exit | None, float | None]] = {}
        self._inside = inside

    def available(self) -> str | None:
        """None if sbatch is installed, else the reason why no job can be submitted."""
        return None if shutil.which("sbatch") else "sbatch is not on PATH: this machine is not part of a Slurm cluster"

    def inside(self, spec: RunSpec) -> SlurmLauncher:
        """The launcher for job steps if llmbx runs inside an allocation, else this launcher.

        Raises `UsageError` if the allocation is too small or has ended.
        """
        return self._inside(spec) or self

    def claims(self, nodes: int, on_gpus: bool, environ: Mapping[str, str]) -> str | None:
        """Why `auto` chooses Slurm (inside a job, several nodes, or no local GPU), or None."""
        if environ.get(JOB) and shutil.which("srun"):
            return f"inside Slurm job {environ[JOB]}"
        if nodes > 1:
            return "the run uses several nodes"
        if on_gpus and shutil.which("sbatch") and not shutil.which("nvidia-smi"):
            return "this machine has no GPU, and Slurm is available"
        return None

    def check_spec(self, spec: RunSpec, environ: Mapping[str, str]) -> None:
        """Raise `UsageError` for invalid options of srun, and of sbatch unless llmbx runs inside a job."""
        check_srun(srun_options(spec), f"cluster '{spec.cluster}'")
        if not environ.get(JOB):
            check_params(sbatch_options(spec), spec.origins)
            check_nodelist(sbatch_options(spec), spec.origins, spec.nodes, spec.gpus_per_node)
            queue_limit(spec)
            outage_limit(spec)

    def complete_spec(self, spec: RunSpec) -> RunSpec:
        """The specification with the settings that depend on the rest of the run. Raises `UsageError` if invalid."""
        return complete.complete(spec)

    def time_limit(self, settings: Mapping[str, Any], origins: Mapping[str, str]) -> tuple[int | None, str] | None:
        """The time limit in the sbatch options, in minutes (None: no limit), and its origin; None if not set.

        Raises `UsageError` if it cannot be parsed.
        """
        text = settings.get("sbatch", {}).get("time")
        if text is None:
            return None
        origin = f"sbatch option time={text} ({origins['slurm.sbatch.time']})"
        try:
            return time_limit.minutes(text), origin
        except ValueError as error:
            raise UsageError(f"{origin}: {error}") from None

    def queue_limit(self, spec: RunSpec) -> tuple[float, str] | None:
        """How many seconds the job may be pending, and where that is set; None: for ever."""
        return queue_limit(spec)

    def outage_limit(self, spec: RunSpec) -> tuple[float, str] | None:
        """How many seconds Slurm's commands may fail while a run is followed, and where that is set; None: for ever."""
        return outage_limit(spec)

    def without_node(self, spec: RunSpec, node: str) -> RunSpec | None:
        """The specification with `node` excluded; None if the nodes were selected with nodelist."""
        explicit = sbatch_options(spec)
        if "nodelist" in explicit:
            return None
        origin = "; ".join(filter(None, (spec.origins.get("slurm.sbatch.exclude"), f"{node} left out by llmbx")))
        return with_option(spec, "exclude", ",".join(filter(None, (explicit.get("exclude"), node))), origin)

    def on_nodes(self, spec: RunSpec, nodes: Sequence[str]) -> RunSpec | None:
        """The specification with `nodes` as its nodelist."""
        return with_option(spec, "nodelist", ",".join(nodes), "chosen by llmbx")

    def run_on_node(self, argv: Sequence[str], name: str, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """The srun command that runs `argv` as one task on one node. Raises `InfraError` if srun is not installed."""
        if not shutil.which("srun"):
            raise InfraError("srun is not on PATH: this machine cannot reach a compute node; use --launcher local")
        explicit = settings.get("sbatch", {})
        options = [f"--{option}={explicit[option]}" for option in ON_NODE if explicit.get(option)]
        return ("srun", "--nodes=1", "--ntasks=1", f"--job-name={name}", *options, *argv)

    def run_on_nodes(
        self, argv: Sequence[str], name: str, settings: Mapping[str, Any], nodes: Sequence[str]
    ) -> tuple[str, ...] | None:
        """The srun command that runs `argv` once on each node, beside the steps of an allocation if it is inside one.

        Raises `InfraError` if srun is not installed.
        """
        inside = JOB in os.environ
        if not nodes and not inside:
            return None
        if not shutil.which("srun"):
            raise InfraError("srun is not on PATH: this machine cannot reach the nodes")
        explicit = settings.get("sbatch", {})
        count = len(nodes) or os.environ.get("SLURM_JOB_NUM_NODES", "1")
        options = [f"--{key}={explicit[key]}" for key in ON_NODE if explicit.get(key)]
        where = ["--overlap"] if inside else [*options, f"--time={ON_NODES_MINUTES}"]
        chosen = [f"--nodelist={','.join(nodes)}"] if nodes else []
        every = (f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1", "--kill-on-bad-exit=0", "--wait=0")
        return ("srun", *every, f"--job-name={name}", *where, *chosen, *argv)

    def unusable_nodes(self, nodes: Sequence[str]) -> Mapping[str, str]:
        """The nodes that are down, drained or not in the cluster; none inside an allocation, which has its nodes."""
        if JOB in os.environ or not nodes:
            return {}
        return node_states.unusable(nodes)

    def too_large(self, spec: RunSpec) -> str | None:
        """Why no partition of the run can ever run it. Unknown for the jobs of other clusters."""
        options = sbatch_options(spec)
        if "clusters" in options:
            return None
        return reasons.too_large(spec.nodes, options.get("partition"))

    def propose(self) -> Proposal | None:
        """Its part of a cluster profile. Raises `InfraError` if the controller does not respond."""
        return propose.propose()

    def check(self, install: Path) -> Finding | None:
        """Query the controller's partitions (for `llmbx doctor`); a finding if it does not respond or has none."""
        if reason := self.available():
            return _finding(reason, "install Slurm's client, or use --launcher local", absent=True)
        try:
            up = call("sinfo", "--noheader", "--format=%P %a", timeout_s=10).count(" up")
        except InfraError as error:
            parts = str(error).split("; ")
            if any("configuration source" in part for part in parts):
                fix = "set SLURM_CONF to a cluster's slurm.conf, or use --launcher local"
                return _finding("Slurm's client is installed, but no cluster is configured", fix, absent=True)
            return _finding(parts[0], "see `scontrol ping`")
        return None if up else _finding("no partition is up", "see `sinfo -s`")

    def render(self, spec: RunSpec, launch: Launch, wrappings: tuple[Wrapping, ...], run_dir: Path) -> str:
        """Render the sbatch script. Raises `UsageError` for invalid options."""
        return render.render(spec, launch, wrappings, run_dir)

    def submit(self, script: Path, spec: RunSpec, run_dir: Path) -> Job:
        """Submit the script with the variables of this process.

        Raises `InfraError`, with a hint, if sbatch fails, and `UsageError` if no partition can ever run the job.
        """
        self.forget_exit(run_dir)
        if why := self.too_large(spec):
            raise UsageError(f"the job could never start: {why}")
        variables = {**submitted_environment(spec), "SLURM_UMASK": owners_umask()}
        printed = call("sbatch", "--parsable", str(script), cwd=str(run_dir), environ=variables, timeout_s=300)
        job_id = printed.strip().splitlines()[-1].strip() if printed.strip() else ""
        if not job_id.partition(";")[0].isdigit():
            raise InfraError(f"sbatch: expected a job id, got {printed.strip()!r}")
        return Job(launcher=self.name, job_id=job_id, submitted=time.time())

    def status(self, job: Job, run_dir: Path) -> JobStatus:
        """The status from Slurm's state, the script's exit file, and srun's messages, in this order of precedence.

        Raises `Unreachable` while Slurm's commands fail, unless there is an exit file.
        """
        if job.process is not None:
            return self._status_in_allocation(job, job.process, run_dir)
        try:
            return self._status(job, run_dir)
        except Unreachable:
            end = _script_exit(job, run_dir)
            seen, while_pending = self._signs.get(job.job_id, (None, None))
            if end is None or (while_pending is not None and seen == end):  # of the start before a requeue
                raise
            return _ended(job, run_dir, None, end)

    def _status(self, job: Job, run_dir: Path) -> JobStatus:
        state, end = self._look(job, run_dir)
        if state is not None and state.live and not (end is not None and end.exit_code == 0):
            if state.name in PENDING:
                status = self._pending.status(job, state)
                if self._pending.is_new(job):
                    self._queue.hurry()
                return status
            where = f"{state.name.lower()}: {state.reason}" if state.reason else state.name.lower()
            return JobStatus(state="running", reason=where, started=state.started)
        if end is not None and state is not None and _from_earlier_start(end, state):
            return _requeued_without_start(self._queue.with_exit(job.job_id) or state)
        if end is None:  # only then query the exit code, which costs one command for each job
            state = self._queue.with_exit(job.job_id)
            if state is None:
                return _forgotten(job, run_dir, _evidence(run_dir), self._queue.missing_s(job.job_id))
            if reason := self._not_started(job, run_dir, state):
                return JobStatus(
                    state="ended", exit_code=InfraError.exit_code, verdict="not_started", reason=reason,
                    node=state.host or None, ended=state.ended,
                )  # fmt: skip
        return _ended(job, run_dir, None if state and state.live else state, end)

    def _look(self, job: Job, run_dir: Path) -> tuple[SlurmState | None, Exit | None]:
        """Slurm's state and the script's exit file, read in this order: a job that has ended has written its exit file.

        A new exit file, or output of a pending job, means that Slurm's state has changed.
        """
        state, end = self._queue.state(job.job_id), _script_exit(job, run_dir)
        if state is None or not state.live:
            return state, end
        signs = (end, _last_output(run_dir) if state.name in PENDING else None)
        if self._signs.setdefault(job.job_id, signs) != signs:
            self._signs[job.job_id] = signs
            self._queue.hurry()
            state, end = self._queue.state(job.job_id), _script_exit(job, run_dir)
        return state, end

    def _not_started(self, job: Job, run_dir: Path, state: SlurmState) -> str | None:
        """Why the script of an ended job never started; None if it did, or could have and was cancelled before."""
        if state.not_opened and _last_output(run_dir) < (state.started or 0.0) - CLOCK_SKEW_S:
            node = state.host or ("one of " if "[" in state.nodes or "," in state.nodes else "") + state.nodes
            return f"{node} could not open the job's output ({run_dir} is not visible or not writable there)"
        if state.name == "CANCELLED" and state.started is None:
            why = self._pending.why_cancelled(job, state)
            return why and f"job {job.job_id} was cancelled: {why}"
        return None

    def watch(self, jobs: Sequence[Job]) -> None:
        """Include these jobs in the next query, so that one command returns the state of all of them."""
        self._queue.watch(job.job_id for job in jobs)

    def find(self, runs: Mapping[Path, RunSpec]) -> dict[Path, Job]:
        """The jobs of these run folders, from the files of their scripts or from the working directory in Slurm."""
        return find_jobs(runs)

    def cancel(self, job: Job, run_dir: Path) -> None:
        """Cancel the job. Slurm sends TERM, and KILL after its grace period. In an allocation only the steps end."""
        if job.process is not None:
            self.stop_script(job.process, run_dir)
            return
        number, _, cluster = job.job_id.partition(";")
        call("scancel", *([f"--clusters={cluster}"] if cluster else []), number)
        self._queue.hurry()

    def cancel_pending(self, job: Job, run_dir: Path) -> None:
        """Cancel the job if it is pending; a job that has started in the meantime continues."""
        number, _, cluster = job.job_id.partition(";")
        call("scancel", *([f"--clusters={cluster}"] if cluster else []), "--state=PENDING", number)
        self._queue.hurry()

    def dump_stacks(self, job: Job, run_dir: Path) -> None:
        """Send SIGUSR1 to every rank, but not to the script."""
        if job.process is not None:
            self.dump_script_stacks(job.process, run_dir)
            return
        number, _, cluster = job.job_id.partition(";")
        call("scancel", *([f"--clusters={cluster}"] if cluster else []), "--signal=USR1", number)

    def _status_in_allocation(self, job: Job, process: str, run_dir: Path) -> JobStatus:
        """The status of a run inside an allocation; the allocation's end counts only if there is no exit file."""
        end = _script_exit(job, run_dir)
        if end is not None:
            return self._ended_in_allocation(job, run_dir, end)
        status = self.script_status(process, run_dir, job.submitted)
        if status.state == "running" and not status.reason:
            return status
        try:
            state = self._queue.state(job.job_id)
        except Unreachable:
            return status
        if state is not None and state.name in VERDICTS:
            return _ended(job, run_dir, state, None)
        if status.state == "running" and (state is None or not state.live):
            return JobStatus(state="lost", reason="the allocation has ended, but the script did not write exit.json")
        return status

    def _ended_in_allocation(self, job: Job, run_dir: Path, end: Exit) -> JobStatus:
        """The status of an ended run inside an allocation, whose end is the cause if both ended together."""
        self._queue.hurry()
        try:
            state = self._queue.state(job.job_id) if end.exit_code else None
        except Unreachable:
            state = None
        if state is not None and state.name == "COMPLETING":
            return JobStatus(state="running", reason="the allocation is ending", started=end.started)
        together = state is not None and state.ended is not None and abs(state.ended - end.ended) < TOGETHER_S
        return _ended(job, run_dir, state if together and state and state.name in VERDICTS else None, end)


def submitted_environment(spec: RunSpec) -> dict[str, str]:
    """The variables for a run script: those of this process without the surrounding job's, and the run's secrets."""
    variables = {**environment(), **{name: value for name, value in spec.env.items() if is_secret(name)}}
    variables.pop("SLURM_TIME_FORMAT")
    return variables


def _finding(problem: str, fix: str, absent: bool = False) -> Finding:
    return Finding(rule="launcher slurm", problem=problem, fix=fix, warning=absent)


def _script_exit(job: Job, run_dir: Path) -> Exit | None:
    """The exit file of this job's script; None if it is missing or from another job in the same folder."""
    end = Exit.read(run_dir)
    return end if end is not None and end.job_id == job.job_id.partition(";")[0] else None


def _from_earlier_start(end: Exit, state: SlurmState) -> bool:
    """Whether the exit file is from before the start that Slurm reports, because the job was requeued."""
    clock = end.since_boot  # the wall clock of the node may have been set back during the run
    ended = end.ended if clock is None else end.started + clock.ended - clock.started
    return not state.live and state.started is not None and ended < state.started - CLOCK_SKEW_S


def _requeued_without_start(state: SlurmState) -> JobStatus:
    """The status of a requeued job that ended before its script ran again; its files are from the earlier start."""
    return JobStatus(
        state="ended", exit_code=state.exit_code, started=state.started, ended=state.ended,
        verdict=VERDICTS.get(state.name), reason=f"{state.name}: requeued, but the script did not start again",
    )  # fmt: skip


def _ended(job: Job, run_dir: Path, state: SlurmState | None, end: Exit | None) -> JobStatus:
    evidence = _evidence(run_dir)
    last_state = state or SlurmState(name="")
    status = end.status() if end is not None else JobStatus(state="ended")
    if status.phase == PREFLIGHT and status.reason and last_state.name not in VERDICTS:
        return status
    verdict = _verdict(last_state, evidence, status)
    stopped = verdict in STOPPED
    changed: JobStatus = status.replace(
        exit_code=status.exit_code if status.exit_code is not None else last_state.exit_code,
        started=status.started or last_state.started,
        ended=status.ended or last_state.ended,
        **({"rank": None, "node": None} if stopped else _where(status, evidence)),
        verdict=verdict,
        reason=_reason(last_state, evidence, status, verdict),
    )
    return changed


def _where(status: JobStatus, evidence: Evidence) -> dict[str, int | str | None]:
    """Rank and node that failed first, from the script; from slurmstepd if it reports a memory limit with a node."""
    if evidence.verdict == "out_of_memory" and evidence.node is not None:
        return {"rank": evidence.rank, "node": evidence.node}
    rank = status.rank if status.rank is not None else evidence.rank
    return {"rank": rank, "node": status.node or evidence.node}


def _verdict(state: SlurmState, evidence: Evidence, status: JobStatus) -> str | None:
    """The verdict from Slurm's state if it has one, else from the output, else from the script."""
    if state.name == "COMPLETED":
        return None
    if state.name in VERDICTS:
        return VERDICTS[state.name]
    if evidence.verdict == "out_of_memory" or not state.name:
        return evidence.verdict or status.verdict
    return status.verdict


def _forgotten(job: Job, run_dir: Path, evidence: Evidence, missing_s: float) -> JobStatus:
    """The status of a job that Slurm has not known for `missing_s` seconds, and whose script left no exit file."""
    silent = min(missing_s, time.time() - max(job.submitted, _last_output(run_dir)))
    if silent < GRACE_S:
        return JobStatus(state="running", reason="no longer in the queue, waiting for exit.json")
    if evidence.verdict:
        return JobStatus(
            state="ended",
            rank=evidence.rank,
            node=evidence.node,
            verdict=evidence.verdict,
            reason=_evidence_text(evidence),
        )
    return JobStatus(
        state="lost", rank=evidence.rank, reason="the job is unknown to Slurm, and the script did not write exit.json"
    )


def _reason(state: SlurmState, evidence: Evidence, status: JobStatus, verdict: str | None) -> str:
    name = state.name if state.name not in ("COMPLETED", "FAILED") else ""
    if verdict in STOPPED:
        who = state.reason if state.reason.startswith("by ") else ""
        before = "before it started" if state.name == "CANCELLED" and not state.nodes else ""
        return " ".join(filter(None, (name or status.reason or verdict, who, before)))
    nodes = f"on one of {state.nodes}" if verdict == "node_fail" and state.nodes and not evidence.node else ""
    message = _evidence_text(evidence) or status.reason
    return "; ".join(part for part in (" ".join(filter(None, (name, nodes))), message) if part)


def _evidence_text(evidence: Evidence) -> str:
    where = f"node {evidence.node}: " if evidence.node else ""
    return f"{where}{evidence.what}" if evidence.what else ""


def _evidence(run_dir: Path) -> Evidence:
    folder = RunFolder(path=run_dir)
    outputs, logs = folder.glob("sbatch_*.out"), folder.glob("log-*.out")
    step = read_step_evidence(logs[-1]) if logs else Evidence()  # slurmstepd writes to the log of the ranks
    if step.what:
        return step
    outcome = read_evidence(outputs[-1]) if outputs else Evidence()
    return outcome if outcome.verdict else msgspec.structs.replace(outcome, verdict=step.verdict)


def _last_output(run_dir: Path) -> float:
    return RunFolder(path=run_dir).last_written("*.out") or 0.0
