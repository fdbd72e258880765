"""Settings of how llmbx handles a run: they do not change what is trained.

A setting is one line in each class. Its option, its key in a plan, its value in `run.json` and what comparisons ignore
follow from them. The annotation of `Handling` has the text of the option.
"""

from __future__ import annotations

from typing import Annotated

from .base import Natural, Seconds, Value
from .settings import Option


class HandlingRequest(Value, frozen=True, kw_only=True):
    """The settings as a user sets them. None: not set."""

    accept_image_change: bool | None = None
    """`--accept-image-change`"""
    stall_timeout_s: Seconds | None = None
    """`--stall-timeout`"""
    retries: Natural | None = None
    """`--retries`"""


class Handling(Value, frozen=True, kw_only=True):
    """The settings of a resolved run."""

    accept_image_change: Annotated[
        bool,
        Option(help="Accept an image whose digest has changed since it was first recorded."),
    ] = False
    """Whether to accept an image whose digest has changed since it was first recorded."""
    stall_timeout_s: Annotated[
        Seconds | None,
        Option(
            name="--stall-timeout",
            metavar="SECONDS",
            help="Dump stacks and abort after SECONDS without log output.",
        ),
    ] = None
    """Seconds without log output after which the run is aborted."""
    retries: Annotated[
        Natural,
        Option(metavar="N", help="Retry infrastructure failures up to N times.  [default: 0]"),
    ] = 0
    """Maximum number of retries after an infrastructure failure."""
