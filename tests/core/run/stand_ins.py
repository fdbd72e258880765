"""Stand-ins for the plugins of a run: a framework, a launcher and a runtime that start no process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from llmbx import hookimpl
from llmbx.errors import InfraError
from llmbx.launchers.base import Launcher
from llmbx.logs.parser import LogFormat, LogParser, Record
from llmbx.model import (
    Event,
    Finding,
    Image,
    ImageRequest,
    Job,
    JobStatus,
    Launch,
    Phase,
    RunSpec,
    Step,
    Workload,
    Wrapping,
)
from llmbx.model.evidence import Check, Evidence
from llmbx.model.flops import Flops
from llmbx.model.run_folder import log_name
from llmbx.runtimes.base import Progress, Runtime

PENDING = JobStatus(state="pending", reason="pending: Priority")
RUNNING = JobStatus(state="running", started=1000.0)
COMPLETED = JobStatus(state="ended", exit_code=0, started=1000.0, ended=1100.0)
CRASHED = JobStatus(state="ended", exit_code=1, started=1000.0, ended=1100.0)
STOPPED = JobStatus(state="ended", exit_code=143, verdict="cancelled", reason="stopped by SIGTERM")
NODE_FAILED = JobStatus(
    state="ended", verdict="node_fail", reason="NODE_FAIL on n7", node="n7", started=1000.0, ended=1100.0
)

WHOLE_LOG = "".join(f"step {number} 2.0\n" for number in range(20))
"""The log of a run that made all 20 steps of `sample_spec`, each in 2 s."""

MOST_JOBS = 9
"""Number of jobs that the stand-in `Cluster` starts: a test of endless retries must end."""

SHORT_LOG = "step 0 2.0\nstep 1 2.0\n"
"""The log of a run that ended after two steps."""


class StepLines(LogParser):
    """A parser's stand-in: `step NUMBER SECONDS` is a step, `fatal KIND …` an event; any other line is text."""

    first_step = 0

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def feed(self, line: str) -> list[Record]:
        self.lines.append(line)
        match line.split():
            case ["step", number, seconds]:
                return [Step(number=int(number), time_s=float(seconds), loss=3.0 - int(number) / 100)]
            case ["fatal", kind, *_]:
                return [Event(kind=kind, text=line, fatal=True)]
        return []


class Trainer:
    """A framework's stand-in. `lines` has every line that its parsers were fed."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.formula: Callable[[], Flops | None] = lambda: None
        self.make_parser: Callable[[], StepLines] = lambda: StepLines(self.lines)

    @hookimpl
    def register_workloads(self) -> list[Workload]:
        return []

    @hookimpl
    def prepare_image(self, spec: RunSpec) -> ImageRequest:
        return ImageRequest(reference="trainer:1")

    @hookimpl
    def build_command(self, spec: RunSpec, image: Image) -> Launch:
        phase = Phase(role="train", argv=(image.python, "train.py"))
        return Launch(nodes=1, ranks_per_node=spec.gpus, gpus_per_rank=1, phases=(phase,), files={"train.py": b"pass"})

    @hookimpl
    def parse_log(self, spec: RunSpec | None) -> list[LogFormat]:
        return [LogFormat("trainer", "Trainer", lambda text: text.count("step "), self.make_parser)]

    @hookimpl
    def compute_flops(self, spec: RunSpec) -> Flops | None:
        return self.formula()


class Watch:
    """A profiler's stand-in: its check has one finding, a warning if `warns`, and notes the folder that it read."""

    def __init__(self) -> None:
        self.analyzed: list[Path] = []
        self.warns = True

    @hookimpl
    def wrap_command(self, spec: RunSpec, launch: Launch) -> Launch:
        return launch

    @hookimpl
    def register_checks(self) -> list[Check]:
        about = {"id": "profile", "reads": "The profile.", "means": "It is short.", "do": "Profile more steps."}
        return [Check(**about, effect="failed", test=self.check_profile, reads_files=True)]

    def check_profile(self, evidence: Evidence) -> list[Finding]:
        assert evidence.run_dir is not None
        self.analyzed.append(evidence.run_dir)
        return [Finding(rule="watch", problem="the profile is short", fix="profile more steps", warning=self.warns)]


