"""The framework's final configuration: what upstream's is, which differences are permitted, and how to build it."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from .base import Scalar, Value
from .image import Environment

FINAL = "configs/final.json"
"""File to which rank 0 writes the final configuration, relative to the run folder: `{"versions": {name: version},
"final": {key: value}}` with flat, dotted keys."""


class Permitted(Value, frozen=True):
    """Fields in which a configuration may differ from upstream's, and why."""

    keys: tuple[str, ...]
    """Keys, whole sections, or patterns with `*`."""
    reason: str
    """Why the difference is intended."""
    absent: bool = False
    """Whether the difference is permitted only if the configuration lacks the key."""

    def covers(self, key: str, there: bool = True) -> bool:
        """Return whether a difference in `key` is permitted; `there`: whether the configuration has the key."""
        named = any(key.startswith(f"{each}.") or fnmatchcase(key, each) for each in self.keys)
        return named and not (self.absent and there)


FACTS = (
    "world_size", "global_batch_size", "micro_batch_size", "microbatches", "sequence_length", "layers", "hidden_size",
    "vocab_size", "heads", "query_groups", "head_width", "ffn_hidden_size", "experts", "experts_per_token",
    "moe_ffn_hidden_size", "shared_ffn_hidden_size", "latent_size", "mtp_layers", "kv_rank", "q_rank", "key_width",
    "rope_width", "value_width", "ssm_heads", "ssm_head_width", "ssm_state",
)  # fmt: skip
"""The facts of a final configuration that the checks compare with what was asked for."""


class FieldDifference(Value, frozen=True):
    """One field in which the final configuration differs from upstream's."""

    key: str
    """The flat key."""
    upstream: tuple[Any, ...]
    """Upstream's value alone; empty if its configuration lacks the key."""
    final: tuple[Any, ...]
    """The final value alone; empty if the final configuration lacks the key."""
    reason: str | None = None
    """Why the difference is permitted; None if it is not."""

    def row(self) -> dict[str, Any]:
        """Return the difference as JSON: a side that lacks the key has no member."""
        sides = {name: side[0] for name in ("upstream", "final") if (side := getattr(self, name))}
        return {"key": self.key, **sides, **({"reason": self.reason} if self.reason else {})}


class ExpectedConfiguration(Value, frozen=True):
    """What the final configuration of a run is compared with."""

    upstream: dict[str, Any] | None = None
    """Upstream's value by flat key; None if upstream's configuration is not known."""
    source: str | None = None
    """Where upstream's values come from, as a reader would cite it."""
    other: tuple[str, ...] = ()
    """Beginnings of keys that do not belong to the configuration (the launch, for example) and are not compared."""
    permitted: tuple[Permitted, ...] = ()
    """Permitted differences."""
    facts: dict[str, tuple[str, ...]] = {}
    """The keys that state what was asked for, by the names of facts (`FACTS`): a fact is the product of its keys. A run
    that states another value is invalid."""
    requested: dict[str, Any] = {}
    """The values that llmbx's launch sets, by flat key. They are compared in place of upstream's if those are not
    known."""

    def __post_init__(self) -> None:
        for name in self.facts:
            if name not in FACTS:
                raise ValueError(f"facts: unknown name '{name}' (known: {', '.join(FACTS)})")

    def differences(self, final: Mapping[str, Any]) -> list[FieldDifference]:
        """Return every field in which `final` differs from upstream's configuration, sorted by key.

        Values are compared as JSON: 1 and 1.0 are equal, 1 and true are not. If upstream's configuration is not known,
        the requested values are compared in its place.
        """
        upstream = self.requested if self.upstream is None else self.upstream
        pairs = [(key, _side(upstream, key), _side(final, key)) for key in self.compared(final)]
        return [
            FieldDifference(key=key, upstream=theirs, final=ours, reason=self._reason(key, bool(ours)))
            for key, theirs, ours in pairs
            if not _equal(theirs, ours)
        ]

    def compared(self, final: Mapping[str, Any]) -> list[str]:
        """Return the keys that `differences` compares, sorted."""
        keys = self.requested.keys() if self.upstream is None else final.keys() | self.upstream.keys()
        return sorted(key for key in keys if not key.startswith(self.other))

    def _reason(self, key: str, there: bool) -> str | None:
        return next((entry.reason for entry in self.permitted if entry.covers(key, there)), None)


def _side(values: Mapping[str, Any], key: str) -> tuple[Any, ...]:
    return (values[key],) if key in values else ()


def _equal(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal; in Python, `True == 1`."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        same_keys = left.keys() == right.keys()
        return same_keys and all(_equal(value, right[key]) for key, value in left.items())
    return bool(left == right)


REFUSED = 2
"""Exit code of a `ConfigurationProgram` whose framework refuses the specification."""


class ConfigurationProgram(Value, frozen=True):
    """A program that builds the final configuration on a CPU, without training.

    It is started in a temporary folder with `files` and writes a JSON object to the file `configs/final.json` there, in
    the format of a run's. Exit code 2 (`REFUSED`) means that the framework refuses the specification, another one that
    the program failed; the last line of its stderr is shown. Without `argv` nothing is started: `files` has the file.
    """

    environment: Environment
    """The Python environment, with the framework's version in the run's image."""
    argv: tuple[str, ...]
    """Arguments of the environment's interpreter."""
    files: dict[str, bytes] = {}
    """Content by path, relative to the folder."""
    env: dict[str, str] = {}
    """Environment variables, in addition to those of llmbx."""
    checkout: tuple[str, ...] = ()
    """Arguments with which the program executes a source tree of the framework instead; `{source}` in them is its
    folder. Empty if it cannot."""


class Proposal(Value, frozen=True):
    """A launcher's part of a cluster profile."""

    gpu_name: str | None = None
    """How the scheduler calls the nodes' GPUs: a product name, or a part of it such as h100."""
    gpus_per_node: int | None = None
    """Number of GPUs of a node."""
    settings: dict[str, Scalar] = {}
    """Settings of the launcher's plugin."""
    comments: dict[str, str] = {}
    """What is known about a setting, by its name; one that `settings` does not have is written as a comment."""
