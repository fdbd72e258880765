"""Run short programs and read what they print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from subprocess import CompletedProcess


def run(
    argv: Sequence[str], env: Mapping[str, str] | None = None, timeout_s: float | None = None
) -> CompletedProcess[str]:
    """Run `argv` and return its exit code and output. Raises `OSError` and `TimeoutExpired`."""
    import subprocess

    return subprocess.run(
        argv,
        env=env,
        timeout=timeout_s,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def output_of(
    argv: Sequence[str], env: Mapping[str, str] | None = None, timeout_s: float = 60
) -> str:
    """The standard output of `argv`; empty if it fails or takes longer than `timeout_s`."""
    from subprocess import TimeoutExpired

    try:
        done = run(argv, env, timeout_s)
    except (OSError, TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def last_line(done: CompletedProcess[str]) -> str:
    """The last line that a program printed, preferably to stderr."""
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1] if lines else "no error output"
