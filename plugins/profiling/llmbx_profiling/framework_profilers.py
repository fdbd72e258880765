"""Check that a framework's own profiler wrote a profile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llmbx.api import Finding, RunSpec


def missing(spec: RunSpec, run_dir: Path, patterns: Sequence[str], what: str) -> list[Finding]:
    """Return an error if this attempt wrote no file matching `patterns`; the number of files is not checked."""
    profile, earlier = spec.profile, run_dir / "attempts"
    found = (file for pattern in patterns for file in run_dir.rglob(pattern) if not file.is_relative_to(earlier))
    if profile is None or any(file.stat().st_size for file in found):
        return []
    return [
        Finding(
            rule="profile_missing",
            problem=f"the run wrote no {what}: the capture of steps {profile.start}-{profile.stop} never started",
            fix=f"check that the run reaches step {profile.start}, or use --tool nsys",
        )
    ]
