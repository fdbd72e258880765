"""Find the profiles that a framework's own profiler wrote: check that there are some, and list them in the report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llmbx.api import Check, Evidence, RunFolder, Section, listed

LISTED = 8
"""Files that the report names; a large job has one for each rank."""


def check(patterns: Sequence[str], what: str) -> Check:
    """The check that this attempt wrote a file matching `patterns`; the number of files is not checked."""

    def missing(evidence: Evidence) -> str | None:
        assert evidence.spec is not None and evidence.run_dir is not None
        profile = evidence.spec.profile
        if profile is None or profiles(evidence.run_dir, patterns):
            return None
        problem = f"the run wrote no {what}: the capture of steps {profile.start}-{profile.stop} never started"
        return f"{problem}; check that the run reaches step {profile.start}, or use --tool nsys"

    return Check(
        id="profile",
        reads="The profile of the requested steps.",
        means="The profiler did not start, or wrote nothing.",
        do="Check that the run reaches the first of these steps.",
        effect="failed",
        test=missing,
        reads_files=True,
    )


def profiles(run_dir: Path, patterns: Sequence[str]) -> list[str]:
    """Return the files of this attempt that match `patterns` and are not empty, relative to `run_dir`."""
    folder = RunFolder(path=run_dir)
    files = {file for pattern in patterns for file in folder.glob(f"**/{pattern}")}
    of_attempt = (file for file in files if not file.file.startswith("attempts/"))
    return sorted(file.file for file in of_attempt if (status := file.status()) and status.st_size)


def section(name: str, title: str, run_dir: Path, patterns: Sequence[str], viewers: str) -> list[Section]:
    """Return the report section that names the profiles and the programs that show them; none without profiles."""
    files = profiles(run_dir, patterns)
    if not files:
        return []
    return [Section(name=name, title=title, text=(f"Open with {viewers}: {listed(files, LISTED)}, in {run_dir}.",))]
