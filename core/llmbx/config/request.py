"""A user's request before it is resolved: options, `--set` pairs, and the environment variables of the recipes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import UsageError
from ..model import HandlingRequest

_TAG = re.compile(r"[A-Za-z0-9][\w.+:/-]*")

TRUE = ("1", "true", "yes", "on")
FALSE = ("", "0", "false", "no", "off")


class Request(HandlingRequest, frozen=True, kw_only=True):
    """A request to run or show a workload. None means that the value is not set and comes from another source.

    `settings` are raw `--set` pairs, `env` raw `--env` pairs, `plugin_settings` options of plugins by plugin and field.
    `wrappers` are the profilers named by `--with`. `profile_steps` is "A-B" (half-open, counted from 0). `steps_option`
    is the name of the option that sets `steps`, which depends on the verb.
    """

    workload: str
    plugin: str | None = None
    size: str | None = None
    dtype: str | None = None
    gpu_type: str | None = None
    gpus: int | None = None
    gpus_per_node: int | None = None
    recipe: str | None = None
    steps: int | None = None
    steps_option: str = "--steps"
    window: str | None = None
    runtime: str | None = None
    launcher: str | None = None
    image: str | None = None
    cluster: str | None = None
    settings: dict[str, str] = {}
    env: dict[str, str] = {}
    mounts: tuple[str, ...] = ()
    plugin_settings: dict[str, dict[str, Any]] = {}
    tags: tuple[str, ...] = ()
    wrappers: tuple[str, ...] = ()
    force: bool = False
    walltime_minutes: int | None = None
    profile: bool | None = None
    profile_steps: str | None = None
    profile_ranks: str | None = None
    profile_tool: str | None = None
    keep_secrets: bool | None = None
    checkpoint: bool | None = None
    load_checkpoint: str | None = None

    @staticmethod
    def from_environ(environ: Mapping[str, str]) -> dict[str, tuple[Any, str]]:
        """Read the recipes' variables: field -> (value, variable). Raises `UsageError` for an invalid value."""
        values: dict[str, tuple[Any, str]] = {}
        for field, (kind, names) in VARIABLES.items():
            for name in names:
                text = environ.get(name, "").strip()
                if text:
                    values[field] = (_read(kind, text, name), name)
                    break
        return values


VARIABLES: dict[str, tuple[type, tuple[str, ...]]] = {
    "gpus": (int, ("JOB_TOTAL_GPUS",)),
    "gpu_type": (str, ("GPU_TYPE",)),
    "dtype": (str, ("DTYPE",)),
    "size": (str, ("MODEL_SIZE",)),
    "gpus_per_node": (int, ("GPUS_PER_NODE",)),
    "profile": (bool, ("ENABLE_PROFILE",)),
    "profile_start": (int, ("RUN_CONF_PROFILE_START_STEP", "PROFILE_START_STEP")),
    "profile_stop": (int, ("RUN_CONF_PROFILE_STOP_STEP", "PROFILE_STOP_STEP")),
    "checkpoint": (bool, ("ENABLE_CHECKPOINT",)),
    "load_checkpoint": (str, ("LOAD_CHECKPOINT_PATH",)),
}
"""The environment variables of the recipes, by the field whose default they set; the first one that is set counts."""

MINIMUM = {"JOB_TOTAL_GPUS": 1, "GPUS_PER_NODE": 1}
"""The smallest valid number, by variable."""

STAGE_PATH_NOTE = (
    "STAGE_PATH is no longer used: set LLMB_INSTALL (top folder) and, if needed, LLMB_WORKLOAD (one workload's "
    "folder); all output, logs and checkpoints now lie under LLMB_WORKLOAD"
)


def parse_pairs(option: str, pairs: tuple[str, ...]) -> dict[str, str]:
    """Parse `key=value` texts. Raises `UsageError` for a text without `=` and for a duplicate key."""
    values: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"{option} {pair!r}: expected KEY=VALUE")
        if key.strip() in values:
            raise UsageError(f"{option} {key.strip()}: set twice ({values[key.strip()]!r} and {value!r})")
        values[key.strip()] = value
    return values


def _read(kind: type, text: str, name: str) -> Any:
    if kind is bool:
        if text.lower() in TRUE:
            return True
        if text.lower() in FALSE:
            return False
        raise UsageError(f"{name}={text!r}: expected true or false")
    if kind is int:
        try:
            value = int(text)
        except ValueError:
            raise UsageError(f"{name}={text!r}: expected an integer") from None
        if value < MINIMUM.get(name, value):
            raise UsageError(f"{name}={text!r}: expected an integer >= {MINIMUM[name]}")
        return value
    return text.lower() if name in ("GPU_TYPE", "DTYPE", "MODEL_SIZE") else text


def check_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """The tags without duplicates. Raises `UsageError` for an invalid tag."""
    for tag in tags:
        if not _TAG.fullmatch(tag):
            raise UsageError(f"tag '{tag}': expected one word of letters, digits and . _ + : / - (example: accepted)")
    return tuple(dict.fromkeys(tags))
