"""Slurm settings: options of sbatch and srun from the profile, environment variables and the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from llmbx.api import Layer, Option, RunSpec, Scalar, Settings, UsageError, settings_of

from . import time_limit
from .params import from_environ, option_name, parse_params

TABLES = ("sbatch", "srun", "gpus_per_node_flag", "preflight", "vboost", "max_wait", "max_outage")
"""Fields that are not options of sbatch themselves."""

MAX_WAIT = "7-0"
"""How long a job may be pending, unless the user sets another time: a week."""

MAX_OUTAGE = "1:00:00"
"""How long Slurm's commands may fail while a run is followed, unless the user sets another time: an hour."""


class SlurmSettings(Settings, frozen=True):
    """The table `[clusters.NAME.slurm]`."""

    plugin: ClassVar[str] = "slurm"
    variable_prefixes: ClassVar[tuple[str, ...]] = ("ADDITIONAL_SLURM", "SBATCH", "SLURM")
    synonyms: ClassVar[Mapping[str, str]] = {
        "--slurm-account": "-A",
        "--slurm-arg comment=TEXT": "--comment",
        "--slurm-arg exclusive": "--exclusive",
        "--slurm-arg mem=SIZE": "--mem --memory",
        "--slurm-nodelist": "-w --nodelist",
        "--slurm-partition": "--queue",
        "--slurm-qos": "-q",
        "cancel": "scancel",
        "jobs": "squeue sacct",
        "run": "sbatch srun salloc",
        "slurm": "sbatch srun",
    }

    account: Annotated[str | None, Option(help="Account to charge.")] = None
    partition: Annotated[str | None, Option(help="Partition to submit to.")] = None
    qos: Annotated[str | None, Option(help="Quality of service.")] = None
    reservation: Annotated[str | None, Option(help="Reservation to use.")] = None
    constraint: Annotated[str | None, Option(help="Features that the nodes must have.")] = None
    nodelist: Annotated[str | None, Option(help="Nodes to run on.")] = None
    exclude: Annotated[str | None, Option(help="Nodes to exclude.")] = None
    gres: Annotated[str | None, Option(help="Generic resources per node, for example gpu:8.")] = None
    segment: Annotated[
        str | None,
        Option(
            help="Nodes per segment (block topologies): a number, none, auto (the largest divisor of the number of "
            "nodes that an NVLink domain holds) or auto-if-larger (auto for runs larger than an NVLink domain).",
            metavar="N",
        ),
    ] = None
    vboost: Annotated[
        int | None,
        Option(help="Level of nvidia-smi's boost slider, set on every node before the start; 0 leaves it as it is."),
    ] = None
    gpus_per_node_flag: Annotated[bool, Option(help="Pass --gpus-per-node to sbatch.", name="")] = False
    sbatch: Annotated[
        dict[str, Scalar], Option(help="Any other option of sbatch.", name="--slurm-arg", metavar="KEY=VALUE")
    ] = {}
    srun: Annotated[dict[str, Scalar], Option(help="Options of srun.", name="", metavar="KEY=VALUE")] = {}
    max_wait: Annotated[
        str | None,
        Option(
            help="How long a job may be pending before it is cancelled: a time as for sbatch --time (minutes, "
            "D-H:M …), or unlimited. [default: 7-0, a week]",
            metavar="TIME",
        ),
    ] = None
    max_outage: Annotated[
        str | None,
        Option(
            help="How long Slurm's commands may fail before llmbx stops following a run, whose job continues: a time "
            "as for sbatch --time (minutes, H:M:S …), or unlimited. [default: 1:00:00, an hour]",
            metavar="TIME",
        ),
    ] = None
    preflight: Annotated[
        bool | None,
        Option(help="Check all nodes before the start. [default: on several nodes with GPUs]", name="--preflight"),
    ] = None

    @classmethod
    def read_environ(cls, environ: Mapping[str, str]) -> dict[str, tuple[Any, str]]:
        """Options from sbatch's variables and ADDITIONAL_SLURM_PARAMS. Raises `UsageError` if they conflict."""
        options: dict[str, tuple[Any, str]] = {f"sbatch.{key}": value for key, value in from_environ(environ).items()}
        for key, value in parse_params(environ.get("ADDITIONAL_SLURM_PARAMS", "")).items():
            before = options.get(f"sbatch.{key}")
            if before is not None and before[0] != value:
                raise _conflict(key, before[1], before[0], "ADDITIONAL_SLURM_PARAMS", value)
            options[f"sbatch.{key}"] = (value, "ADDITIONAL_SLURM_PARAMS")
        return options

    @classmethod
    def normalize(cls, layer: Layer) -> Layer:
        """Move every sbatch option into the table `sbatch`, by long name, including keys that are not fields."""
        values = dict(layer.values)
        named = {key: values.pop(key) for key in [*values] if key not in TABLES and values[key] is not None}
        table = values.get("sbatch", {})
        if isinstance(table, dict):
            values["sbatch"] = long_options({option_name(key): value for key, value in {**named, **table}.items()})
        if isinstance(values.get("srun"), dict):
            values["srun"] = long_options(values["srun"])
        return layer.replace(values=values, origins={_origin_key(key): origin for key, origin in layer.origins.items()})

    @classmethod
    def check_layers(cls, layers: list[Layer], walltime_minutes: int | None) -> list[Layer]:
        """Check the user's options for conflicts; `--walltime` replaces the time limit of the profile.

        Raises `UsageError` if variables and command line set an option to different values.
        """
        users: dict[str, tuple[str, str]] = {}
        for layer in layers:
            for key, value in layer.values.get("sbatch", {}).items() if layer.source != "profile" else ():
                origin = layer.origins[f"sbatch.{key}"]
                if key in users and users[key][0] != value:
                    raise _conflict(key, users[key][1], users[key][0], origin, value)
                users[key] = (value, origin)
        if walltime_minutes is None:
            return [*layers]
        if "time" in users:
            both = f"--walltime sets {walltime_minutes} minutes, but {users['time'][1]} sets {users['time'][0]!r}"
            raise UsageError(f"time limit: {both}; remove one of them")
        return [_without_time(layer) for layer in layers]


