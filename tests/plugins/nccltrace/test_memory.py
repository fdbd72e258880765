"""Memory stays small, whatever the log's size and however many different calls it holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .lines import coll

READ = """
import sys, resource
from pathlib import Path
from llmbx_nccltrace.analysis import read_report
report = read_report([Path(sys.argv[1])], sys.argv[2])
used = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print(report.calls, len(report.operations), used // 1024)
"""


@pytest.mark.parametrize("engine", ["native", "python"])
def test_a_log_of_nothing_but_different_sizes(tmp_path: Path, engine: str) -> None:
    path, calls = tmp_path / "log", 150_000
    with path.open("w") as out:
        for start in range(0, calls, 10_000):
            out.write("".join(coll("Send", count=n, host=f"node{n % 64}") + "\n" for n in range(start, start + 10_000)))
    done = subprocess.run([sys.executable, "-c", READ, path, engine], capture_output=True, text=True, check=True)
    counted, rows, megabytes = map(int, done.stdout.split())
    assert counted == calls
    assert rows == 100_001
    assert megabytes < 200, megabytes
