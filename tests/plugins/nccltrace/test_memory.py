"""Memory use stays small for any size of log and any number of distinct calls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .lines import coll

READ = """
import re, resource, sys
from pathlib import Path
from llmbx_nccltrace.analysis import read_report
report = read_report([Path(sys.argv[1])], sys.argv[2])
own = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(report.calls, len(report.operations), max(own, children) // 1024)
"""


@pytest.mark.parametrize("engine", ["native", "python"])
def test_a_log_with_only_distinct_sizes(tmp_path: Path, engine: str) -> None:
    path, calls = tmp_path / "log", 110_000
    with path.open("w") as out:
        for start in range(0, calls, 10_000):
            out.write("".join(coll("Send", count=n, host=f"node{n % 64}") + "\n" for n in range(start, start + 10_000)))
    done = subprocess.run([sys.executable, "-c", READ, path, engine], capture_output=True, text=True, check=True)
    counted, rows, megabytes = map(int, done.stdout.split())
    assert counted == calls
    assert rows == 100_001
    assert megabytes < 200, megabytes


def test_memory_does_not_grow_with_the_number_of_files(tmp_path: Path) -> None:
    peaks = []
    for files in (8, 256):
        folder = tmp_path / str(files)
        folder.mkdir()
        for rank in range(files):
            (folder / f"rank{rank}.log").write_text(
                "".join(coll(pid=rank, count=n) + "\n" for n in range(256 * 8 // files))
            )
        done = subprocess.run(
            [sys.executable, "-c", READ, folder, "native"], capture_output=True, text=True, check=True
        )
        calls, _, megabytes = map(int, done.stdout.split())
        assert calls == 2048
        peaks.append(megabytes)
    assert peaks[1] - peaks[0] < 30, peaks
