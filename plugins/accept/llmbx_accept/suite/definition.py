"""A suite: a TOML file that says what an acceptance checks and what each item must reach."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal

from llmbx.api import Positive, Scalar, UsageError, Value, did_you_mean, read_toml

SUFFIX = ".toml"
WORDS = ("gpu", "node", "all", "node-all")
"""Scales by name: one GPU, one node, all nodes, and the doublings from one node to all."""

Names = str | tuple[str, ...]


class Limits(Value, frozen=True):
    """The criteria of an item, as its suite states them; percentages are texts ("95 %")."""

    published: str | None = None
    predicted: bool = False
    efficiency: str | None = None
    suspects: int | None = None


class Entry(Value, frozen=True):
    """One `[[items]]` of a suite. Lists are factors of a product, as in a sweep.

    `dtype` is a list, or a table of lists by GPU type, which then are the only GPU types of the item. `gpus` has
    numbers and `WORDS`. `settings` are those of the kind.
    """

    kind: Literal["doctor", "speed", "each-node", "pairs", "workload"]
    workload: str | None = None
    plugin: str | None = None
    recipe: str | None = None
    size: Names | None = None
    dtype: Names | dict[str, tuple[str, ...]] | None = None
    gpus: int | str | tuple[int | str, ...] = "node"
    steps: Positive | None = None
    window: str | None = None
    walltime_minutes: Positive | None = None
    repeats: Positive = 1
    set: dict[str, Scalar] = {}
    settings: dict[str, Scalar] = {}
    criteria: Limits = Limits()

    @property
    def runs_workload(self) -> bool:
        """Whether the item needs a workload: to run it, or for its environment with the PyTorch that measures."""
        return self.kind != "doctor"


class Suite(Value, frozen=True):
    """A suite. `source` says where the list of its items is from."""

    title: str
    items: tuple[Entry, ...]
    source: str | None = None

    @property
    def needs_all(self) -> bool:
        """Whether an item goes up to all nodes, which must then be known."""
        return any(scale in ("all", "node-all") for entry in self.items for scale in scales_of_entry(entry))


def shipped() -> dict[str, Traversable]:
    """The suites of llmbx by their names."""
    files = (resources.files(__package__) / "data").iterdir()
    return {file.name.removesuffix(SUFFIX): file for file in sorted(files, key=lambda file: file.name)}


def read_suite(name: str) -> tuple[str, Suite]:
    """The name of a suite and the suite: one of llmbx, or of a site by the path of its file.

    Raises `UsageError` with the place of what is wrong.
    """
    suites = shipped()
    place: Path | Traversable
    if name in suites:
        place = suites[name]
    elif name.endswith(SUFFIX) or len(Path(name).parts) > 1:
        place, name = Path(name), Path(name).stem
    else:
        listed = ", ".join(suites)
        raise UsageError(f"no suite '{name}'{did_you_mean(name, suites)}: {listed}, or the path of a TOML file")
    suite = read_toml(place, Suite)
    _check(suite, str(place))
    return name, suite


def _check(suite: Suite, place: str) -> None:
    """Raise `UsageError` for what the types do not exclude."""
    if not suite.items:
        raise UsageError(f"{place}: the suite has no [[items]]")
    for number, entry in enumerate(suite.items, 1):
        where = f"{place}: item {number} ({entry.kind})"
        if entry.runs_workload and entry.workload is None:
            raise UsageError(f"{where}: the key 'workload' is missing")
        if not entry.runs_workload and entry.workload is not None:
            raise UsageError(f"{where}: it has no workload")
        for scale in scales_of_entry(entry):
            if isinstance(scale, str) and scale not in WORDS:
                hint = did_you_mean(scale, WORDS)
                raise UsageError(f"{where}: gpus '{scale}'{hint}: expected a number, or {', '.join(WORDS)}")
            if isinstance(scale, int) and scale < 1:
                raise UsageError(f"{where}: gpus {scale}: expected a number from 1 on")


def scales_of_entry(entry: Entry) -> tuple[int | str, ...]:
    """The scales of an item as a tuple."""
    return entry.gpus if isinstance(entry.gpus, tuple) else (entry.gpus,)
