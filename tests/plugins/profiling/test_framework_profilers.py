"""Profiles of the frameworks' own profilers: only those of the current attempt count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.model import ProfileSpec, RunSpec
from llmbx_profiling import torch_profiler, xplane

SPAN = ProfileSpec(start=45, stop=50, ranks="first", tool="torch")


@pytest.mark.parametrize(("plugin", "name"), [(torch_profiler, "rank0.pt.trace.json.gz"), (xplane, "host.xplane.pb")])
def test_only_this_attempts_profile_counts(
    plugin: object, name: str, make_spec: Callable[..., RunSpec], tmp_path: Path
) -> None:
    analyze = plugin.analyze  # type: ignore[attr-defined]
    spec = make_spec(profile=SPAN)
    old, new = tmp_path / "attempts" / "0" / "profile" / name, tmp_path / "profile" / name
    for path in (old, new):
        path.parent.mkdir(parents=True)
    old.write_bytes(b"x")
    new.touch()
    (finding,) = analyze(spec, tmp_path)
    assert finding.rule == "profile_missing" and "steps 45-50 never started" in finding.problem
    new.write_bytes(b"x")
    assert analyze(spec, tmp_path) == []
    assert analyze(spec.replace(profile=None), tmp_path / "nowhere") == []
