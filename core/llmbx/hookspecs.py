"""The whole contract between llmbx and its plugins, on one page.

A plugin is a module (or object) named by an entry point in the group `llmbx`. It implements any of these functions,
each marked with `@llmbx.hookimpl`. "Asked of all" hooks are collected from every plugin; "asked of the chosen
framework" hooks go to the one plugin whose workload is being run; "asked of each chosen profiler" hooks go to the
profilers that the run names, in order. Every value that crosses is a frozen record from `llmbx.model`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from .config.install import Install
    from .launchers.base import Launcher
    from .logs.parser import LogFormat, LogParser
    from .model import Figure, Finding, Image, ImageRequest, Launch, Profiler, RunGroup, RunSpec, Section, Workload
    from .model.flops import Flops
    from .model.settings import Settings
    from .runtimes.base import Runtime

VERSION = (1, 0)
"""The version of this contract and of `llmbx.api`; see there."""

hookspec = pluggy.HookspecMarker("llmbx")


@hookspec
def register_workloads() -> Sequence[Workload]:
    """The workloads this plugin can run, with sizes, recipes, defaults and published references.

    When: once, by any command that names a workload. Asked of all. Must be quick: data only, no framework import.

    Example::

        @hookimpl
        def register_workloads():
            return [load_workload(resources.files(__package__) / "catalog" / "toy.toml")]
    """


@hookspec
def check_spec(spec: RunSpec) -> Sequence[Finding]:
    """Rules of the framework that the resolved run breaks, beyond those that hold for every framework.

    When: before anything starts. Asked of the chosen framework, and of each chosen profiler (the size of its files).
    Return every finding at once, or an empty list.

    Example::

        @hookimpl
        def check_spec(spec):
            if spec.dtype == "fp8" and spec.gpu_type == "a100":
                return [Finding(rule="dtype", problem="A100 has no FP8", fix="use --dtype bf16")]
            return []
    """


@hookspec(firstresult=True)
def prepare_image(spec: RunSpec) -> ImageRequest | None:
    """Which environment or container image the run needs: a pure value, nothing is fetched here.

    When: after the run is resolved and valid. Asked of the chosen framework. Core has the runtime fetch and verify
    what is asked for.

    Example::

        @hookimpl
        def prepare_image(spec):
            lock = load_environment(LOCKS / "toy.toml")
            return ImageRequest(environment=lock, reference="registry.example#team/toy:1")
    """


@hookspec(firstresult=True)
def build_command(spec: RunSpec, image: Image) -> Launch | None:
    """The launch: how many ranks on how many nodes, which files they need, and the phases with one rank's argv each.

    When: once the image is known. Asked of the chosen framework. Pure: the same arguments give the same launch, so it
    is tested against golden files. The argv is that of ONE rank: the launcher starts the ranks, which find themselves
    through LLMBX_RANK, LLMBX_LOCAL_RANK, LLMBX_WORLD_SIZE, LLMBX_LOCAL_WORLD_SIZE, LLMBX_MASTER_ADDR and
    LLMBX_MASTER_PORT.

    Example::

        @hookimpl
        def build_command(spec, image):
            phase = Phase(role="train", argv=(image.python, "train.py", str(spec.steps)))
            return Launch(nodes=1, ranks_per_node=1, gpus_per_rank=0, phases=(phase,), files={"train.py": SOURCE})
    """


@hookspec(firstresult=True)
def register_profiler() -> Profiler | None:
    """What this profiler does to the runs that it wraps: how long they are, and whether their figures still count.

    When: by any command that resolves a run. Asked of each chosen profiler. A profiler without it has the defaults: its
    runs compare with no other's.

    Example::

        @hookimpl
        def register_profiler():
            return Profiler(takes_steps=True, disturbs="")
    """


@hookspec(firstresult=True)
def wrap_command(spec: RunSpec, launch: Launch) -> Launch | None:
    """The launch with a profiler around it: a new value, made from `launch`.

    When: after `build_command`, once for each profiler that the run names, in order; each gets what the one before
    returned. Asked of each chosen profiler. None leaves the launch as it is.

    Example::

        @hookimpl
        def wrap_command(spec, launch):
            first = launch.phases[0]
            timed = first.replace(prefixes=(*first.prefixes, Prefix(argv=("/usr/bin/time", "-v"))))
            return launch.replace(phases=(timed, *launch.phases[1:]))
    """


@hookspec
def log_formats() -> Sequence[LogFormat]:
    """The log formats this plugin reads, each with a sniffer, a parser and its usual measuring window.

    When: by `llmbx parse`, which asks every format how sure it is of a file. Asked of all.

    Example::

        @hookimpl
        def log_formats():
            return [LogFormat(name="toy", title="Toy", sniff=lambda text: text.count("toy step"), parser=ToyParser)]
    """


@hookspec(firstresult=True)
def parse_log(spec: RunSpec | None) -> LogParser | None:
    """An incremental parser for the log of this run (or, without a spec, of the plugin's newest format).

    When: live, while the run goes on, and once more over the whole log when it has ended. Asked of the chosen
    framework.

    Example::

        @hookimpl
        def parse_log(spec):
            return ToyParser()
    """


@hookspec(firstresult=True)
def compute_flops(spec: RunSpec) -> Flops | None:
    """Model FLOPs of one sample, under both conventions of counting attention, with the formula's id.

    When: by `show`, by the size estimate and when a run is measured. Asked of the chosen framework.

    Example::

        @hookimpl
        def compute_flops(spec):
            return Flops(full=6.0 * parameters * tokens, causal=6.0 * parameters * tokens, formula="6ND")
    """


@hookspec
def analyze(spec: RunSpec, run_dir: Path) -> Sequence[Finding]:
    """What the artefacts of a profiled run show, for its report.

    When: after a run with this profiler has ended. Asked of each chosen profiler. A finding that is no `warning` (a
    profile that was asked for is not there, say) fails the run; all of them are in its result's warnings or cause.

    Example::

        @hookimpl
        def analyze(spec, run_dir):
            return [Finding(rule="trace", problem="no trace was written", fix="see trace.log", warning=True)]
    """


@hookspec
def figures(spec: RunSpec, run_dir: Path) -> Sequence[Figure]:
    """Figures of a profiled or traced run that `llmbx compare --gate` can hold against another run's.

    When: by `compare` with a gate. Asked of each profiler of the run. A figure that the artefacts do not show is left
    out, never 0.

    Example::

        @hookimpl
        def figures(spec, run_dir):
            return [Figure(name="exposed_communication", unit="s", values=(0.021, 0.019), step_s=0.31)]
    """


@hookspec
def report_sections(spec: RunSpec, run_dir: Path) -> Sequence[Section]:
    """What a report says of the run's artefacts: sections of words, figures, tables and charts, which core draws.

    When: by `llmbx report`, of a run that has ended. Asked of each chosen profiler that has it. Reads what `analyze`
    left; it must be quick, and change nothing. Every number has its unit: a value without one cannot be made.

    Example::

        @hookimpl
        def report_sections(spec, run_dir):
            found = json.loads((run_dir / "trace.json").read_text())
            waiting = Fact(name="waiting", value=found["wait_s"], unit="s", formula="sum over ranks")
            return [Section(name="trace", title="Trace", facts=(waiting,))]
    """


@hookspec(firstresult=True)
def write_sections(path: Path, title: str, sections: Sequence[Section]) -> bool | None:
    """Write sections to the file `path` as a page; True when it is written.

    When: by a plugin's own verb that has a page to write, through `Plugins.write_sections`. Asked of all until one has
    written it. Raises `InfraError` when the file cannot be written.

    Example::

        @hookimpl
        def write_sections(path, title, sections):
            path.write_text(render(title, sections))
            return True
    """


@hookspec(firstresult=True)
def find_runs(install: Install, text: str) -> RunGroup | None:
    """The runs that `text` names, where it names something of this plugin's: the id or folder of a sweep, say.

    When: by `llmbx report`, for a text that is not a run. Asked of all until one knows it; None when it does not.

    Example::

        @hookimpl
        def find_runs(install, text):
            plan = install.path / "campaigns" / text
            return RunGroup(folders=tuple(plan.read_text().splitlines())) if plan.is_file() else None
    """


@hookspec(firstresult=True)
def register_settings() -> type[Settings] | None:
    """The class of this plugin's settings: its options, profile table, variables, help and docs are made of it.

    When: by any command that takes run options. Asked of all. The class's `plugin` is the plugin's name.

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
    """Runtimes: ways to give a program its libraries (an environment, a container tool …).

    When: once, by any command that runs something. Asked of all; core registers its own through the same hook.

    Example::

        @hookimpl
        def register_runtimes():
            return [PodmanRuntime()]
    """


@hookspec
def register_launchers() -> Sequence[Launcher]:
    """Launchers: ways to start the ranks of a run (local processes, a scheduler …).

    When: once, by any command that runs or follows something. Asked of all; core registers its own the same way.

    Example::

        @hookimpl
        def register_launchers():
            return [KubernetesLauncher()]
    """
