"""A run is found by its short id, by where it stands, by its tag; the shell completes these."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from llmbx.errors import UsageError
from llmbx.history import find_run, rebuild
from llmbx.history.tags import change_tags
from llmbx.record.names import complete


def test_a_run_is_found_by_its_id_and_by_where_it_stands(run_factory: Any) -> None:
    folder = [run_factory.put([0.1] * 20) for _ in range(3)]
    install = run_factory.install
    runs = [find_run(install, one.record.run_id) for one in folder]
    for run in runs:
        assert find_run(install, run.record.id).record.run_id == run.record.run_id
        assert find_run(install, run.record.id[:5]).record.run_id == run.record.run_id
    newest = find_run(install, "last")
    assert find_run(install, "last~0") == newest
    assert len({find_run(install, f"last~{n}").record.run_id for n in range(3)}) == 3
    with pytest.raises(UsageError, match=r"no run 'last~3'; you have 3 runs in "):
        find_run(install, "last~3")
    change_tags(runs[0], add=["accepted"])
    assert find_run(install, "@accepted").record == find_run(install, "tag:accepted").record == runs[0].record
    with pytest.raises(UsageError, match=r"no run '@acepted' \(did you mean '@accepted'\?\)"):
        find_run(install, "@acepted")


def test_completion_offers_ids_newest_first_and_survives_a_rebuilt_index(run_factory: Any) -> None:
    runs = [run_factory.put([0.1] * 20) for _ in range(3)]
    names = {run.record.id for run in runs}
    assert {name for name, _ in complete(run_factory.install, "")} == names
    one = runs[1].record.id
    assert [name for name, _ in complete(run_factory.install, one[:5])] == [one]
    assert complete(run_factory.install, "a'b") == []
    rebuild(run_factory.install)
    assert find_run(run_factory.install, one).record == runs[1].record


def test_a_name_that_no_file_system_takes_is_no_run(run_factory: Any) -> None:
    with pytest.raises(UsageError, match="no run 'aaaa"):
        find_run(run_factory.install, "a" * 300)


def test_the_shell_completes_verbs_runs_and_workloads(run_factory: Any) -> None:
    run = run_factory.put([0.1] * 20)

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
    assert words("llmbx run gro", 2) == ["grok1"]
