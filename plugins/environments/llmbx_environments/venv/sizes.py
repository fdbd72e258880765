"""How large an environment is: packages, download and disk usage, as its lock says."""

from __future__ import annotations

from llmbx.api import Environment


def packages(environment: Environment, *builds: str) -> int:
    """The number of packages, with those that these builds of `variants` need in addition."""
    return sum(
        map(
            len,
            (
                *environment.steps,
                *(environment.variant_packages.get(build, ()) for build in builds),
            ),
        )
    )


def megabytes(environment: Environment, build: str = "") -> tuple[int | None, int | None]:
    """Download size and disk usage in MB with this build of `variants`; None if the lock does not have them."""
    return environment.variant_mb.get(build, (environment.download_mb, environment.disk_mb))


def text(number: float | None) -> str:
    """A size in MB as text."""
    return "an unknown amount" if number is None else f"{number:,.0f} MB"


def describe(environment: Environment, build: str = "") -> str:
    """All three, for one line."""
    download, disk = megabytes(environment, build)
    return f"{packages(environment, build)} packages, {text(download)} to download, {text(disk)} on disk"
