"""Run the program that measures nodes in the environment of a workload, through its runtime and launcher."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from pathlib import Path

from llmbx.api import InfraError, Job, JobStatus, Launch, Phase, RunFolder, RunSpec, UsageError, Value, plural
from llmbx.api.verbs import Request, Runner, Workspace

from .judge import Measured, read_samples

ROLE = "speed"
"""The phase, and the folder of what the ranks write."""

PROGRAM = "measure_node.py"

START_S = 120.0
"""Seconds for starting the ranks and importing PyTorch."""

ACROSS = 1.5
"""Time of a node with its pairs and groups, in budgets."""

LARGEST = 64 << 20
LARGEST_CPU = 4 << 20
"""Bytes of a message."""


class SpeedCost(Value, frozen=True):
    """What a measurement takes: minutes, and hours of all GPUs."""

    minutes: float
    gpu_hours: float


def cost(nodes: int, budget_s: float, gpus_per_node: int) -> SpeedCost:
    """The time that a measurement of so many nodes takes; all are measured at the same time."""
    seconds = START_S + budget_s * (ACROSS if nodes > 1 else 1)
    return SpeedCost(minutes=seconds / 60, gpu_hours=nodes * gpus_per_node * seconds / 3600)


def measure_speed(
    workspace: Workspace,
    request: Request,
    nodes: Sequence[str] = (),
    *,
    budget_s: float = 30.0,
    say: Callable[[str], None],
) -> Measured:
    """Measure these nodes at the same time; without any this machine, or what the launcher chooses.

    The workload of the request gives environment, launcher and GPUs of a node; it does not run. Raises `UsageError` if
    it cannot be placed on the nodes, `InfraError` if nothing was measured.
    """
    spec = place(workspace, request, nodes)
    hours = cost(spec.nodes, budget_s, spec.gpus_per_node)
    spec = spec.replace(walltime_minutes=math.ceil(3 * hours.minutes) + 5)
    spec, runner = Runner.enter_here(spec, workspace.plugins, workspace.install, True)
    image = runner.fetch_image(runner.wanted_image(spec), say)
    folder = _folder(workspace)
    base = runner.framework.build_command(spec, image)
    launch = _launch(spec, image.python, base, budget_s)
    wrappings = tuple(runner.runtime.wrap(spec, launch, phase, image, folder) for phase in launch.phases)
    script = runner.launcher.render(spec, launch, wrappings, folder)
    place_ = RunFolder(path=folder)
    for name, content in launch.files.items():
        place_.write(name, content)
    place_.write("speed.sh", script, mode=0o777)
    say(f"{plural(spec.nodes, 'nodes')}, about {hours.minutes:.0f} minutes; {folder}")
    job = runner.launcher.submit(folder / "speed.sh", spec, folder)
    status = _wait(runner, job, folder)
    return _measured(folder, spec, nodes, status)


def place(workspace: Workspace, request: Request, nodes: Sequence[str]) -> RunSpec:
    """The workload on all GPUs of these nodes. Raises `UsageError` if the launcher cannot choose nodes."""
    first = workspace.resolve(request)
    count = (len(nodes) or first.nodes) * first.gpus_per_node
    spec = workspace.resolve(request.replace(gpus=count, gpus_per_node=first.gpus_per_node))
    if not nodes:
        return spec
    placed = workspace.plugins.launcher(spec.launcher).on_nodes(spec, nodes)
    if placed is None:
        raise UsageError(f"the launcher {spec.launcher} cannot choose nodes: use one of a cluster (--launcher)")
    return placed


def _launch(spec: RunSpec, python: str, base: Launch, budget_s: float) -> Launch:
    """One rank for each GPU runs the program, with the variables and mounts of the framework's own ranks."""
    first = base.phases[0]
    gpus = spec.gpu_type != "cpu"
    plan = {
        "budget_s": budget_s, "precision": 0.01, "largest": LARGEST if gpus else LARGEST_CPU, "disk": "/tmp",
        "rounds": max(1, math.ceil(math.log2(max(2, spec.nodes))) + 1),
    }  # fmt: skip
    source = resources.files(__package__).joinpath("node", PROGRAM).read_bytes()
    argv = (python, f"{ROLE}/{PROGRAM}", f"@{ROLE}/plan.json")
    return Launch(
        nodes=spec.nodes,
        ranks_per_node=spec.gpus_per_node,
        gpus_per_rank=1 if gpus else 0,
        phases=(Phase(role=ROLE, argv=argv, env=first.env, forward=first.forward),),
        files={f"{ROLE}/{PROGRAM}": source, f"{ROLE}/plan.json": f"{json.dumps(plan)}\n".encode()},
        mounts=base.mounts,
    )


def _folder(workspace: Workspace) -> Path:
    """A new folder for this measurement in the install."""
    workspace.install.ensure()
    stamp = int(time.time())
    while True:
        folder = workspace.install.path / "speed" / str(stamp) / "speed"
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
        stamp += 1


def _wait(runner: Runner, job: Job, folder: Path) -> JobStatus:
    """Wait for the job; cancel it if the wait is interrupted."""
    try:
        while True:
            status: JobStatus = runner.launcher.status(job, folder)
            if status.state not in ("pending", "running"):
                return status
            time.sleep(min(runner.launcher.poll_s, 1.0))
    except BaseException:
        runner.launcher.cancel(job, folder)
        raise


def _measured(folder: Path, spec: RunSpec, nodes: Sequence[str], status: JobStatus) -> Measured:
    texts = list(_texts(folder))
    samples, missing = read_samples(texts)
    why = status.reason or f"the job ended with {status.exit_code}"
    if not samples:
        raise InfraError(f"nothing was measured: {why}; see {folder}")
    measured = {sample.node for sample in samples}
    silent = {node: f"not measured: {why}" for node in nodes if node not in measured}
    if status.exit_code not in (0, None):
        missing["the job"] = why
    return Measured(
        samples=tuple(samples),
        not_measured={**silent, **missing},
        nodes=tuple(nodes),
        gpu_type=spec.gpu_type if spec.gpu_type != "cpu" else None,
        folder=str(folder),
    )


def _texts(folder: Path) -> Iterator[str]:
    files = RunFolder(path=folder).glob(f"{ROLE}/rank-*.jsonl")
    for file in sorted(files, key=lambda file: (len(file.name), file.name)):
        with file.open() as opened:
            yield opened.read(1 << 24).decode("utf-8", "replace")
