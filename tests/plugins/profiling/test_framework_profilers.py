"""Profiles of the frameworks' own profilers: only those of the current attempt count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.model import ProfileSpec, RunSpec
from llmbx.model.evidence import Evidence
from llmbx_profiling import torch_profiler, xplane

SPAN = ProfileSpec(start=45, stop=50, ranks="first", tool="torch")


@pytest.mark.parametrize(("plugin", "name"), [(torch_profiler, "rank0.pt.trace.json.gz"), (xplane, "host.xplane.pb")])
def test_only_this_attempts_profile_counts(
    plugin: object, name: str, make_spec: Callable[..., RunSpec], tmp_path: Path
) -> None:
    (check,) = plugin.register_checks()  # type: ignore[attr-defined]
    spec = make_spec(profile=SPAN)
    evidence = Evidence(steps=(), spec=spec, run_dir=tmp_path)
    old, new = tmp_path / "attempts" / "0" / "profile" / name, tmp_path / "profile" / name
    for path in (old, new):
        path.parent.mkdir(parents=True)
    old.write_bytes(b"x")
    new.touch()
    assert "steps 45-50 never started" in check.test(evidence) and check.effect == "failed"
    new.write_bytes(b"x")
    assert check.test(evidence) is None
    assert check.test(evidence.replace(spec=spec.replace(profile=None), run_dir=tmp_path / "nowhere")) is None
