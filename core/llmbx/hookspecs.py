"""The hooks that a plugin can implement: the whole contract between llmbx and its plugins.

A plugin is a module (or object) named by an entry point in the group `llmbx`. It implements any of these functions,
each marked with `@llmbx.hookimpl`. A hook is called for every plugin (all results are collected, or the first one that
is not None is used), for the run's framework, which has the workload, or for each of the run's profilers, in order.

Arguments and return values are immutable records from `llmbx.model`. Return values are validated; an exception or an
invalid value is reported with the names of the plugin and the hook.

Each plugin is called by itself, inside the hook wrappers of all plugins, which work as pluggy documents them
(`@hookimpl(wrapper=True)`): a wrapper gets the answer of one plugin, in a list if the hook returns a sequence, and
returns it or another one. `tryfirst` and `trylast` decide the order of plugins, and of wrappers. The other plugins are
called in the order of their loading, and the other way round where the first result is used: third parties come first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pluggy

from .launchers.base import Launcher
from .logs.parser import LogFormat
from .logs.source_reader import SourceReader
from .logs.training_log import TrainingLog
from .measure.judge import Judge
from .model.configuration import ConfigurationProgram, ExpectedConfiguration
from .model.evidence import Check, Evidence
from .model.finding import Finding
from .model.flops import Flops
from .model.image import Image, ImageRequest
from .model.job import RunGroup
from .model.launch import Launch
from .model.observed import Observed
from .model.profiler import Figure, Obstacle, Profiler
from .model.result import Expected
from .model.section import Section
from .model.settings import Settings
from .model.spec import RunSpec
from .model.workload import Workload
from .record.history import History
from .runtimes.base import Runtime

if TYPE_CHECKING:
    from .config.install import Install

VERSION = (3, 0)
"""The version of the hooks and of `llmbx.api`, (major, minor); see `llmbx.api`."""

hookspec = pluggy.HookspecMarker("llmbx")


@hookspec
def register_workloads() -> Sequence[Workload]:
    """Return the workloads that this plugin can run, with sizes, recipes, defaults and published references.

    When: once, by any command that needs a workload. Called for every plugin. It must be fast: import no framework.

    Example::

        @hookimpl
        def register_workloads():
            return [load_workload(resources.files(__package__) / "catalog" / "toy.toml")]
    """


@hookspec
def check_spec(spec: RunSpec) -> Sequence[Finding]:
    """Return the rules of the framework that the run breaks, in addition to the rules for every framework.

    When: before anything starts. Called for the run's framework and for each of the run's profilers. Return all
    findings at once, or an empty list. Findings without `warning=True` stop the run.

    Example::

        @hookimpl
        def check_spec(spec):
            if spec.dtype == "fp8" and spec.gpu_type == "a100":
                return [Finding(rule="dtype", problem="A100 has no FP8", fix="use --dtype bf16")]
            return []
    """


@hookspec(firstresult=True)
def prepare_image(spec: RunSpec) -> ImageRequest | None:
    """Return the environment or container image that the run needs, without fetching it.

    When: after the run is resolved and checked. Called for the run's framework. The runtime fetches what it names.

    Example::

        @hookimpl
        def prepare_image(spec):
            lock = load_environment(LOCKS / "toy.toml")
            return ImageRequest(environment=lock, reference="registry.example#team/toy:1")
    """


@hookspec(firstresult=True)
def build_command(spec: RunSpec, image: Image) -> Launch | None:
    """Return the launch: the number of nodes and ranks, the files, and the phases with the argv of one rank each.

    When: after the image is prepared. Called for the run's framework. It must be pure, for tests with golden files. The
    argv is that of ONE rank; the launcher starts the ranks. A rank reads its place from LLMBX_RANK, LLMBX_LOCAL_RANK,
    LLMBX_WORLD_SIZE, LLMBX_LOCAL_WORLD_SIZE, LLMBX_MASTER_ADDR and LLMBX_MASTER_PORT.

    Example::

        @hookimpl
        def build_command(spec, image):
            phase = Phase(role="train", argv=(image.python, "train.py", str(spec.steps)))
            return Launch(nodes=1, ranks_per_node=1, gpus_per_rank=0, phases=(phase,), files={"train.py": SOURCE})
    """


@hookspec
def register_checks() -> Sequence[Check]:
    """Return checks of runs, beside those of llmbx (docs/checks.md).

    When: after a run has ended. Called for every plugin. A check is for the runs with this plugin as framework or
    profiler, or with `runs="all"` for all runs. `test` gets everything that is known about the run (`Evidence`: steps,
    events, figures, specification, nodes) and returns what it found in one line, `Finding`s, `NotPossible` with the
    reason, or None. What it found has the check's `effect`: "failed", "invalid", "not comparable" or "warning"; a
    `Finding(warning=True)` is a warning. A check that raises is reported as not possible.

    With `reads_files=True` it checks the files that a profiler left in `evidence.run_dir`, and may write there. What it
    finds is a warning for a profiler that only a phase of the launch asks for (`Phase.capture`).

    Example::

        def saturated(evidence):
            capped = [step.number for step in evidence.steps if step.loss == 65504]
            return f"the loss of step {capped[0]} is the largest number of fp16" if capped else None

        @hookimpl
        def register_checks():
            return [Check(id="fp16", reads="The loss.", means="The numbers are too large for fp16.",
                          do="Use bf16.", effect="invalid", test=saturated)]
    """


@hookspec(firstresult=True)
def observe_run(evidence: Evidence) -> Observed | None:
    """Return what the nodes, the GPUs and the ranks of a run did while its window was measured, for `result.json`.

    When: after a run has ended, before its checks, if its folder may be read (`evidence.run_dir`). Called for every
    plugin until one returns something. What is not known is None.

    Example::

        @hookimpl
        def observe_run(evidence):
            watts = [float(line) for line in RunFolder(path=evidence.run_dir).read("watts.txt").split()]
            return Observed(hardware=Observed.Hardware(power_w=mean(watts)))
    """


@hookspec(firstresult=True)
def register_judge() -> Judge | None:
    """Return the judge of what runs measured: its checks, the stability of a window, the verdict on a published figure.

    When: when a run or a log is measured, and by `run` for its exit code. Called for every plugin until one returns a
    judge. Without one, results have no stability and no checks, and a benchmark ends with exit code 5.

    Example::

        @hookimpl
        def register_judge():
            return Spread()  # a class that inherits from Judge, with checks and the stability of a window
    """


@hookspec(firstresult=True)
def register_history() -> History | None:
    """Return what remembers the runs of installs: it selects runs, and knows their columns and their tags.

    When: by commands that read several runs, as `compare`, `report` and `export` do, or the tags of runs. Called for
    every plugin until one returns a history. Without one, one run is found by its ids, its job or its folder. The tags
    that name a run (`@NAME`) are the answers of `find_runs`.

    Example::

        @hookimpl
        def register_history():
            return TeamDatabase()  # a class that inherits from History
    """


@hookspec(firstresult=True)
def register_profiler() -> Profiler | None:
    """Return the properties of this profiler: the length of its runs, and whether their results stay comparable.

    When: by any command that resolves a run. Called for each of the run's profilers. Without this hook a profiler has
    the defaults of `Profiler`, with which a run is not comparable with other runs.

    Example::

        @hookimpl
        def register_profiler():
            return Profiler(takes_steps=True, disturbs="nothing")
    """


@hookspec(firstresult=True)
def profiler_obstacle(spec: RunSpec) -> Obstacle | None:
    """Return what keeps this profiler from recording the steps of the run on this machine; None if nothing does.

    When: before anything starts; launcher and runtime are chosen. Called for each of the run's profilers, whose
    obstacle stops the run. If the user names none, the first of `Workload.profilers` without one is used. Return None
    if the answer is not known here: a compute node may have what this machine lacks.

    Example::

        @hookimpl
        def profiler_obstacle(spec):
            if spec.launcher != "local" or spec.runtime not in ("host", "venv") or shutil.which("toyprof"):
                return None
            return Obstacle(problem="toyprof is not on PATH", fix="install it", adds="the time of each allocation")
    """


@hookspec(firstresult=True)
def wrap_command(spec: RunSpec, launch: Launch) -> Launch | None:
    """Return the launch wrapped in the profiler: a new value, made from `launch`.

    When: after `build_command`. Called for each of the run's profilers, in order; each gets the launch returned by the
    one before. Return None to leave the launch unchanged. The function must be pure.

    Example::

        @hookimpl
        def wrap_command(spec, launch):
            first = launch.phases[0]
            timed = first.replace(prefixes=(*first.prefixes, Prefix(argv=("/usr/bin/time", "-v"))))
            return launch.replace(phases=(timed, *launch.phases[1:]))
    """


@hookspec
def register_companions(spec: RunSpec, launch: Launch) -> Sequence[Launch.Companion]:
    """Return programs that run once on each node beside the ranks, for example to sample what the machine does.

    When: after `wrap_command`. Called for every plugin. The first rank of each node starts them before its own program,
    in the same container, and they end with it; those with `before` check their node instead. It must be pure.

    Example::

        @hookimpl
        def register_companions(spec, launch):
            program = b"while kill -0 $LLMBX_COMPANION_OF; do uptime >> load/$LLMBX_NODE_RANK.txt; sleep 5; done\n"
            return [Launch.Companion(name="load", argv=("/bin/sh", "load/load.sh"), files={"load.sh": program})]
    """


@hookspec
def parse_log(spec: RunSpec | None) -> Sequence[LogFormat]:
    """Return the formats of the framework's logs, each with a sniffer, an incremental parser and its usual window.

    When: before the start, while the run is followed, and for the whole log after it has ended. Called for the run's
    framework; the first format is that of the run's log. Also by `llmbx parse`, with None as `spec`, for every plugin:
    the format whose sniffer has the highest result is used, and the newest format comes first.

    Example::

        @hookimpl
        def parse_log(spec):
            return [LogFormat(name="toy", title="Toy", sniff=lambda text: text.count("toy step"), parser=ToyParser)]
    """


@hookspec
def register_sources() -> Sequence[type[SourceReader]]:
    """Return classes of readers, each for a kind of files of records. llmbx has `jsonl`, `tensorboard` and `wandb`.

    When: when a log format declares such a `Source`, while its run is followed and again after it has ended, and by
    `llmbx parse FILE`. Called for every plugin. A kind has one reader.

    Example::

        class Rows(SourceReader):
            kind = "rows"

            def read(self, file):
                for row in csv.DictReader(io.TextIOWrapper(file)):
                    yield SourceRecord(source=self.source, rank=self.rank, step=int(row["step"]), values=row)

        @hookimpl
        def register_sources():
            return [Rows]
    """


@hookspec
def read_logs(path: Path) -> Sequence[TrainingLog] | None:
    """Return the training log at a path, or the logs in a folder, recognized and read; `-` is standard input.

    When: by `compare` and `explain`, for what is not a run. Called for every plugin, third parties first, until one
    returns a list; None leaves the path to the next one. Raise `UsageError` for what is not a log.

    Example::

        @hookimpl
        def read_logs(path):
            return [MyLog(path)] if path.suffix == ".mylog" else None
    """


@hookspec(firstresult=True)
def compute_flops(spec: RunSpec) -> Flops | None:
    """Return the model FLOPs of one sample with both conventions for attention, and the name of the formula.

    When: by `show`, by the size estimate and when a run is measured. Called for the run's framework. None: no MFU.

    Example::

        @hookimpl
        def compute_flops(spec):
            return Flops(full=6.0 * parameters * tokens, causal=6.0 * parameters * tokens, formula="6ND")
    """


@hookspec(firstresult=True)
def expect_configuration(spec: RunSpec, run_dir: Path | None) -> ExpectedConfiguration | None:
    """Return upstream's final configuration for this run, and the permitted differences.

    When: by `llmbx catalog diff`, and after a run has ended; `run_dir` is None for a configuration that was built
    without a run. Called for the run's framework. A record, even an empty one, declares that rank 0 of every run writes
    its final configuration to `configs/final.json`: a completed run without this file, or with a difference that is not
    permitted, is not comparable; one whose `facts` contradict the specification is invalid. None: it writes none.

    Example::

        @hookimpl
        def expect_configuration(spec, run_dir):
            values = json.loads((UPSTREAM / f"{spec.size}.json").read_text())
            paths = Permitted(keys=("data.path",), reason="the data is generated")
            return ExpectedConfiguration(upstream=values, source="toy 1.0, train.sh", permitted=(paths,))
    """


@hookspec(firstresult=True)
def configuration_program(spec: RunSpec) -> ConfigurationProgram | None:
    """Return the program that builds the final configuration of this run on a CPU, without training.

    When: by `llmbx catalog diff`. Called for the run's framework. None, or a `UsageError` that says why: it cannot.

    Example::

        @hookimpl
        def configuration_program(spec):
            lock = load_environment(LOCKS / "toy-cpu.toml")
            return ConfigurationProgram(environment=lock, argv=("build.py",), files={"build.py": BUILD})
    """


@hookspec
def figures(spec: RunSpec, run_dir: Path) -> Sequence[Figure]:
    """Return figures of a profiled or traced run, for `llmbx compare --gate`.

    When: by `compare` with a gate. Called for each of the run's profilers. Omit what the artifacts do not contain. Open
    files with `RunFolder(path=run_dir)`: the run may be a stranger's, who left a link or a pipe in their place.

    Example::

        @hookimpl
        def figures(spec, run_dir):
            return [Figure(name="exposed_communication", unit="s", values=(0.021, 0.019), step_s=0.31)]
    """


@hookspec
def report_sections(spec: RunSpec, run_dir: Path) -> Sequence[Section]:
    """Return report sections about the run's artifacts: text, figures, tables and charts.

    When: by `llmbx report`, for a run that has ended. Called for each of the run's profilers, and for every plugin that
    is no profiler. Use the files that the profiler's check wrote (`register_checks`); change no file, and be fast.
    Every number needs a unit. Open files with `RunFolder(path=run_dir)`, as in `figures`.

    Example::

        @hookimpl
        def report_sections(spec, run_dir):
            trace = json.loads(RunFolder(path=run_dir).read("trace.json"))
            waiting = Fact(name="waiting", value=trace["wait_s"], unit="s", formula="sum over ranks")
            return [Section(name="trace", title="Trace", facts=(waiting,))]
    """


@hookspec(firstresult=True)
def write_sections(path: Path, title: str, sections: Sequence[Section]) -> bool | None:
    """Write report sections to the file `path` as a page, and return True.

    When: by a plugin's own command that writes a page, through `Plugins.write_sections`. Called for every plugin until
    one returns True; return None if this plugin does not write pages. Raise `InfraError` if the file cannot be written.

    Example::

        @hookimpl
        def write_sections(path, title, sections):
            path.write_text(render(title, sections))
            return True
    """


@hookspec(firstresult=True)
def predict_run(spec: RunSpec, install: Install) -> Expected | None:
    """Return what the run is expected to measure: step time, throughput and memory, each with its interval.

    When: by `show`, `list --here` and `run` before the start; the record and the result keep it as a prediction.
    `install` may have figures of the user. Called for every plugin until one answers with a step time, third parties
    first; None: it cannot predict this run. Memory whose lower end the GPU lacks stops the run. It must be fast: 1 s.

    Example::

        @hookimpl
        def predict_run(spec, install):
            seconds = spec.global_batch_size * SECONDS_PER_SAMPLE / spec.gpus
            time = Bounds(value=seconds, low=0.9 * seconds, high=1.1 * seconds)
            return Expected(step_time_s=time, source="toy: the same time for each sample")
    """


@hookspec(firstresult=True)
def suspect_nodes(spec: RunSpec, install: Install, occasion: str) -> Mapping[str, str] | None:
    """Return the nodes that a run should not use, each with the reason, which the user is shown.

    When: before a run, a cell of a sweep or another attempt (`occasion`: run, sweep, retry). Called for every plugin
    until one answers. The launcher excludes them unless the user named the nodes.

    Example::

        @hookimpl
        def suspect_nodes(spec, install, occasion):
            return {"n7": "a GPU fell off the bus"} if occasion == "retry" else {}
    """


@hookspec(firstresult=True)
def find_runs(install: Install, text: str) -> RunGroup | None:
    """Return the runs that `text` names, if it is a name of this plugin: for example the id or folder of a sweep.

    When: by every command that takes a run, for `@NAME` and `tag:NAME` (the first run is used); by `llmbx report` for
    what is not a run. Called for every plugin until one returns runs; return None for an unknown name.

    Example::

        @hookimpl
        def find_runs(install, text):
            plan = install.path / "campaigns" / text
            return RunGroup(folders=tuple(plan.read_text().splitlines())) if plan.is_file() else None
    """


@hookspec(firstresult=True)
def register_settings() -> type[Settings] | None:
    """Return the class of this plugin's settings, which defines options, profile keys, variables, help and docs.

    When: by any command that has run options. Called for every plugin. `plugin` of the class must be the plugin's name.

    Example::

        class KueueSettings(Settings, frozen=True):
            plugin = "kueue"
            queue: Annotated[str | None, Option(help="Queue to submit to.", variables=("KUEUE_QUEUE",))] = None

        @hookimpl
        def register_settings():
            return KueueSettings
    """


@hookspec
def register_runtimes() -> Sequence[Runtime]:
    """Return runtimes: ways to give a program its libraries (an environment, a container tool …).

    When: once, by any command that runs something. Called for every plugin; llmbx registers its own so, too.

    Example::

        @hookimpl
        def register_runtimes():
            return [PodmanRuntime()]
    """


@hookspec
def register_launchers() -> Sequence[Launcher]:
    """Return launchers: ways to start the ranks of a run (local processes, a scheduler …).

    When: once, by any command that starts or follows a run. Called for every plugin; llmbx registers its own so, too.

    Example::

        @hookimpl
        def register_launchers():
            return [KubernetesLauncher()]
    """
