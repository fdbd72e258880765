"""Look up values in options, environment and cluster profile, and record their origins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..config.profiles import Profile
from ..config.request import Request, from_environ


class Layers:
    """The layers in which values are looked up, with the origin of each value found."""

    def __init__(self, request: Request, environ: Mapping[str, str], profile: Profile | None) -> None:
        self.request = request
        self.environment = from_environ(environ)
        self.environ = environ
        self.profile = profile
        self.origins: dict[str, str] = {}
        self.plugin_settings: dict[str, dict[str, Any]] = {}

    def find(self, field: str, option: str = "") -> Any:
        """Return the value of option, environment or profile, in this order, or None."""
        value = getattr(self.request, field, None)
        if value is not None:
            return self.note(field, value, option or "--" + field.replace("_", "-"))
        if field in self.environment:
            value, variable = self.environment[field]
            return self.note(field, value, variable)
        value = getattr(self.profile.cluster, field, None) if self.profile else None
        return None if value is None or self.profile is None else self.note(field, value, self.profile.origin)

    def note(self, field: str, value: Any, origin: str) -> Any:
        """Record that `field` came from `origin`, and return the value."""
        self.origins[field] = origin
        return value
