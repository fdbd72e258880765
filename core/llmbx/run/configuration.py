"""The framework's final configuration: read it from a run, and use it as evidence."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import LlmbxError
from ..model import FINAL, ExpectedConfiguration, Value
from ..phrases import listed
from ..run_files import RunFolder

if TYPE_CHECKING:
    from ..plugins.manager import Plugins
    from ..record.folder import Run

UNVERIFIED = "configuration not verified"
"""Begins the warning about a run whose final configuration is not known."""

NAMED = 3
"""Number of fields that are named if a configuration differs from upstream's."""


LARGEST = 1 << 53
"""Largest number that a fact may have; the file is the job's, and may contain anything."""


class FinalConfiguration(Value, frozen=True):
    """A final configuration by flat key, and the versions of the packages that made it."""

    final: dict[str, Any]
    versions: dict[str, str] = {}


def read_final(folder: Path) -> FinalConfiguration | None:
    """Read the final configuration in a folder; None if there is none. Raises `LlmbxError` for a damaged file."""
    file = RunFolder(path=folder).file(FINAL)
    try:
        data = json.loads(file.read())
        if not isinstance(data["final"], dict):
            raise TypeError("'final' is not an object")
        return FinalConfiguration(final=data["final"], versions=dict(data.get("versions") or {}))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise LlmbxError(f"{file}: not a final configuration: {type(error).__name__}: {error}") from None


def stated(run: Run, plugins: Plugins) -> dict[str, int]:
    """Return the facts that the final configuration of an ended run states, by name; empty if it is not known.

    A fact whose keys are missing, or are not whole numbers up to `LARGEST`, is left out.
    """
    try:
        expected = plugins.framework(run.record.spec.plugin).expect_configuration(run.record.spec, run.path)
        final = read_final(run.path) if expected and expected.facts else None
    except LlmbxError:
        return {}  # `configuration_doubts` reports it
    return _facts(final, expected) if expected is not None and final is not None else {}


def _facts(final: FinalConfiguration, expected: ExpectedConfiguration) -> dict[str, int]:
    values: dict[str, list[Any]] = {
        name: [final.final.get(key) for key in keys] for name, keys in expected.facts.items()
    }
    return {name: math.prod(factors) for name, factors in values.items() if factors and all(map(_counts, factors))}


def _counts(value: object) -> bool:
    return type(value) is int and 0 <= value <= LARGEST


def _unstated(final: FinalConfiguration, expected: ExpectedConfiguration) -> str | None:
    """Return why a final configuration does not show which job ran, or None. A version may lack some fields."""
    keys = [key for names in expected.facts.values() for key in names]
    odd = [key for key in keys if final.final.get(key) is not None and not _counts(final.final[key])]
    if odd:
        return f"states no number in {listed(odd, NAMED)}"
    if expected.facts and not _facts(final, expected):
        return f"states nothing of {listed([*expected.facts], NAMED)}"
    return None


class Doubts(Value, frozen=True):
    """What the final configuration of a completed run says against comparing it."""

    reasons: tuple[str, ...] = ()
    """Why the run is not comparable."""
    warnings: tuple[str, ...] = ()
    """Those of the reasons that are also warnings."""
    versions: dict[str, str] = {}
    """Versions that the framework itself found: on the host, nothing else knows them."""


def configuration_doubts(run: Run, plugins: Plugins) -> Doubts:
    """Return what the final configuration of a completed run says.

    The run is not comparable if its framework writes its final configuration and this one did not, or if the
    configuration differs from upstream's, or from the requested one, in a field in which it may not. Profilers change
    the configuration, so that of a run with one is not compared.
    """
    spec = run.record.spec
    try:
        expected = plugins.framework(spec.plugin).expect_configuration(spec, run.path)
        final = read_final(run.path) if expected else None
    except LlmbxError as error:
        return _unverified(f": {error}")
    if expected is None:
        return Doubts()
    if final is None:
        return _unverified(f": the run wrote no {FINAL}")
    why = _unstated(final, expected)
    doubts = _unverified(f": {FINAL} {why}") if why else Doubts()
    differing = () if spec.profile or spec.trace else _differing(final, expected)
    return doubts.replace(reasons=(*doubts.reasons, *differing), versions=final.versions)


def _unverified(why: str) -> Doubts:
    warning = f"{UNVERIFIED}{why}"
    return Doubts(reasons=(warning,), warnings=(warning,))


def _differing(final: FinalConfiguration, expected: ExpectedConfiguration) -> tuple[str, ...]:
    """The line about fields that differ and may not; empty if there is none."""
    differences = expected.differences(final.final)
    keys = [difference.key for difference in differences if difference.reason is None]
    other = "upstream's" if expected.upstream is not None else "the requested one"
    return (f"the configuration differs from {other} in {listed(keys, NAMED)}",) if keys else ()
