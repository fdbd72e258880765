"""What the container tools say when a container does not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmbx.run.verdict import refusals
from llmbx_environments.containers.runtimes.apptainer import ApptainerRuntime
from llmbx_environments.containers.runtimes.docker import DockerRuntime
from llmbx_environments.containers.runtimes.enroot import EnrootRuntime
from llmbx_environments.containers.runtimes.pyxis import PyxisRuntime


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (ApptainerRuntime.start_failure, "3: FATAL:   container creation failed: mount error: can't mount image"),
        (DockerRuntime.start_failure, "docker: Error response from daemon: could not select device driver."),
        (EnrootRuntime.start_failure, "1: enroot-mount: failed to mount: /x: No such file or directory"),
        (PyxisRuntime.start_failure, "slurmstepd: error: pyxis: couldn't start container"),
    ],
)
def test_a_container_that_did_not_start(tmp_path: Path, pattern: str, line: str) -> None:
    (tmp_path / "log-x.out").write_text(f"something else\n{line}\n")
    assert len(refusals(pattern, tmp_path)) == 1


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (ApptainerRuntime.start_failure, 'FATAL:   "train": executable file not found in $PATH'),
        (DockerRuntime.start_failure, "docker: Error response from daemon: exec: executable file not found in $PATH"),
        (PyxisRuntime.start_failure, "0: slurmstepd-n1: error: pyxis: child 17888 failed with error code: 1"),
        (PyxisRuntime.start_failure, "0: slurmstepd-n1: error: pyxis:     [INFO] Extracting squashfs filesystem..."),
    ],
)
def test_consequences_and_missing_programs_are_not_failed_starts(tmp_path: Path, pattern: str, line: str) -> None:
    (tmp_path / "log-x.out").write_text(line + "\n")
    assert refusals(pattern, tmp_path) == []
