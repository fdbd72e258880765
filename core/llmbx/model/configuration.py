"""The framework's final configuration: what upstream's is, which differences are permitted, and how to build it."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from .base import Value
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

    def __post_init__(self) -> None:
        for name in self.facts:
            if name not in FACTS:
                raise ValueError(f"facts: unknown name '{name}' (known: {', '.join(FACTS)})")


REFUSED = 2
"""Exit code of a `ConfigurationProgram` whose framework refuses the specification."""


class ConfigurationProgram(Value, frozen=True):
    """A program that builds the final configuration on a CPU, without training.

    It is started in a temporary folder with `files` and writes a JSON object to the file `configs/final.json` there, in
    the format of a run's. Exit code 2 (`REFUSED`) means that the framework refuses the specification, another one that
    the program failed; the last line of its stderr is shown.
    """

    environment: Environment
    """The Python environment, with the framework's version in the run's image."""
    argv: tuple[str, ...]
    """Arguments of the environment's interpreter."""
    files: dict[str, bytes] = {}
    """Content by path, relative to the folder."""
    env: dict[str, str] = {}
    """Environment variables, in addition to those of llmbx."""