def sbatch_options(spec: RunSpec) -> dict[str, str]:
    """The sbatch options of a run from user and profile, by long name; an empty value is a flag without a value."""
    settings = settings_of(spec, SlurmSettings)
    flag = {"gpus-per-node": str(spec.gpus_per_node)} if settings.gpus_per_node_flag else {}
    return {**flag, **{key: str(value) for key, value in settings.sbatch.items()}}


def queue_limit(spec: RunSpec) -> tuple[float, str] | None:
    """How many seconds the job of a run may be pending, and where that is set; None: for ever.

    Raises `UsageError` for an invalid time.
    """
    return _limit(spec, "max_wait", settings_of(spec, SlurmSettings).max_wait or MAX_WAIT)


def outage_limit(spec: RunSpec) -> tuple[float, str] | None:
    """How many seconds Slurm's commands may fail while a run is followed, and where that is set; None: for ever.

    Raises `UsageError` for an invalid time.
    """
    return _limit(spec, "max_outage", settings_of(spec, SlurmSettings).max_outage or MAX_OUTAGE)


def _limit(spec: RunSpec, name: str, text: str) -> tuple[float, str] | None:
    origin = f"{name}={text} ({spec.origins.get(f'slurm.{name}', 'default')})"
    try:
        seconds = time_limit.seconds(text)
    except ValueError as error:
        raise UsageError(f"{origin}: {error}") from None
    option = f"--slurm-{name.replace('_', '-')}"
    return None if seconds is None else (float(seconds), f"the limit is {origin}, which {option} changes")


def srun_options(spec: RunSpec) -> dict[str, str]:
    """The srun options of a run from the profile."""
    return {key: str(value) for key, value in settings_of(spec, SlurmSettings).srun.items()}


def with_option(spec: RunSpec, key: str, value: str, origin: str) -> RunSpec:
    """The specification with one sbatch option changed; `origin` is recorded for it."""
    own = spec.plugin_settings.get("slurm", {})
    changed = {**own, "sbatch": {**own.get("sbatch", {}), key: value}}
    new: RunSpec = spec.replace(
        plugin_settings={**spec.plugin_settings, "slurm": changed},
        origins={**spec.origins, f"slurm.sbatch.{key}": origin},
    )
    return new


def long_options(values: Mapping[str, Any]) -> dict[str, str]:
    """Options as strings: true becomes an empty value (a flag), false and None are omitted, lists name nodes."""
    return {key: _text(key, value) for key, value in values.items() if value is not False and value is not None}


def _text(key: str, value: Any) -> str:
    if value is True or isinstance(value, str | int | float):
        return "" if value is True else str(value)
    of_nodes = key in ("nodelist", "exclude")
    names = value if of_nodes and isinstance(value, list | tuple) else ()
    if not names or not all(isinstance(name, str) for name in names):
        expected = "a list of names of nodes" if of_nodes else "a text, a number or true"
        raise UsageError(f"sbatch option {key}: expected {expected}, got {value!r}")
    return ",".join(names)


def _origin_key(path: str) -> str:
    """The key of a value's origin in the normalized layer."""
    name, _, key = path.partition(".")
    if name in TABLES:
        return f"sbatch.{option_name(key)}" if name == "sbatch" else path
    return f"sbatch.{option_name(name)}"


def _without_time(layer: Layer) -> Layer:
    options = {key: value for key, value in layer.values.get("sbatch", {}).items() if key != "time"}
    origins = {key: origin for key, origin in layer.origins.items() if key != "sbatch.time"}
    return layer.replace(values={**layer.values, "sbatch": options}, origins=origins)


def _conflict(key: str, first_source: str, first: str, second_source: str, second: str) -> UsageError:
    both = f"{first_source} sets {first!r}, but {second_source} sets {second!r}"
    return UsageError(f"sbatch option {key}: {both}; remove one of them")
