"""Join the settings of plugins from cluster profile, environment and command line, with the origin of each value."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from ..errors import UsageError
from ..model import ImageRequest, RunSpec, Value
from ..model.settings import Field, Layer, Settings, fields, hints
from ..phrases import did_you_mean
from ..toml_file import convert
from .profiles import Profile
from .request import FALSE, TRUE

S = TypeVar("S", bound=Settings)


class Joined(Value, frozen=True):
    """A plugin's effective settings: the fields that are set, and the origin of each."""

    values: dict[str, Any] = {}
    origins: dict[str, str] = {}


def settings_of(holder: RunSpec | ImageRequest, kind: type[S]) -> S:
    """The settings of a plugin stored in the specification of a run, or those of a runtime in its image request.

    The settings of the run's framework are those of the workload (`RunSpec.settings`).
    """
    own: dict[str, Any] = {}
    if isinstance(holder, RunSpec) and holder.plugin == kind.plugin:
        own = {name: value for name, value in holder.settings.items() if name in kind.__struct_fields__}
    return convert({**own, **holder.plugin_settings.get(kind.plugin, {})}, kind, f"settings of {kind.plugin}")


def current_settings(spec: RunSpec, kind: type[Settings], environ: Mapping[str, str]) -> dict[str, Any]:
    """The settings of a plugin for something that is done now for a run, which may have been resolved earlier.

    The variables of this process override recorded values, but not those of options.
    """
    recorded = spec.plugin_settings.get(kind.plugin, {})
    options = {place.split(".")[1] for place, origin in spec.origins.items()
               if place.startswith(f"{kind.plugin}.") and origin.startswith("--")}  # fmt: skip
    now = join(kind, None, environ, {}).values
    return {**recorded, **{name: value for name, value in now.items() if name not in options}}


def join(
    kind: type[Settings], profile: Profile | None, environ: Mapping[str, str], options: Mapping[str, Any],
    walltime_minutes: int | None = None, set_keys: Collection[str] = (),
) -> Joined:  # fmt: skip
    """Join the settings of one plugin: the command line overrides the environment, which overrides the profile.

    Tables are joined key by key. `set_keys` are keys of `--set` of a framework, which its table may also have. Raises
    `UsageError`, with the origin, for an unknown key or a value of the wrong type.
    """
    layers = []
    for layer, place in (_of_profile(kind, profile, set_keys), _of_environ(kind, environ), _of_options(kind, options)):
        layers.append(kind.normalize(layer))
        _check_options(layer, kind)
        convert(layers[-1].values, kind, place)
    return merged(kind.check_layers(layers, walltime_minutes))


def _check_options(layer: Layer, kind: type[Settings]) -> None:
    """Raise `UsageError` that names the option if a value is not within the limits of its field."""
    if layer.source != "options":
        return
    types = hints(kind)
    for name, value in layer.values.items():
        if name in types and not isinstance(value, dict | list | tuple):  # those only after `normalize`
            convert(value, types[name], f"{layer.origins[name]} {value}")


def with_defaults(
    kind: type[Settings], explicit: Mapping[str, Any], defaults: Mapping[str, Any], origin: str
) -> Joined:
    """Add a recipe's defaults to the settings that are set; the origins are those of the values that were added.

    Raises `UsageError`, with `origin`, for an invalid default.
    """
    layer = Layer(source="recipe", values=dict(defaults), origins=dict.fromkeys(_places(defaults), origin))
    layer = kind.normalize(layer)
    convert(layer.values, kind, origin)
    set_places = set(_places(explicit))
    return Joined(
        values=merged([layer, Layer(source="options", values=dict(explicit))]).values,
        origins={place: origin for place, origin in layer.origins.items() if place not in set_places},
    )


def check_keys(
    kinds: Mapping[str, type[Settings]], profile: Profile, set_keys: Mapping[str, Collection[str]] | None = None
) -> None:
    """Raise `UsageError` for a key of the profile that is unknown to core and plugins, or that several plugins have.

    `set_keys` are the keys of `--set` by framework; they may be in the framework's table.
    """
    owners: dict[str, list[str]] = {name: [name] for name in set_keys or {} if name not in kinds}
    for plugin, kind in kinds.items():
        owners.setdefault(plugin, []).append(plugin)
        for name in kind.__struct_fields__:
            owners.setdefault(name, []).append(plugin)
    place = f"{profile.file}: at clusters.{profile.name}"
    for key in profile.cluster.plugin_keys:
        if key not in owners:
            hint = did_you_mean(key, [*owners, *profile.cluster.__struct_fields__])
            raise UsageError(f"{place}: unknown key '{key}'{hint}")
        if len(owners[key]) > 1:
            tables = " or ".join(f"[clusters.{profile.name}.{plugin}]" for plugin in owners[key])
            raise UsageError(f"{place}: the key '{key}' belongs in {tables}")
    for plugin, keys in (set_keys or {}).items():
        _check_table(profile, plugin, [*keys, *getattr(kinds.get(plugin), "__struct_fields__", ())], place)


