"""A run is found by its tag; the shell completes ids and tags."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from llmbx.errors import UsageError
from llmbx.model import Job
from llmbx.plugins.manager import Plugins
from llmbx.record.folder import Attempt
from llmbx_history.tags import change_tags

from .conftest import RunFactory


def test_a_tag_names_the_newest_run_that_has_it(run_factory: RunFactory, plugins: Plugins) -> None:
    runs = [run_factory.put([0.1] * 20) for _ in range(3)]
    install = run_factory.install
    for run in runs[:2]:
        change_tags(run, add=["accepted"])
    assert plugins.find_run(install, "@accepted") == plugins.find_run(install, "tag:accepted") == runs[1]
    for sign in ("@", "tag:"):
        with pytest.raises(UsageError, match=rf"no run '{sign}acepted' \(did you mean '{sign}accepted'\?\)"):
            plugins.find_run(install, f"{sign}acepted")


def test_without_tags_the_error_says_so(run_factory: RunFactory, plugins: Plugins) -> None:
    run_factory.put([0.1] * 20)
    with pytest.raises(UsageError, match="no run '@accepted'; no run has a tag"):
        plugins.find_run(run_factory.install, "@accepted")


def test_the_shell_completes_verbs_runs_and_workloads(run_factory: RunFactory) -> None:
    run = run_factory.put([0.1] * 20, tags=("accepted",))

    def words(line: str, at: int) -> list[str]:
        root = run_factory.install.root
        shell = {"_LLMBX_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(at)}
        env = {"LLMB_INSTALL": root, "LLMBX_CONFIG": "/dev/null", "PATH": "/usr/bin:/bin", "HOME": root, **shell}
        command = Path(sys.executable).with_name("llmbx")
        done = subprocess.run([command], env=env, capture_output=True, text=True, check=False)
        return [entry.partition(",")[2] for entry in done.stdout.split()]

    assert words("llmbx sta", 1) == ["status"]
    assert run.record.id in words("llmbx status ", 2)
    assert words("llmbx compare la", 2) == ["last"]
    assert words("llmbx status @a", 2) == ["@accepted"]
    assert words("llmbx run gro", 2) == ["grok1"]


def test_the_index_leads_to_the_runs_of_a_job(run_factory: RunFactory, plugins: Plugins) -> None:
    first, second = (Job(launcher="slurm", job_id=name, submitted=1.0) for name in ("4711", "4712"))
    tried = Attempt(number=0, job=first, status="node_fail")
    run = run_factory.put([0.1] * 20, record={"job": second, "attempt": 1, "attempts": (tried,)}, result={"attempt": 1})
    run_factory.put([0.1] * 20)
    assert plugins.find_run(run_factory.install, "4711") == plugins.find_run(run_factory.install, "4712") == run
    with pytest.raises(UsageError, match="no run '4713'"):
        plugins.find_run(run_factory.install, "4713")
