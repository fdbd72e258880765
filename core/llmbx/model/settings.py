"""Settings of a plugin: one typed record that defines its options, profile table, variables, help and docs.

`Handling` has the settings of how llmbx handles a run, which do not change what is trained. Such a setting is one line
in each of its two classes: its option, its key in a plan, its value in `run.json` and what comparisons ignore follow.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from .base import Natural, Seconds, Value

if TYPE_CHECKING:
    from .finding import Finding
    from .spec import RunSpec


class Option(Value, frozen=True):
    """How users set one field of a plugin's settings: `field: Annotated[str | None, Option(help="…")] = None`."""

    help: str
    """One line for `--help` and the docs."""
    name: str | None = None
    """Command-line option; None: `--PLUGIN-FIELD`; empty: no option."""
    metavar: str = ""
    """Placeholder of the value in `--help`; empty: derived from the type."""
    variables: tuple[str, ...] = ()
    """Environment variables that set the default; the first one that is set is used."""


class Layer(Value, frozen=True):
    """A plugin's settings from one source. The keys of `origins` are fields, or `field.key` for tables."""

    source: Literal["recipe", "profile", "environment", "options"]
    """Where the settings are from."""
    values: dict[str, Any] = {}
    """Value by field; a field that is a table has its keys."""
    origins: dict[str, str] = {}
    """Origin of each value, as `show` prints it."""


class Settings(Value, frozen=True):
    """Base class of a plugin's settings, registered with the hook `register_settings`.

    Every field has a default and an `Option` in its annotation. A field is a bool, int, float, str or `Literal` of
    texts, one of them or None, or a table (`dict[str, Scalar]`), whose option takes `KEY=VALUE` and can be repeated.
    Numbers may have limits (`Positive`, `Natural`, any `msgspec.Meta`). A run stores explicitly set values in
    `RunSpec.plugin_settings`; `settings_of` reads them as this record.

    The fields of a framework's class, except tables, are settings of all its workloads: recipes and rows of the catalog
    can set them, `--set KEY=VALUE` too, and a run stores them all in `RunSpec.settings`.
    """

    plugin: ClassVar[str] = ""
    """Name under which the plugin is registered; its profile table is `[clusters.NAME.PLUGIN]`."""
    variable_prefixes: ClassVar[tuple[str, ...]] = ()
    """Prefixes of other environment variables that change what the plugin does; tests run without these variables."""
    synonyms: ClassVar[Mapping[str, str]] = {}
    """The words of the plugin's users for options, commands, settings and names, suggested in messages:
    `{"--kueue-queue": "--local-queue -q", "cancel": "kdelete"}`.
    """

    @classmethod
    def read_environ(cls, environ: Mapping[str, str]) -> Mapping[str, tuple[Any, str]]:
        """Read variables that an `Option` cannot declare: field, or `field.key` of a table, -> (value, variable)."""
        return {}

    @classmethod
    def normalize(cls, layer: Layer) -> Layer:
        """Replace alternative spellings by one. The values are not yet validated and may have any type."""
        return layer

    @classmethod
    def check_layers(cls, layers: list[Layer], walltime_minutes: int | None) -> list[Layer]:
        """Check and filter the layers. Raises `UsageError` for contradictions, also with `--walltime`."""
        return layers

    @classmethod
    def unused(cls, spec: RunSpec) -> Sequence[Finding]:
        """Return findings about this plugin's settings of a run that does not use the plugin.

        `spec.origins` has the origin of `PLUGIN.FIELD`. Raises `UsageError` if the run must not start.
        """
        return ()


class Field(Value, frozen=True):
    """One field of a settings class.

    `kind` is bool, int, float, str or dict; `spelling` is the option's name; `choices` are the values of a `Literal`.
    """

    name: str
    kind: type
    option: Option
    spelling: str
    choices: tuple[str, ...] = ()
    optional: bool = False
    """Whether the value may be None."""


def fields(kind: type[Value]) -> list[Field]:
    """The fields of a class of settings. Raises `TypeError` for one without an `Option` or of an unsupported type."""
    return [*_fields(kind)]


@functools.cache
def _fields(kind: type[Value]) -> tuple[Field, ...]:
    return tuple(_field(kind, name, hint) for name, hint in hints(kind).items() if name in kind.__struct_fields__)


@functools.cache
def hints(kind: type[Value]) -> Mapping[str, Any]:
    """The annotations of a class of settings, with their limits; evaluating them takes long."""
    return typing.get_type_hints(kind, include_extras=True)


def _field(kind: type[Value], name: str, hint: Any) -> Field:
    option = next((extra for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Option)), None)
    if option is None:
        raise TypeError(f"{kind.__name__}.{name} has no Option in its annotation")
    plain = typing.get_args(hint)[0]
    union = typing.get_origin(plain) in (types.UnionType, typing.Union)
    members = typing.get_args(plain) if union else (plain,)
    parts = [part for part in members if part is not type(None)]
    bare = typing.get_args(parts[0])[0] if typing.get_origin(parts[0]) is typing.Annotated else parts[0]
    choices = typing.get_args(bare) if typing.get_origin(bare) is typing.Literal else ()
    python_type = (
        str if choices and all(isinstance(choice, str) for choice in choices) else typing.get_origin(bare) or bare
    )
    if python_type not in (bool, int, float, str, dict):
        raise TypeError(f"{kind.__name__}.{name}: expected a bool, int, float, str, Literal or dict, not {plain}")
    prefix = f"{kind.plugin}-" if issubclass(kind, Settings) else ""
    default = f"--{prefix}{name}".replace("_", "-")
    spelling = default if option.name is None else option.name
    return Field(
        name=name, kind=python_type, option=option, spelling=spelling, choices=choices, optional=type(None) in members
    )  # fmt: skip


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
