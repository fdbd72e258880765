"""Train the minis of a plugin: every workload, and each formula that its dtypes and recipes have."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..catalog.scales import ANY
from ..codec import decode
from ..entry import operations
from ..model import Flops, RunSpec, Value, Workload
from ..model.settings import fields
from ..plugins.manager import Plugins
from .flops import Counted, compare
from .framework import smallest_scale
from .isolation import Isolated
from .log_parser import missing_steps
from .outcome import Found, together
from .preview import resolve_spec
from .running import command

MINI = "mini"


class Mini(Value, frozen=True):
    """A mini to train on a CPU, and the formula that it is compared with."""

    spec: RunSpec
    formula: Flops | None

    @property
    def place(self) -> str:
        """What it is, for a message."""
        return f"{self.spec.workload} {self.spec.dtype}"


@dataclasses.dataclass(frozen=True)
class Trained:
    """The end of the run of a mini, the step numbers of its log, and the operations of its last step."""

    exit_code: int
    stderr: str
    result: dict[str, Any] | None
    numbers: Sequence[int] = ()
    counted: Counted | None = None


class Minis:
    """The minis of one plugin; each is trained when a check needs it."""

    def __init__(self, plugin: str, plugins: Plugins) -> None:
        self._plugin, self._plugins = plugin, plugins
        self._workloads = [workload for workload in plugins.workloads if workload.plugin == plugin]
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
        lacking = {workload.name for workload in self._workloads} - {mini.spec.workload for mini in self.all}
        missing: list[Found] = [
            ("not checked", [f"{name}: it has no size '{MINI}' with a row for a CPU"]) for name in sorted(lacking)
        ]
        found = [check(mini) for mini in self.all]
        if len(self.all) + len(missing) > 1:
            places = [mini.place for mini in self.all]
            found = [(status, [f"{place}: {text}" for text in texts])
                     for place, (status, texts) in zip(places, found, strict=True)]  # fmt: skip
        return together([*found, *missing])

    def _of(self, workload: Workload) -> Iterator[Mini]:
        """Yield a mini for each formula: dtypes and recipes with equal FLOPs are one."""
        known: list[Flops | None] = []
        for recipe in workload.recipes:
            for row in recipe.rows:
                kinds = {"cpu", ANY} & {*row.gpu_types} if row.size == MINI else ()
                for dtype in row.dtypes if kinds else ():
                    spec = resolve_spec(
                        workload.name, plugin=self._plugin, size=MINI, dtype=dtype, gpu_type="cpu",
                        gpus=smallest_scale(row), recipe=recipe.name,
                    )  # fmt: skip
                    formula = self._plugins.framework(self._plugin).compute_flops(spec)
                    if formula not in known:
                        known.append(formula)
                        yield Mini(spec=spec, formula=formula)

    def _run(self, mini: Mini) -> Trained:
        spec = mini.spec
        key = (spec.workload, spec.dtype, spec.recipe)
        if key not in self._runs:
            self._runs[key] = _train(spec, self._plugins)
        return self._runs[key]

    def _trained(self, mini: Mini) -> Found:
        run = self._run(mini)
        if run.exit_code or run.result is None:
            return "failed", [f"llmbx run ended with exit code {run.exit_code}", *run.stderr.strip().splitlines()[-3:]]
        problems = list(_problems(run.result, run.numbers))
        loss = run.result["loss"]
        passed = f"{run.result['steps_seen']} steps, loss {loss['first']} to {loss['last']}"
        return ("failed", problems) if problems else ("ok", [passed])

    def _counted(self, mini: Mini) -> Found:
        run = self._run(mini)
        if mini.formula is None:
            return "not checked", ["compute_flops returned None"]
        if run.exit_code:
            return "not checked", ["the mini does not run"]
        if run.counted is None:
            return "not checked", ["the program counts no operations: see llmbx.entry.operations"]
        found = compare(run.counted, mini.formula)
        if found.problems:
            return "failed", [*found.problems]
        if found.unchecked:
            return "not checked", [f"{found.unchecked}; {found.text}"]
        return "ok", [found.text]


def _problems(result: dict[str, Any], numbers: Sequence[int]) -> Iterator[str]:
    loss = result["loss"]
    if not result["data_valid"]:
        yield f"the result is not valid: {result['cause']}"
    if loss["first"] is None or loss["last"] is None or loss["last"] >= loss["first"]:
        yield f"the loss does not fall: {loss['first']} to {loss['last']}"
    if gap := missing_steps(numbers):
        yield gap


def _train(spec: RunSpec, plugins: Plugins) -> Trained:
    """Train the mini with the command that a user types."""
    with tempfile.TemporaryDirectory(prefix="llmbx-check-") as folder:
        place = Isolated(Path(folder) / "llmbx").make()
        arguments = ("run", spec.workload, "--plugin", spec.plugin, "--size", spec.size, "--dtype", spec.dtype,
                     "--recipe", spec.recipe, "--gpus", str(spec.gpus), "--format", "json")  # fmt: skip
        done = command(
            place,
            *arguments,
            "--env",
            f"{operations.VARIABLE}=1",
            env={**_pip_settings(), **_runtime_settings(plugins)},
        )
        result = json.loads(done.stdout) if done.stdout.startswith("{") else None
        if done.folder is None:
            return Trained(done.exit_code, done.stderr, result)
        file = done.folder / operations.FILE
        counted = decode(file.read_bytes(), Counted) if file.is_file() else None
        return Trained(done.exit_code, done.stderr, result, [step.number for step in done.steps], counted)


def _pip_settings() -> dict[str, str]:
    """The user's configuration and caches of pip and uv: the isolated home has none."""
    home = Path.home()
    files = {"PIP_CONFIG_FILE": home / ".config/pip/pip.conf", "UV_CONFIG_FILE": home / ".config/uv/uv.toml"}
    caches = {"PIP_CACHE_DIR": home / ".cache/pip", "UV_CACHE_DIR": home / ".cache/uv"}
    found = {name: str(path) for name, path in files.items() if path.is_file()}
    return {**found, **{name: str(path) for name, path in caches.items()}, **_of_user(*files, *caches)}


def _runtime_settings(plugins: Plugins) -> dict[str, str]:
    """The user's variables for the plugins of runtimes, which say how environments and images are made."""
    owners = {runtime.plugin for runtime in plugins.runtimes().values()}
    kinds = (kind for name, kind in plugins.settings.items() if name in owners)
    return _of_user(*(name for kind in kinds for field in fields(kind) for name in field.option.variables))


def _of_user(*names: str) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}
