"""How large an environment is: packages, download and disk usage, as its lock says."""

from __future__ import annotations

from llmbx.api import Environment


def packages(environment: Environment, *builds: str) -> int:
    """The number of packages, with those that these builds of `variants` need in addition."""
    further = [environment.variant_packages.get(build, ()) for build in builds]
    return sum(map(len, (*environment.steps, *further)))


def megabytes(environment: Environment, *builds: str) -> tuple[int | None, int | None]:
    """Download size and disk usage in MB with these builds; None if the lock does not say."""
    sized = [environment.variant_mb[build] for build in builds if build in environment.variant_mb]
    return sized[0] if sized else (environment.download_mb, environment.disk_mb)


def text(number: float | None) -> str:
    """A size in MB as text."""
    return "an unknown amount" if number is None else f"{number:,.0f} MB"
