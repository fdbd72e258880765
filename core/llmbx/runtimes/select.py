"""Choose the runtime of a run: the one that is named, or the first that offers itself and works here."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..errors import InfraError, LlmbxError, PluginError, UsageError
from ..model import ImageRequest, RunSpec
from ..model.launch import AUTO
from ..phrases import did_you_mean
from .base import Offer, Runtime

if TYPE_CHECKING:
    from ..launchers.base import Launcher


def choose_runtime(
    spec: RunSpec, request: ImageRequest, launcher: Launcher, runtimes: Mapping[str, Runtime], preview: bool = False
) -> tuple[str, str]:
    """Return the runtime's name and why it was chosen.

    A runtime that the user or the cluster profile names is used; for ranks on this machine it must work here. `auto`
    is the first runtime that works here, in the order of their offers. With `preview` the runtime need not work here:
    `auto` falls back to the first offer. Raises `UsageError` for an unknown name or a runtime that cannot be used with
    the launcher or the image, `InfraError` if no runtime works here.
    """
    offers = _offers(spec, request, launcher, runtimes)
    requested = spec.image if spec.image is not None and spec.image.source == "--image" else None
    if spec.runtime != AUTO:
        name = _named(spec.runtime, launcher, runtimes)
        if requested and not runtimes[name].uses_image:
            origin = spec.origins.get("runtime", "--runtime")
            raise UsageError(
                f"--image {requested.reference}: runtime {name} ({origin}) does not use images: "
                f"use --runtime {' or '.join(offers)}, or omit --image"
            )
        if not (preview or launcher.remote) and (why_not := runtimes[name].available()):
            raise InfraError(f"runtime {name}: {why_not}")
        return name, spec.origins.get("runtime", "as requested")
    refused: list[str] = []
    for name, offer in offers.items():
        if why_not := _unavailable(runtimes[name]):
            refused.append(f"{name}: {why_not}")
        else:
            return name, f"auto: {offer.reason}"
    if preview and offers:
        return next(iter(offers)), "assumed: no suitable runtime works on this machine"
    tried = "; ".join(refused) or "the workload has neither an environment nor an image"
    if requested:
        raise InfraError(f"no container tool works here for --image {requested.reference} ({tried}): install one")
    raise InfraError(f"no runtime works here ({tried}): install one, or choose one with --runtime")


def _named(name: str, launcher: Launcher, runtimes: Mapping[str, Runtime]) -> str:
    if name not in runtimes:
        raise UsageError(f"no runtime named '{name}'{did_you_mean(name, [*runtimes, AUTO])}")
    if why_not := runtimes[name].works_with(launcher):
        raise UsageError(f"runtime {name} {why_not}")
    return name


def _offers(
    spec: RunSpec, request: ImageRequest, launcher: Launcher, runtimes: Mapping[str, Runtime]
) -> dict[str, Offer]:
    """Return the runtimes that offer themselves for this run, sorted by rank. One that fails is reported."""
    offers: dict[str, Offer] = {}
    for name, runtime in runtimes.items():
        try:
            offer = None if runtime.works_with(launcher) else runtime.offers(spec, request)
        except LlmbxError as error:
            print(f"llmbx: warning: {error}; the runtime {name} is left out", file=sys.stderr)
            continue
        if offer is not None:
            offers[name] = offer
    return dict(sorted(offers.items(), key=lambda item: item[1].rank))


def _unavailable(runtime: Runtime) -> str | None:
    """Why the runtime cannot be used here, or None. A plugin that fails to tell is the reason."""
    try:
        return runtime.available()
    except PluginError as error:
        return str(error)
