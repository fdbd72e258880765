"""The scheduler's options of a run: cluster profile, `SBATCH_*`, `ADDITIONAL_SLURM_PARAMS` and `--slurm-arg` in one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .config import Profile
from .errors import UsageError
from .request import Request

FIELDS = ("account", "partition", "qos", "reservation", "constraint", "nodelist", "exclude", "gres", "segment")
"""Members of a cluster profile that are options of the scheduler by the same name."""

VARIABLES = {
    "SBATCH_ACCOUNT": "account",
    "SBATCH_PARTITION": "partition",
    "SBATCH_QOS": "qos",
    "SBATCH_RESERVATION": "reservation",
    "SBATCH_CONSTRAINT": "constraint",
    "SBATCH_EXCLUSIVE": "exclusive",
    "SBATCH_GRES": "gres",
    "SBATCH_GPUS_PER_NODE": "gpus-per-node",
    "SBATCH_TIMELIMIT": "time",
}
"""sbatch's own input variables by the option they stand for."""


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
    return options


def _of_profile(profile: Profile) -> Iterator[tuple[str, str]]:
    cluster = profile.cluster
    for field in FIELDS:
        if getattr(cluster, field) is not None:
            yield field, str(getattr(cluster, field))
    for key, value in cluster.sbatch.items():
        if value is not False and value is not None:
            yield key, "" if value is True else str(value)


def _of_user(request: Request, environ: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for variable, key in VARIABLES.items():
        if environ.get(variable):
            yield key, environ[variable], variable
    text = environ.get("ADDITIONAL_SLURM_PARAMS", "")
    if text.strip():
        from .launchers.slurm_params import parse_params

        for key, value in parse_params(text).items():
            yield key, value, "ADDITIONAL_SLURM_PARAMS"
    for key, value in request.scheduler.items():
        yield key, value, "--slurm-arg"