def _check_table(profile: Profile, plugin: str, keys: Collection[str], place: str) -> None:
    """Raise `UsageError` if a framework's entry in the profile is not a table, or has an unknown key."""
    table = profile.cluster.plugin_keys.get(plugin, {})
    if not isinstance(table, dict):
        raise UsageError(f"{place}.{plugin}: expected a table, got {table!r}")
    for key in table:
        if key not in keys:
            raise UsageError(f"{place}.{plugin}: unknown key '{key}'{did_you_mean(key, keys)}")


def merged(layers: Sequence[Layer]) -> Joined:
    """Merge the layers; later ones override earlier ones."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for layer in layers:
        for name, value in layer.values.items():
            values[name] = {**values.get(name, {}), **value} if isinstance(value, dict) else value
        origins |= layer.origins
    return Joined(values={name: value for name, value in values.items() if value not in (None, {})}, origins=origins)


def _of_profile(kind: type[Settings], profile: Profile | None, set_keys: Collection[str]) -> tuple[Layer, str]:
    """The plugin's settings in the profile (its own table and keys in the cluster's table), and their place."""
    if profile is None:
        return Layer(source="profile"), ""
    keys, place = profile.cluster.plugin_keys, f"{profile.file}: at clusters.{profile.name}"
    table = keys.get(kind.plugin, {})
    if not isinstance(table, dict):
        raise UsageError(f"{place}.{kind.plugin}: expected a table, got {table!r}")
    own = {key: value for key, value in table.items() if key in kind.__struct_fields__ or key not in set_keys}
    loose = {name: keys[name] for name in kind.__struct_fields__ if name in keys}
    values = {**loose, **own}
    layer = Layer(source="profile", values=values, origins=dict.fromkeys(_places(values), profile.origin))
    return layer, place if loose else f"{place}.{kind.plugin}"


def _of_environ(kind: type[Settings], environ: Mapping[str, str]) -> tuple[Layer, str]:
    variables: dict[str, tuple[Any, str]] = {}
    for field in fields(kind):
        for variable in field.option.variables:
            if text := environ.get(variable, "").strip():
                value = _read(field, text, variable)
                convert({field.name: value}, kind, f"{variable}={text!r}")
                variables[field.name] = (value, variable)
                break
    variables |= kind.read_environ(environ)
    values: dict[str, Any] = {}
    for place, (value, _) in variables.items():
        name, dot, key = place.partition(".")
        if dot:
            values.setdefault(name, {})[key] = value
        else:
            values[name] = value
    origins = {place: variable for place, (_, variable) in variables.items()}
    return Layer(source="environment", values=values, origins=origins), "environment"


def _of_options(kind: type[Settings], options: Mapping[str, Any]) -> tuple[Layer, str]:
    spelling = {field.name: field.spelling for field in fields(kind)}
    values = {name: value for name, value in options.items() if value not in (None, {})}
    origins = {place: spelling.get(place.partition(".")[0], kind.plugin) for place in _places(values)}
    return Layer(source="options", values=values, origins=origins), f"settings of {kind.plugin}"


def _places(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield `field`, or `field.key` for each key of a table."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from (f"{name}.{key}" for key in value)
        else:
            yield name


def _read(field: Field, text: str, variable: str) -> Any:
    if field.kind is bool:
        if text.lower() in (*TRUE, *FALSE):
            return text.lower() in TRUE
        raise UsageError(f"{variable}={text!r}: expected true or false")
    if field.choices and text not in field.choices:
        raise UsageError(f"{variable}={text!r}: expected {', '.join(field.choices[:-1])} or {field.choices[-1]}")
    try:
        return field.kind(text)
    except ValueError:
        raise UsageError(f"{variable}={text!r}: expected {'an integer' if field.kind is int else 'a number'}") from None
