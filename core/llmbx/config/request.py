"""What the user asked for, before anything is resolved: options, `--set` pairs, and the recipes' variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import UsageError
from ..model import Value

TRUE = ("1", "true", "yes", "on")
FALSE = ("", "0", "false", "no", "off")


class Request(Value, frozen=True):
    """One request to run (or show) a workload. None means: not given here, look further.

    `settings` are raw `--set` pairs, `env` raw `--env` pairs, `plugin_settings` options of plugins by plugin and field.
    `wrappers` are the profilers asked for by `--with`, `profile_steps` is "A-B" (half-open, from zero), `steps_option`
    is the name of the option for `steps`, which not every verb calls `--steps`.
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
    accept_image_change: bool = False
    cluster: str | None = None
    settings: dict[str, str] = {}
    env: dict[str, str] = {}
    mounts: tuple[str, ...] = ()
    plugin_settings: dict[str, dict[str, Any]] = {}
    tags: tuple[str, ...] = ()
    wrappers: tuple[str, ...] = ()
    force: bool = False
    walltime_minutes: int | None = None
    stall_timeout_s: float | None = None
    retries: int | None = None
    preflight: bool | None = None
    profile: bool | None = None
    profile_steps: str | None = None
    profile_ranks: str | None = None
    profile_tool: str | None = None
    gpu_metrics: bool | None = None
    keep_secrets: bool | None = None
    checkpoint: bool | None = None
    load_checkpoint: str | None = None


VARIABLES: dict[str, tuple[type, tuple[str, ...]]] = {
    "gpus": (int, ("JOB_TOTAL_GPUS",)),
    "gpu_type": (str, ("GPU_TYPE",)),
    "dtype": (str, ("DTYPE",)),
    "size": (str, ("MODEL_SIZE",)),
    "gpus_per_node": (int, ("GPUS_PER_NODE",)),
    "profile": (bool, ("ENABLE_PROFILE",)),
    "profile_start": (int, ("RUN_CONF_PROFILE_START_STEP", "PROFILE_START_STEP")),
    "profile_stop": (int, ("RUN_CONF_PROFILE_STOP_STEP", "PROFILE_STOP_STEP")),
    "gpu_metrics": (bool, ("ENABLE_GPU_METRICS",)),
    "checkpoint": (bool, ("ENABLE_CHECKPOINT",)),
    "load_checkpoint": (str, ("LOAD_CHECKPOINT_PATH",)),
}
"""The recipes' environment variables by the field they are a default of; the first one set wins."""

LEAST = {"JOB_TOTAL_GPUS": 1, "GPUS_PER_NODE": 1}
"""The smallest number that makes sense, by variable."""

STAGE_PATH_NOTE = (
    "STAGE_PATH is no longer used: set LLMB_INSTALL (top folder) and, if needed, LLMB_WORKLOAD (one workload's "
    "folder); all output, logs and checkpoints now lie under LLMB_WORKLOAD"
)


def from_environ(environ: Mapping[str, str]) -> dict[str, tuple[Any, str]]:
    """Field -> (value, variable) for the recipes' variables that are set. Raises `UsageError` for a bad value."""
    found: dict[str, tuple[Any, str]] = {}
    for field, (kind, names) in VARIABLES.items():
        for name in names:
            text = environ.get(name, "").strip()
            if text:
                found[field] = (_read(kind, text, name), name)
                break
    return found


def parse_pairs(option: str, pairs: tuple[str, ...]) -> dict[str, str]:
    """`key=value` texts as a dict. Raises `UsageError` for a text without `=` and for a key given twice."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"{option} {pair!r}: expected KEY=VALUE")
        if key.strip() in found:
            raise UsageError(f"{option} {key.strip()}: given twice ({found[key.strip()]!r} and {value!r})")
        found[key.strip()] = value
    return found


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
            raise UsageError(f"{name}={text!r}: expected a whole number") from None
        if value < LEAST.get(name, value):
            raise UsageError(f"{name}={text!r}: expected a whole number of at least {LEAST[name]}")
        return value
    return text.lower() if name in ("GPU_TYPE", "DTYPE", "MODEL_SIZE") else text