class Cluster(Launcher):
    """A launcher's stand-in. Its jobs are numbered from 1; the N-th has the N-th of `outcomes`, or the last one.

    A job writes `log` when it is submitted. `queue` has the jobs by the folder of their run. `lookups` has the folders
    of each search for jobs.
    """

    name = "cluster"
    summary = "a stand-in"
    remote = False
    attended = False
    poll_s = 0.0

    def __init__(self) -> None:
        self.outcomes = [COMPLETED]
        self.log = WHOLE_LOG
        self.scripts: list[str] = []
        self.queue: dict[Path, Job] = {}
        self.lookups: list[set[Path]] = []
        self.cancelled: list[str] = []
        self.released: list[str] = []
        self.before_submission: Callable[[Path], None] = lambda run_dir: None
        self.after_lookup: Callable[[], None] = lambda: None

    def render(self, spec: RunSpec, launch: Launch, wrappings: tuple[Wrapping, ...], run_dir: Path) -> str:
        return f"#!/bin/sh\n# without {spec.plugin_settings.get('cluster', {}).get('exclude', 'none')}\n"

    def submit(self, script: Path, spec: RunSpec, run_dir: Path) -> Job:
        assert len(self.scripts) < MOST_JOBS, "a run is retried without end"
        self.before_submission(run_dir)
        self.scripts.append(script.read_text())
        (run_dir / log_name(spec)).write_text(self.log)
        return Job(launcher=self.name, job_id=str(len(self.scripts)), submitted=900.0)

    def status(self, job: Job, run_dir: Path) -> JobStatus:
        if job.job_id in self.cancelled:
            return STOPPED
        return self.outcomes[min(int(job.job_id), len(self.outcomes)) - 1]

    def find(self, runs: Mapping[Path, RunSpec]) -> dict[Path, Job]:
        self.lookups.append(set(runs))
        answer = {folder: job for folder, job in self.queue.items() if folder in runs}
        self.after_lookup()
        return answer

    def cancel(self, job: Job, run_dir: Path) -> None:
        self.cancelled.append(job.job_id)

    def release(self, job: Job, run_dir: Path) -> None:
        self.released.append(job.job_id)

    def without_node(self, spec: RunSpec, node: str) -> RunSpec | None:
        return spec.replace(plugin_settings={"cluster": {"exclude": node}})


class Bare(Runtime):
    """A runtime's stand-in. Its image is there, unless `fault` is raised."""

    name = "bare"
    summary = "a stand-in"

    def __init__(self) -> None:
        self.fault: BaseException | None = None
        self.prepared: list[str | None] = []

    def plan(self, request: ImageRequest, install: Path) -> Image:
        return Image(kind="bare", reference=request.reference or "", python="python3", versions={"trainer": "1.0"})

    def prepare(self, request: ImageRequest, install: Path, progress: Progress, offline: bool = False) -> Image:
        if self.fault is not None:
            raise self.fault
        self.prepared.append(request.reference)
        return self.plan(request, install)

    def wrap(self, spec: RunSpec, launch: Launch, phase: Phase, image: Image, run_dir: Path) -> Wrapping:
        return Wrapping()


class Tools:
    """The plugin that registers the launcher and the runtime."""

    def __init__(self, launcher: Launcher, runtime: Runtime) -> None:
        self.launcher, self.runtime = launcher, runtime

    @hookimpl
    def register_launchers(self) -> list[Launcher]:
        return [self.launcher]

    @hookimpl
    def register_runtimes(self) -> list[Runtime]:
        return [self.runtime]


class Screen:
    """A sink's stand-in: the steps and events that a user sees."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.events: list[str] = []

    def step(self, step: Step) -> None:
        self.steps.append(step.number)

    def event(self, event: Event) -> None:
        self.events.append(event.text)

    def status(self, status: JobStatus) -> None: ...


def refused(run_dir: Path) -> None:
    """A scheduler that takes no job (see `Cluster.before_submission`)."""
    raise InfraError("the scheduler refused the job")
