"""Train the minis of a plugin: one for each workload, and for each formula that it has."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from llmbx.api import Flops, RunSpec, Workload, decode
from llmbx.api.contract import setting_fields
from llmbx.api.verbs import Plugins

from .entry import operations
from .flops import Counted, compare
from .framework import ANY, row_spec
from .isolation import Isolated
from .log_parser import missing_steps
from .outcome import Found, judged, together
from .running import command
from .subject import Subject

MINI = "mini"

INSTALLERS = {
    "PIP_CONFIG_FILE": ".config/pip/pip.conf",
    "UV_CONFIG_FILE": ".config/uv/uv.toml",
    "PIP_CACHE_DIR": ".cache/pip",
    "UV_CACHE_DIR": ".cache/uv",
}
"""The configuration and caches of pip and uv: variable, and place in the user's home."""


@dataclasses.dataclass(frozen=True)
class Mini:
    """A mini to train on a CPU, and the formula that it is compared with."""

    spec: RunSpec
    formula: Flops | None

    @property
    def place(self) -> str:
        """What it is, for a message."""
        return f"{self.spec.workload} {self.spec.dtype}"


@dataclasses.dataclass(frozen=True)
class Trained:
    """The end of a mini's run, its step numbers, and the operations of its last step."""

    exit_code: int
    stderr: str
    result: dict[str, Any] | None
    numbers: Sequence[int] = ()
    counted: Counted | None = None


class Minis:
    """The minis of one plugin; each is trained when a check needs it."""

    def __init__(self, subject: Subject) -> None:
        self._plugins = subject.plugins
        workloads = subject.plugins.workloads
        self._workloads = [workload for workload in workloads if workload.plugin == subject.name]
        self._runs: dict[tuple[str, str, str], Trained] = {}

    @functools.cached_property
    def all(self) -> list[Mini]:
        """One mini for each workload and each formula that it has."""
        return [mini for workload in self._workloads for mini in self._of(workload)]

    def trained(self) -> Found:
        """Train each mini: the result is valid, no step is missing, and the loss falls."""
        return self._each(self._trained)

    def counted(self) -> Found:
        """Compare the operations that each mini counted with its formula."""
        return self._each(self._counted)

    def _each(self, check: Callable[[Mini], Found]) -> Found:
        names = {workload.name for workload in self._workloads}
        lacking = sorted(names - {mini.spec.workload for mini in self.all})
        parts = []
        for mini in self.all:
            status, texts = check(mini)
            if len(self.all) + len(lacking) > 1:
                texts = [f"{mini.place}: {text}" for text in texts]
            parts.append((status, texts))
        why_not = f"it has no size '{MINI}' with a row for a CPU"
        missing: list[Found] = [("not checked", [f"{name}: {why_not}"]) for name in lacking]
        return together([*parts, *missing])

    def _of(self, workload: Workload) -> Iterator[Mini]:
        """Yield a mini for each formula: dtypes and recipes with equal FLOPs are one."""
        framework = self._plugins.framework(workload.plugin)
        formulas: list[Flops | None] = []
        for spec in _mini_specs(workload):
            formula = framework.compute_flops(spec)
            if formula not in formulas:
                formulas.append(formula)
                yield Mini(spec, formula)

    def _run(self, mini: Mini) -> Trained:
        spec = mini.spec
        key = (spec.workload, spec.dtype, spec.recipe)
        if key not in self._runs:
            self._runs[key] = _train(spec, self._plugins)
        return self._runs[key]

    def _trained(self, mini: Mini) -> Found:
        run = self._run(mini)
        if run.exit_code or run.result is None:
            ended = f"llmbx run ended with exit code {run.exit_code}"
            return "failed", [ended, *run.stderr.strip().splitlines()[-3:]]
        loss = run.result["loss"]
        passed = f"{run.result['steps_seen']} steps, loss {loss['first']} to {loss['last']}"
        return judged([*_problems(run.result, run.numbers)], passed)

    def _counted(self, mini: Mini) -> Found:
        run = self._run(mini)
        if mini.formula is None:
            return "not checked", ["compute_flops returned None"]
        if run.exit_code:
            return "not checked", ["the mini does not run"]
        if run.counted is None:
            return "not checked", ["the program counts no operations: see llmbx.entry.operations"]
        comparison = compare(run.counted, mini.formula)
        if comparison.unchecked:
            return "not checked", [f"{comparison.unchecked}; {comparison.text}"]
        return judged(comparison.problems, comparison.text)


def _mini_specs(workload: Workload) -> Iterator[RunSpec]:
    for recipe in workload.recipes:
        for row in recipe.rows:
            if row.size == MINI and {"cpu", ANY} & {*row.gpu_types}:
                for dtype in row.dtypes:
                    yield row_spec(workload, recipe, row, dtype, "cpu")


def _problems(result: dict[str, Any], numbers: Sequence[int]) -> Iterator[str]:
    if not result["data_valid"]:
        yield f"the result is not valid: {result['cause']}"
    first, last = result["loss"]["first"], result["loss"]["last"]
    if first is None or last is None or last >= first:
        yield f"the loss does not fall: {first} to {last}"
    if gap := missing_steps(numbers):
        yield gap


def _train(spec: RunSpec, plugins: Plugins) -> Trained:
    """Train the mini with the command that a user types."""
    options = {
        "--plugin": spec.plugin,
        "--size": spec.size,
        "--dtype": spec.dtype,
        "--recipe": spec.recipe,
        "--gpus": str(spec.gpus),
        "--format": "json",
        "--env": f"{operations.VARIABLE}=1",
    }
    words = [word for pair in options.items() for word in pair]
    environ = {**_of_installers(), **_of_runtimes(plugins)}
    with tempfile.TemporaryDirectory(prefix="llmbx-check-") as folder:
        place = Isolated(Path(folder) / "llmbx").make()
        done = command(place, "run", spec.workload, *words, env=environ)
        result = json.loads(done.stdout) if done.stdout.startswith("{") else None
        if done.folder is None:
            return Trained(done.exit_code, done.stderr, result)
        file = done.folder / operations.FILE
        counted = decode(file.read_bytes(), Counted) if file.is_file() else None
        numbers = [step.number for step in done.steps]
        return Trained(done.exit_code, done.stderr, result, numbers, counted)


def _of_installers() -> dict[str, str]:
    """The user's configuration and caches of pip and uv: the isolated home has none."""
    paths = {name: Path.home() / place for name, place in INSTALLERS.items()}
    usable = {
        name: str(path) for name, path in paths.items() if path.is_file() or name.endswith("_DIR")
    }
    return {**usable, **_of_user(*paths)}


def _of_runtimes(plugins: Plugins) -> dict[str, str]:
    """The user's variables for the plugins of runtimes, which say how environments are made."""
    owners = {runtime.plugin for runtime in plugins.runtimes().values()}
    kinds = (kind for name, kind in plugins.settings.items() if name in owners)
    fields = (field for kind in kinds for field in setting_fields(kind))
    return _of_user(*(name for field in fields for name in field.option.variables))


def _of_user(*names: str) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}
