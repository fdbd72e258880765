"""Run the command that asks nodes, and wait for their answers: a node that hangs does not keep those of the others."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import IO

from llmbx.api import InfraError, Value, plural

LIMIT_S = 600.0
"""Seconds until nodes that have not answered are given up."""

LATE_S = 150.0
"""The same since the last answer, once half of the nodes have answered: a tool that hangs is given up after 60 s."""

FIRST_NOTE_S, NOTE_S, POLL_S, GRACE_S = 10.0, 60.0, 0.1, 15.0
"""Seconds until the first line about a wait, from one to the next, between looks, and until a command is killed."""

MOST_NODES = 4
"""Nodes that a line names before it counts the others."""


class Answers(Value, frozen=True):
    """What a command printed, and when it was started and ended (epoch seconds). `given_up` is after how long."""

    output: str
    errors: str
    given_up: float | None
    began: float
    ended: float

    def reason(self, node: str = "") -> str:
        """Why there is no (further) answer: by the last error, of this node if one names it."""
        lines = [line.strip() for line in self.errors.splitlines() if line.strip()]
        of_node = [line for line in lines if node in re.split(r"[^\w.-]", line)] if node else []
        last = (of_node or lines or ["nothing was printed"])[-1]
        if self.given_up is None:
            return last
        return f"none within {self.given_up:.0f} s" + (f"; {last}" if lines else "")


def wait_for_answers(
    command: Sequence[str],
    nodes: Sequence[str],
    heard: Callable[[str], Sequence[str]],
    say: Callable[[str], None],
) -> Answers:
    """Run a command until it ends, or until the nodes that have not answered are given up.

    `heard` names the nodes whose answer is in an output. Raises `InfraError` if the command cannot be started.
    """
    began = time.time()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
        except OSError as error:
            raise InfraError(f"{command[0]} could not be started: {error.strerror}") from None
        try:
            late = _wait(process, lambda: heard(_text(output)), lambda: _last(_text(errors)), nodes, say)
            said = _text(errors)  # without what ending it prints
        finally:
            _end(process)
        return Answers(output=_text(output), errors=said, given_up=late, began=began, ended=time.time())


def _wait(
    process: subprocess.Popen[bytes],
    heard: Callable[[], Sequence[str]],
    complaint: Callable[[], str],
    nodes: Sequence[str],
    say: Callable[[str], None],
) -> float | None:
    """Wait for the end of the process; the seconds after which it was given up, None if it ended."""
    began = changed = time.monotonic()
    note, answered = FIRST_NOTE_S, 0
    while process.poll() is None:
        names = heard()
        now = time.monotonic()
        changed, answered = (now, len(names)) if len(names) > answered else (changed, answered)
        if now - began > LIMIT_S or (2 * answered >= max(1, len(nodes)) and now - changed > LATE_S):
            return now - began
        if now - began > note:
            say(_note(nodes, names, complaint()))
            note += NOTE_S
        time.sleep(POLL_S)
    return None


def _note(nodes: Sequence[str], heard: Sequence[str], complaint: str) -> str:
    if not heard:
        return f"no node has answered yet{': ' if complaint else ''}{complaint}"
    late = [node for node in nodes if node not in heard]
    more = f" and {len(late) - MOST_NODES} more" if len(late) > MOST_NODES else ""
    text = f"{len(heard)} of {plural(len(nodes), 'nodes')} have answered"
    return f"{text}; waits for {', '.join(late[:MOST_NODES])}{more}" if late else text


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command, which cancels what it started in a scheduler."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _text(file: IO[bytes]) -> str:
    """What the command has written so far; its place in the file, which it shares, is not moved."""
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode("utf-8", "replace")


def _last(errors: str) -> str:
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return lines[-1] if lines else ""
