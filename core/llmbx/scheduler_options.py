"""The scheduler's options of a run: cluster profile, `SBATCH_*`, `ADDITIONAL_SLURM_PARAMS` and `--slurm-arg` in one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .config.profiles import Profile
from .config.request import Request
from .errors import UsageError
from .model import Scalar

FIELDS = ("account", "partition", "qos", "reservation", "constraint", "nodelist", "exclude", "gres", "segment")
"""Members of a cluster profile that are options of the scheduler by the same name."""


def scheduler_options(
    request: Request, environ: Mapping[str, str], profile: Profile | None, origins: dict[str, str]
) -> dict[str, str]:
    """Options by long name; an empty value is a switch. Notes each origin under `scheduler.NAME`.

    A later layer replaces the profile's value. The user's own three ways must not contradict each other: that raises
    `UsageError` with both origins.
    """
    options: dict[str, str] = {}
    if profile:
        for key, value in _of_profile(profile):
            options[key] = value
            origins[f"scheduler.{key}"] = profile.origin
    users: dict[str, str] = {}
    for key, value, origin in _of_user(request, environ):
        if key in users and options[key] != value:
            both = f"{users[key]} says {options[key]!r} and {origin} says {value!r}"
            raise UsageError(f"scheduler option {key}: {both}; drop one of them")
        options[key], users[key] = value, origin
        origins[f"scheduler.{key}"] = origin
    if request.walltime_minutes is not None and "time" in users:
        both = f"--walltime says {request.walltime_minutes} minutes and {users['time']} says {options['time']!r}"
        raise UsageError(f"time limit: {both}; drop one of them")
    if request.walltime_minutes is not None and options.pop("time", None) is not None:
        del origins["scheduler.time"]  # --walltime replaces the profile's
    return options


def long_options(values: Mapping[str, Scalar]) -> dict[str, str]:
    """A file's options by long name: true is a switch, an empty value here; one that is false is left out."""
    return {
        key: "" if value is True else str(value)
        for key, value in values.items()
        if value is not False and value is not None
    }


def _of_profile(profile: Profile) -> Iterator[tuple[str, str]]:
    cluster = profile.cluster
    for field in FIELDS:
        if getattr(cluster, field) is not None:
            yield field, str(getattr(cluster, field))
    if cluster.gpus_per_node_flag and cluster.gpus_per_node is not None:
        yield "gpus-per-node", str(cluster.gpus_per_node)
    yield from long_options(cluster.sbatch).items()


def _of_user(request: Request, environ: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    from .launchers.slurm_params import from_environ, option_name, parse_params

    for key, (value, variable) in from_environ(environ).items():
        yield key, value, variable
    for key, value in parse_params(environ.get("ADDITIONAL_SLURM_PARAMS", "")).items():
        yield key, value, "ADDITIONAL_SLURM_PARAMS"
    for key, value in request.scheduler.items():
        yield option_name(key), value, "--slurm-arg"
