"""Which runtime a run uses when none is named: the first that offers itself and works here, with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..errors import InfraError, UsageError, did_you_mean
from ..model import ImageRequest, RunSpec
from .base import Offer, Runtime

if TYPE_CHECKING:
    from ..launchers.base import Launcher

AUTO = "auto"


def choose_runtime(
    spec: RunSpec, request: ImageRequest, launcher: Launcher, runtimes: Mapping[str, Runtime], preview: bool = False
) -> tuple[str, str]:
    """The runtime's name and why it was taken.

    A runtime that the user or the cluster profile names is taken; for ranks on this machine it must work here. `auto`
    takes the first, in the order of their offers, that works here. Raises `UsageError` for an unknown name or a runtime
    that the launcher or the image cannot use, `InfraError` when nothing works here; a `preview` of a run for elsewhere
    takes the one that is named, or the first that offers itself.
    """
    offers = _offers(spec, request, launcher, runtimes)
    asked = spec.image if spec.image is not None and spec.image.source == "--image" else None
    if spec.runtime != AUTO:
        name = _named(spec.runtime, launcher, runtimes)
        if asked and not getattr(runtimes[name], "uses_image", False):
            origin = spec.origins.get("runtime", "--runtime")
            raise UsageError(
                f"--image {asked.reference}: runtime {name} ({origin}) uses no image: "
                f"use --runtime {' or '.join(offers)}, or leave --image out"
            )
        if not (preview or launcher.remote) and (why_not := runtimes[name].available()):
            raise InfraError(f"runtime {name}: {why_not}")
        return name, spec.origins.get("runtime", "as asked")
    refused: list[str] = []
    for name, offer in offers.items():
        if why_not := runtimes[name].available():
            refused.append(f"{name}: {why_not}")
        else:
            return name, f"auto: {offer.reason}"
    if preview and offers:
        return next(iter(offers)), "assumed: no runtime for it works on this machine"
    tried = "; ".join(refused) or "the workload has neither an environment nor an image"
    if asked:
        raise InfraError(f"no container tool works here for --image {asked.reference} ({tried}): install one of them")
    raise InfraError(f"no runtime works here ({tried}): install one, or name one with --runtime")


def _named(name: str, launcher: Launcher, runtimes: Mapping[str, Runtime]) -> str:
    if name not in runtimes:
        raise UsageError(f"no runtime named '{name}'{did_you_mean(name, [*runtimes, AUTO])}")
    works_with = getattr(runtimes[name], "works_with", None)
    if works_with and (why_not := works_with(launcher)):
        raise UsageError(f"runtime {name} {why_not}")
    return name


def _offers(
    spec: RunSpec, request: ImageRequest, launcher: Launcher, runtimes: Mapping[str, Runtime]
) -> dict[str, Offer]:
    """The runtimes that offer themselves for this run, in the order of their ranks."""
    found: dict[str, Offer] = {}
    for name, runtime in runtimes.items():
        works_with, offers = getattr(runtime, "works_with", None), getattr(runtime, "offers", None)
        if offers is None or (works_with and works_with(launcher)):
            continue
        offer = offers(spec, request)
        if offer is not None:
            found[name] = offer
    return dict(sorted(found.items(), key=lambda item: item[1].rank))
