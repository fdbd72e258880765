"""Look up values in options, environment and cluster profile, also those of plugins, and record their origins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..catalog.workloads import dtype_name, size_name
from ..config.plugin_settings import check_keys, join
from ..config.request import Request
from ..errors import UsageError
from ..model import Workload
from ..phrases import did_you_mean

if TYPE_CHECKING:
    from ..config.profiles import Profile
    from ..plugins.manager import Plugins


class Layers:
    """The layers in which values are looked up, with the origin of each value found."""

    def __init__(
        self, request: Request, environ: Mapping[str, str], profile: Profile | None, sizes: Iterable[str] = ()
    ) -> None:  # fmt: skip
        self.request = request
        self.sizes = tuple(sizes)
        self.environment = Request.from_environ(environ)
        self.environ = environ
        self.profile = profile
        self.origins: dict[str, str] = {}
        self.plugin_settings: dict[str, dict[str, Any]] = {}

    def find(self, field: str, option: str = "") -> Any:
        """Return the value of option, environment or profile, in this order, or None."""
        names = {"dtype": dtype_name, "size": lambda name: size_name(name, self.sizes)}
        read: Callable[[Any], Any] = names.get(field, lambda value: value)
        value = getattr(self.request, field, None)
        if value is not None:
            return self.note(field, read(value), option or "--" + field.replace("_", "-"))
        if field in self.environment:
            value, variable = self.environment[field]
            return self.note(field, read(value), variable)
        value = getattr(self.profile.cluster, field, None) if self.profile else None
        return None if value is None or self.profile is None else self.note(field, value, self.profile.origin)

    def note(self, field: str, value: Any, origin: str) -> Any:
        """Record that `field` came from `origin`, and return the value."""
        self.origins[field] = origin
        return value


def join_plugin_settings(layers: Layers, plugins: Plugins) -> dict[str, dict[str, Any]]:
    """Return every plugin's settings that were set. Raises `UsageError` for a key or option that no plugin has."""
    requested, profile = layers.request.plugin_settings, layers.profile
    for name in requested:
        if name not in plugins.settings:
            raise UsageError(f"unknown key '{name}': no plugin has settings of this name"
                             f"{did_you_mean(name, plugins.settings)}")  # fmt: skip
    if profile is not None:
        check_keys(plugins.settings, profile, plugins.set_keys)
    joined = {name: settings_of_plugin(layers, name, plugins) for name in plugins.settings}
    return {name: values for name, values in joined.items() if values}


def take_framework_settings(layers: Layers, workload: Workload) -> dict[str, tuple[Any, str]]:
    """Remove the workload's settings from those of its plugin; return the value and origin of each.

    They are set by options, variables and the profile, and belong to `RunSpec.settings`.
    """
    joined = layers.plugin_settings.pop(workload.plugin, {})
    taken = {name: joined.pop(name) for name in [*joined] if name in workload.settings}
    if joined:
        layers.plugin_settings[workload.plugin] = joined
    return {name: (value, layers.origins.pop(f"{workload.plugin}.{name}")) for name, value in taken.items()}


def settings_of_plugin(layers: Layers, name: str, plugins: Plugins) -> dict[str, Any]:
    """Return one plugin's settings that were set, and record their origins as `plugin.field`."""
    request = layers.request
    kind, options, set_keys = (
        plugins.settings[name],
        request.plugin_settings.get(name, {}),
        plugins.set_keys.get(name, ()),
    )
    joined = join(kind, layers.profile, layers.environ, options, request.walltime_minutes, set_keys)
    for place, origin in joined.origins.items():
        layers.note(f"{name}.{place}", None, origin)
    return joined.values
