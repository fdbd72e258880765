"""Convert files of older versions of llmbx to the current format."""

from __future__ import annotations

from typing import Any

from ..model.run_folder import MOVED, OLD_SPEC, OLD_TRACE

RENAMED = {"doubts": "findings"}
"""Fields of a specification that have a new name, by the old one."""


def migrate(data: Any) -> Any:
    """Convert every specification in the plain data of a record or sweep to the current format."""
    if isinstance(data, list):
        return [migrate(item) for item in data]
    if not isinstance(data, dict):
        return data
    return {key: _spec(value) if key == "spec" else migrate(value) for key, value in data.items()}


def _spec(spec: Any) -> Any:
    settings = spec.get("plugin_settings", {}) if isinstance(spec, dict) else None
    if not isinstance(settings, dict) or not all(isinstance(table, dict) for table in settings.values()):
        return spec  # damaged: the caller names the member
    plugin_settings: dict[str, dict[str, Any]] = {name: {**table} for name, table in settings.items()}
    for old, (plugin, field) in OLD_SPEC.items():
        if spec.get(old):
            plugin_settings.setdefault(plugin, {})[field] = spec[old]
    spec = _without_moved(spec, plugin_settings)
    rest = {RENAMED.get(key, key): value for key, value in spec.items() if key not in OLD_SPEC}
    if isinstance(trace := rest.get("trace"), dict):
        moved = {new: _text(trace[old]) for old, new in OLD_TRACE.items() if trace.get(old)}
        if moved:
            plugin_settings.setdefault(trace.get("tool", ""), {}).update(moved)
        rest["trace"] = {key: value for key, value in trace.items() if key not in OLD_TRACE}
    if isinstance(origins := rest.get("origins"), dict):
        rest["origins"] = {_place(place): origin for place, origin in origins.items()}
    return {**rest, "plugin_settings": plugin_settings}


def _without_moved(spec: dict[str, Any], plugin_settings: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Move the node check and the GPU metrics of a specification to `plugin_settings`; return the other members."""
    rest, profile = dict(spec), spec.get("profile")
    if (check := rest.pop("preflight", None)) is not None:
        rest["repositories"] = check.get("repositories", [])
    switches = {"preflight": check is not None, "gpu_metrics": False}
    if isinstance(profile, dict):
        rest["profile"] = {key: value for key, value in profile.items() if key != "gpu_metrics"}
        switches["gpu_metrics"] = bool(profile.get("gpu_metrics"))
    for old, (plugin, field) in MOVED.items():
        if switches[old]:
            plugin_settings.setdefault(plugin, {})[field] = True
    return rest


def _text(value: Any) -> Any:
    return ",".join(map(str, value)) if isinstance(value, list) else value


def _place(place: str) -> str:
    if place in MOVED:
        return ".".join(MOVED[place])
    old, dot, key = place.partition(".")
    return ".".join((*OLD_SPEC[old], key)) if dot and old in OLD_SPEC else place
