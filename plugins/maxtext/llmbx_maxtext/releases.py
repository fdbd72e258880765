"""MaxText by release: how it is started, what its arguments and XLA flags are called, which road PGLE takes with it."""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Mapping
from importlib import resources

from llmbx.errors import UsageError, did_you_mean
from llmbx.model import Convention, RunSpec, Value
from llmbx.toml_file import read_toml

BY_IMAGE = "by-image"
"""The value of the settings `maxtext` and `pgle` that lets the image's date decide."""

_DAY = re.compile(r"(20\d\d)-(\d\d)-(\d\d)")
_MONTH = re.compile(r":(\d\d)\.(\d\d)(?!\d)")


class Release(Value, frozen=True):
    """One release of MaxText.

    It is started as a module, or by path where it is a source tree; `config` is relative to the package, or a path.
    `since` and `until` (days, half-open) say which images have it. Arguments and flags are templates of what
    `arguments.values` knows; one whose value is None is left out. `roads` are the ways of PGLE that work with it, its
    usual one first. `flops_convention` is how it counts the TFLOP/s that it prints.
    """

    name: str
    title: str
    since: str
    config: str
    converter: str
    roads: tuple[str, ...]
    flops_convention: Convention
    arguments: tuple[str, ...]
    shape: tuple[str, ...]
    profile: tuple[str, ...]
    flags: tuple[str, ...]
    until: str | None = None
    program: str = ""
    module: str = ""
    cpu: bool = False


@functools.cache
def releases() -> Mapping[str, Release]:
    """Every release that this plugin knows, by name."""
    folder = resources.files(__package__) / "releases"
    found = [read_toml(file, Release) for file in folder.iterdir() if file.name.endswith(".toml")]
    return {release.name: release for release in found}


def release_of(spec: RunSpec) -> Release:
    """The release that the run's image holds: the setting `maxtext`, else the image's date, else the recipe's driver.

    Raises `UsageError` for a name that is none of the releases.
    """
    asked = spec.settings.get("maxtext", BY_IMAGE)
    if asked != BY_IMAGE:
        return _named(str(asked))
    found = dated(spec.image.reference) if spec.image else None
    return found or _named(spec.driver.removeprefix("maxtext-"))


def dated(reference: str) -> Release | None:
    """The release in an image whose tag holds a date; None without a date, or where it falls between releases."""
    day = image_day(reference)
    known = releases().values()
    return next((r for r in known if day and r.since <= day < (r.until or "9999")), None)


def image_day(reference: str) -> str | None:
    """The day in an image's tag, as YYYY-MM-DD: `maxtext-2024-12-09` has one, `25.01-maxtext-py3` the month's first."""
    if match := _DAY.search(reference):
        return match[0]
    match = _MONTH.search(reference)
    try:
        return datetime.date(2000 + int(match[1]), int(match[2]), 1).isoformat() if match else None
    except ValueError:
        return None


def road_of(spec: RunSpec) -> str:
    """How the run does PGLE: "off", or one of the release's roads."""
    asked = str(spec.settings.get("pgle", "off"))
    return release_of(spec).roads[0] if asked == BY_IMAGE else asked


def _named(name: str) -> Release:
    try:
        return releases()[name]
    except KeyError:
        raise UsageError(f"no MaxText release named '{name}'{did_you_mean(name, releases())}") from None
