"""MaxText releases: how each is started, its arguments and XLA flags, and the PGLE modes that it supports."""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Mapping
from importlib import resources

from llmbx.api import Convention, RunSpec, UsageError, Value, did_you_mean, read_toml

from .settings import settings

BY_IMAGE = "by-image"
"""The value of the settings `maxtext` and `pgle` that selects them by the date of the image."""

_DAY = re.compile(r"(20\d\d)-(\d\d)-(\d\d)")
_MONTH = re.compile(r"(?::|_dl)(\d\d)\.(\d\d)(?!\d)")


class Release(Value, frozen=True):
    """One release of MaxText.

    It is started as `module`, or as the file `program` if it is a source tree; `config` is relative to the package, or
    a path. Images with a date from `since` to before `until` contain it. `arguments`, `shape`, `profile` and `flags`
    are templates for the values of `arguments.values`; a template whose value is None is left out. `modes` are the
    supported PGLE modes, the default one first. `flops_convention` is the convention of the TFLOP/s that it prints.
    """

    name: str
    title: str
    since: str
    config: str
    converter: str
    modes: tuple[str, ...]
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
    """Return every supported release by name."""
    folder = resources.files(__package__) / "releases"
    supported = [read_toml(file, Release) for file in folder.iterdir() if file.name.endswith(".toml")]
    return {release.name: release for release in supported}


def release_of(spec: RunSpec) -> Release:
    """Return the release in the run's image: from the setting `maxtext`, the image's date, or the recipe's driver.

    Raises `UsageError` if there is no release of that name.
    """
    name = settings(spec).maxtext
    if name != BY_IMAGE:
        return _named(name)
    release = dated(spec.image.reference) if spec.image else None
    return release or _named(spec.driver.removeprefix("maxtext-"))


def dated(reference: str) -> Release | None:
    """Return the release in an image by the date in its tag; None without a date, or if it is between releases."""
    day = image_day(reference)
    supported = releases().values()
    return next((r for r in supported if day and r.since <= day < (r.until or "9999")), None)


def image_day(reference: str) -> str | None:
    """Return the day in an image's tag as YYYY-MM-DD, or None.

    `maxtext-2024-12-09` contains a day; for `25.01-maxtext-py3` and `cuda_dl25.02` it is the first day of the month.
    """
    if match := _DAY.search(reference):
        return match[0]
    match = _MONTH.search(reference)
    try:
        return datetime.date(2000 + int(match[1]), int(match[2]), 1).isoformat() if match else None
    except ValueError:
        return None


def pgle_mode(spec: RunSpec) -> str:
    """Return the PGLE mode of the run: "off", or one of the release's `modes`."""
    mode = settings(spec).pgle
    return release_of(spec).modes[0] if mode == BY_IMAGE else mode


def _named(name: str) -> Release:
    try:
        return releases()[name]
    except KeyError:
        raise UsageError(f"no MaxText release named '{name}'{did_you_mean(name, releases())}") from None
