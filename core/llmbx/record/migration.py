"""Files that older versions of llmbx wrote, read as today's: the keys that they had."""

from __future__ import annotations

from typing import Any

from ..model.run_folder import OLD_SPEC, OLD_TRACE


def migrated(data: Any) -> Any:
    """Plain data of a record or sweep with every specification in it in today's form; anything else as it is."""
    if isinstance(data, list):
        return [migrated(item) for item in data]
    if not isinstance(data, dict):
        return data
    return {key: _spec(value) if key == "spec" else migrated(value) for key, value in data.items()}


def _spec(spec: Any) -> Any:
    if not isinstance(spec, dict):
        return spec
    given: dict[str, dict[str, Any]] = {}
    for old, (plugin, field) in OLD_SPEC.items():
        if spec.get(old):
            given.setdefault(plugin, {})[field] = spec[old]
    rest = {key: value for key, value in spec.items() if key not in OLD_SPEC}
    if isinstance(trace := rest.get("trace"), dict):
        given[trace.get("tool", "")] = {new: _text(trace[old]) for old, new in OLD_TRACE.items() if trace.get(old)}
        rest["trace"] = {key: value for key, value in trace.items() if key not in OLD_TRACE}
    if isinstance(origins := rest.get("origins"), dict):
        rest["origins"] = {_place(place): origin for place, origin in origins.items()}
    return {"plugin_settings": given, **rest}


def _text(value: Any) -> Any:
    return ",".join(map(str, value)) if isinstance(value, list) else value


def _place(place: str) -> str:
    old, dot, key = place.partition(".")
    return ".".join((*OLD_SPEC[old], key)) if dot and old in OLD_SPEC else place
