"""Slurm's settings: options of sbatch and srun, from the profile, the environment and the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from llmbx.config.plugin_settings import Layer, settings_of
from llmbx.errors import UsageError
from llmbx.model import RunSpec, Scalar
from llmbx.model.settings import Option, Settings

from .params import from_environ, option_name, parse_params

TABLES = ("sbatch", "srun", "gpus_per_node_flag")
"""Fields that are no option of sbatch themselves."""


class SlurmSettings(Settings, frozen=True):
    """The table `[clusters.NAME.slurm]`."""

    plugin: ClassVar[str] = "slurm"
    variable_prefixes: ClassVar[tuple[str, ...]] = ("ADDITIONAL_SLURM", "SBATCH", "SLURM")

    account: Annotated[str | None, Option(help="Account to charge.")] = None
    partition: Annotated[str | None, Option(help="Partition to submit to.")] = None
    qos: Annotated[str | None, Option(help="Quality of service.")] = None
    reservation: Annotated[str | None, Option(help="Reservation to use.")] = None
    constraint: Annotated[str | None, Option(help="Features that the nodes must have.")] = None
    nodelist: Annotated[str | None, Option(help="Nodes to run on.")] = None
    exclude: Annotated[str | None, Option(help="Nodes to leave out.")] = None
    gres: Annotated[str | None, Option(help="Generic resources of each node: gpu:8.")] = None
    segment: Annotated[int | None, Option(help="Nodes of one segment (block topologies).")] = None
    gpus_per_node_flag: Annotated[bool, Option(help="Pass --gpus-per-node to sbatch.", name="")] = False
    sbatch: Annotated[
        dict[str, Scalar], Option(help="Any other option of sbatch.", name="--slurm-arg", metavar="KEY=VALUE")
    ] = {}
    srun: Annotated[dict[str, Scalar], Option(help="Options of srun.", name="", metavar="KEY=VALUE")] = {}

    @classmethod
    def read_environ(cls, environ: Mapping[str, str]) -> dict[str, tuple[Any, str]]:
        """sbatch's own variables and the recipes'. Raises `UsageError` where they contradict each other."""
        found: dict[str, tuple[Any, str]] = {f"sbatch.{key}": said for key, said in from_environ(environ).items()}
        for key, value in parse_params(environ.get("ADDITIONAL_SLURM_PARAMS", "")).items():
            before = found.get(f"sbatch.{key}")
            if before is not None and before[0] != value:
                raise _contradiction(key, before[1], before[0], "ADDITIONAL_SLURM_PARAMS", value)
            found[f"sbatch.{key}"] = (value, "ADDITIONAL_SLURM_PARAMS")
        return found

    @classmethod
    def normalize(cls, layer: Layer) -> Layer:
        """Every option of sbatch under `sbatch`, by its long name, also one that stands beside the fields."""
        values = dict(layer.values)
        named = {key: values.pop(key) for key in [*values] if key not in TABLES and values[key] is not None}
        table = values.get("sbatch", {})
        if isinstance(table, dict):
            values["sbatch"] = long_options({option_name(key): value for key, value in {**named, **table}.items()})
        if isinstance(values.get("srun"), dict):
            values["srun"] = long_options(values["srun"])
        return layer.replace(values=values, origins={_place(place): said for place, said in layer.origins.items()})

    @classmethod
    def check_layers(cls, layers: Sequence[Layer], walltime_minutes: int | None) -> list[Layer]:
        """The user's own ways must not contradict each other; `--walltime` replaces the profile's time limit."""
        users: dict[str, tuple[str, str]] = {}
        for layer in layers:
            for key, value in layer.values.get("sbatch", {}).items() if layer.source != "profile" else ():
                origin = layer.origins[f"sbatch.{key}"]
                if key in users and users[key][0] != value:
                    raise _contradiction(key, users[key][1], users[key][0], origin, value)
                users[key] = (value, origin)
        if walltime_minutes is None:
            return [*layers]
        if "time" in users:
            both = f"--walltime says {walltime_minutes} minutes and {users['time'][1]} says {users['time'][0]!r}"
            raise UsageError(f"time limit: {both}; drop one of them")
        return [_without_time(layer) for layer in layers]


def sbatch_options(spec: RunSpec) -> dict[str, str]:
    """The options of sbatch that the user and the profile give a run, by long name; an empty value is a switch."""
    settings = settings_of(spec, SlurmSettings)
    flag = {"gpus-per-node": str(spec.gpus_per_node)} if settings.gpus_per_node_flag else {}
    return {**flag, **{key: str(value) for key, value in settings.sbatch.items()}}


def srun_options(spec: RunSpec) -> dict[str, str]:
    """The options of srun that the profile gives a run."""
    return {key: str(value) for key, value in settings_of(spec, SlurmSettings).srun.items()}


def with_option(spec: RunSpec, key: str, value: str, origin: str) -> RunSpec:
    """The specification with one option of sbatch changed."""
    own = spec.plugin_settings.get("slurm", {})
    changed = {**own, "sbatch": {**own.get("sbatch", {}), key: value}}
    new: RunSpec = spec.replace(
        plugin_settings={**spec.plugin_settings, "slurm": changed},
        origins={**spec.origins, f"slurm.sbatch.{key}": origin},
    )
    return new


def long_options(values: Mapping[str, Scalar]) -> dict[str, str]:
    """Options as texts: true is a switch, an empty value here; one that is false is left out."""
    return {
        key: "" if value is True else str(value)
        for key, value in values.items()
        if value is not False and value is not None
    }


def _place(place: str) -> str:
    """Where a value's origin is noted once the layer is normalized."""
    name, _, key = place.partition(".")
    if name in TABLES:
        return f"sbatch.{option_name(key)}" if name == "sbatch" else place
    return f"sbatch.{option_name(name)}"


def _without_time(layer: Layer) -> Layer:
    options = {key: value for key, value in layer.values.get("sbatch", {}).items() if key != "time"}
    origins = {place: origin for place, origin in layer.origins.items() if place != "sbatch.time"}
    return layer.replace(values={**layer.values, "sbatch": options}, origins=origins)


def _contradiction(key: str, one: str, first: str, other: str, second: str) -> UsageError:
    both = f"{one} says {first!r} and {other} says {second!r}"
    return UsageError(f"sbatch option {key}: {both}; drop one of them")
