"""What Slurm says about a step in the log of the ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmbx_slurm.evidence import read_step_evidence


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("0: slurmstepd-n1: error: StepId=7.0 exceeded memory limit (2 > 1), being killed", "out_of_memory"),
        ("0: slurmstepd-n1: error: *** STEP 8.0 ON n1 CANCELLED AT x DUE TO PREEMPTION ***", "preempted"),
        ("0: slurmstepd-n1: error: *** STEP 8.0 ON n1 CANCELLED AT x ***", None),
    ],
)
def test_what_slurmstepd_says_in_the_log_of_the_ranks(tmp_path: Path, line: str, verdict: str | None) -> None:
    log = tmp_path / "log-x.out"
    log.write_text(f"1: something\n{line}\n")
    assert read_step_evidence(log).verdict == verdict
