"""An answer that the controller did not give is no refusal: in llmbx's own commands, and in the script of a job."""

from __future__ import annotations

import errno
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from llmbx.api import InfraError, Launcher, Unreachable
from llmbx_slurm.commands import call
from llmbx_slurm.unanswered import UNANSWERED

SOCKET_ERRORS = (
    "EPIPE", "EADDRNOTAVAIL", "ENETDOWN", "ENETUNREACH", "ENETRESET", "ECONNABORTED", "ECONNRESET", "ENOTCONN",
    "ESHUTDOWN", "ETIMEDOUT", "ECONNREFUSED", "EHOSTDOWN", "EHOSTUNREACH",
)  # fmt: skip
SEEN = (
    "Connection reset by peer", "Insane message length", "Transport endpoint is not connected",
    "Unable to contact slurm controller (connect failure)", "Unexpected missing socket error",
    "Zero Bytes were transmitted or received",
)  # fmt: skip
"""What Slurm 22.05 printed when its controller was stopped, and when a network closed or reset each connection."""
LOST = (*SEEN, *(os.strerror(getattr(errno, name)) for name in SOCKET_ERRORS))
REFUSALS = (
    "Access/permission denied", "Invalid generic resource (gres) specification", "Invalid job id specified",
    "Job/step already completing or completed", "Memory required by task is not available",
    "More processors requested than permitted", "Requested node configuration is not available",
)  # fmt: skip


def failing(tmp_path: Path, text: str) -> str:
    """A command that prints this on standard error and fails."""
    command = tmp_path / "sbatch"
    command.write_text(f"#!/bin/sh\necho 'sbatch: error: Batch job submission failed: {text}' >&2\nexit 1\n")
    command.chmod(0o755)
    return str(command)


@pytest.mark.parametrize("text", LOST)
def test_a_command_whose_answer_is_lost_may_be_given_again(tmp_path: Path, text: str) -> None:
    with pytest.raises(Unreachable, match="the controller cannot be reached: see `scontrol ping`"):
        call(failing(tmp_path, text))


@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal_is_final(tmp_path: Path, text: str) -> None:
    with pytest.raises(InfraError) as refusal:
        call(failing(tmp_path, text))
    assert not isinstance(refusal.value, Unreachable) and text in str(refusal.value)


def starts(tmp_path: Path, text: str) -> list[str]:
    """How a phase goes whose first srun prints this error: the second one succeeds."""
    lines = (
        Launcher.shell_source("common.sh"),
        "unanswered=" + shlex.quote("\n".join(UNANSWERED)),
        Launcher.shell_source("slurm.sh", "llmbx_slurm"),
        "sleep() { :; }",
        "step() { [ ! -e tried ] || { echo started; return 0; }",
        'touch tried; echo "srun: error: $message" >&2; exit 1; }',
        "phase=train",
        "start_step step",
        "echo code $code",
    )
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)], cwd=tmp_path, stdout=subprocess.PIPE, stderr=(tmp_path / "err").open("w"),
        text=True, timeout=60, check=True, env={**os.environ, "message": text},
    )  # fmt: skip
    return [line.split(" llmbx: ")[-1] for line in done.stdout.splitlines()]


@pytest.mark.parametrize("request_", ["create step", "confirm allocation"])
@pytest.mark.parametrize("text", LOST)
def test_a_phase_whose_step_got_no_answer_is_started_again(tmp_path: Path, request_: str, text: str) -> None:
    assert starts(tmp_path, f"Unable to {request_} for job 117: {text}") == [
        "the Slurm controller is unreachable: starting phase train again", "started", "code 0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", [*(f"Unable to create step for job 117: {text}" for text in REFUSALS), f"n4: task 0: {SEEN[0]}"]
)
def test_a_phase_whose_step_is_refused_or_whose_rank_fails_is_not(tmp_path: Path, text: str) -> None:
    assert starts(tmp_path, text) == ["code 1"]
