"""The checks of nodes: limits as data (limits.toml), and the configuration of the probe from them."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from llmbx.api import GpuType, UsageError, Value, did_you_mean, read_toml

from ..settings import SiteCheck

GPU_FACTS = ("gpu.", "cuda.", "nvlink.", "fabric.", "pcie.", "ib.gdr")
"""Beginnings of facts that a node without GPUs does not have."""

NOT_MEASURED = "not measured"


class Check(Value, frozen=True):
    """One property of a node, and what it must be; the keys are those of limits.toml.

    `off` is why the site does not check it.
    """

    id: str
    fact: str
    severity: Literal["error", "warning"]
    action: Literal["isolate", "reset", "watch"]
    means: str
    source: str
    rule: str | None = None
    limit: Any = None
    expected: str | None = None
    of: str | None = None
    factor: float | None = None
    drift: bool = False
    within: float | None = None
    false_alarms: str = NOT_MEASURED
    off: str | None = None


class CudaRow(Value, frozen=True):
    """The oldest driver for a release of CUDA, and the older branches that its forward compatibility package has."""

    cuda: int
    driver: int
    forward: tuple[int, ...] = ()


class Limits(Value, frozen=True):
    """The content of limits.toml."""

    check: tuple[Check, ...]
    cuda: tuple[CudaRow, ...]


@functools.cache
def read_limits() -> Limits:
    """Read the shipped limits."""
    limits: Limits = read_toml(Path(str(resources.files(__package__).joinpath("limits.toml"))), Limits)
    return limits


def checks_for(gpu_type: str | None, site: Mapping[str, SiteCheck] | None = None) -> tuple[Check, ...]:
    """The checks of a node with this type of GPUs (None: any); of a CPU node, those that need no GPU.

    `site` has the changes of a cluster profile. Raises `UsageError` for a check or a limit that does not exist.
    """
    checks = {check.id: check for check in read_limits().check}
    for name, change in (site or {}).items():
        if name not in checks:
            raise UsageError(f"accept.checks: no check '{name}'{did_you_mean(name, checks)}")
        checks[name] = _changed(checks[name], change)
    return tuple(check for check in checks.values() if gpu_type != "cpu" or not check.fact.startswith(GPU_FACTS))


def _changed(check: Check, change: SiteCheck) -> Check:
    new = {key: value for key in change.__struct_fields__ if (value := getattr(change, key)) is not None}
    for key in new.keys() & {"limit", "factor", "within"}:
        old = getattr(check, key)
        numbers = isinstance(old, int | float) and isinstance(new[key], int | float)
        if not numbers and type(old) is not type(new[key]):
            raise UsageError(f"accept.checks: {check.id} has no {key} such as {new[key]!r}")
    changed: Check = check.replace(**new)
    return changed


def program() -> str:
    """The text of the probe."""
    return resources.files(__package__).joinpath("node", "probe.py").read_text(encoding="utf-8")


def configuration(
    checks: Sequence[Check],
    *,
    gpus: int | None = None,
    gpu_type: str | None = None,
    cuda: str | None = None,
    folders: Sequence[str] = (),
) -> str:
    """The probe's argument: the checks, and what is expected of a node."""
    known = GpuType.builtin().get(gpu_type or "")
    expected = {"gpus": gpus, "match": list(known.match) if known and known.match else None}
    config = {
        "expected": {**expected, "cuda": cuda, "folders": list(folders)},
        "cuda": [_plain(row) for row in read_limits().cuda],
        "checks": [_plain(check) for check in checks],
    }
    return json.dumps(config)


def _plain(value: Value) -> dict[str, Any]:
    """The keys that are set, without the texts for people."""
    import msgspec

    texts = ("means", "source", "action", "false_alarms")
    table: dict[str, Any] = msgspec.to_builtins(value)
    return {key: part for key, part in table.items() if part is not None and key not in texts}
