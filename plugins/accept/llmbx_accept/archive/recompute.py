"""Measure an archived run again from its log, as llmbx did when it ended."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from llmbx.api import NOT_JSON, Exit, JobStatus, Result, UsageError, decode
from llmbx.api.verbs import Install, Plugins, Run, Runner

from .content import RESULT, STEPS

RECORD, LEFT = "run.json", "result.job.json"
"""The record of a run, and where llmbx puts a result that it did not write."""

BY_THE_SCHEDULER = (
    "timing.queue_s",
    "timing.total_s",
    "timing.first_step_s",
    "timing.outside_steps_s",
    "gpu_hours",
)
"""Members that, under a scheduler, also depend on what it said about the job, which no archived file has."""

BY_THE_READER = "the log was not searched for"
"""Begins a warning about the machine where a run is measured."""

STOPPED = ("cancelled", "timeout", "node_fail", "preempted", "out_of_memory")


class Remeasured:
    """An archived run after it was measured again: its record, the old and the new result, and both files of steps."""

    def __init__(self, files: Mapping[str, bytes], plugins: Plugins) -> None:
        self.archived = _read(files, RESULT, Result)
        self.steps = files.get(STEPS, b"")
        with tempfile.TemporaryDirectory(prefix="llmbx-verify-") as folder:
            place = Path(folder) / "run"
            _restore(files, place)
            self.run = Run.read(place)
            runner = Runner.of(self.run, plugins, Install(root=folder, origin="archive"))
            self.remote = runner.launcher.remote
            status = _status(place, self.archived)
            self.sealed = self._sealed(files[RESULT], runner, status)
            self.result = runner.conclude(self.run, status)
            self.new_steps = self.run.files.read(STEPS)

    def _sealed(self, content: bytes, runner: Runner, status: JobStatus) -> bool:
        """Whether the result is in the form and has the digest that llmbx gives it: others are set aside as a job's."""
        members = msgspec.json.decode(content)
        if msgspec.json.format(msgspec.json.encode(members), indent=2) + b"\n" != content:
            return False
        self.run.files.write(RESULT, content)
        runner.conclude(self.run, status)
        sealed = self.run.files.file(RESULT).exists() and self.run.files.read(RESULT) == content
        for name in (RESULT, LEFT, STEPS):
            self.run.files.remove(name)
        return sealed

    def differences(self) -> list[str]:
        """The members of the result that the log does not confirm, with both values, and what is wrong with steps."""
        old, new = flat(_comparable(self.archived)), flat(_comparable(self.result))
        left_out = BY_THE_SCHEDULER if self.remote else ()
        names = [name for name in sorted({*old, *new} - {*left_out}) if old.get(name) != new.get(name)]
        lines = [f"{RESULT}: {name} is {_short(old.get(name))}, by the log {_short(new.get(name))}" for name in names]
        if self.steps != self.new_steps:
            lines.append(f"{STEPS}: {_first_line(self.steps, self.new_steps)}")
        return lines


def flat(value: Any, name: str = "") -> dict[str, Any]:
    """The leaves of nested values, as JSON has them, by their dotted names."""
    if not name:
        value = msgspec.json.decode(msgspec.json.encode(value))
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    leaves = {key: leaf for part, member in inner for key, leaf in flat(member, f"{name}.{part}").items()}
    return leaves or {name.removeprefix("."): value}


def _comparable(result: Result) -> Result:
    """The result without its digest, and without what depends on where it is measured."""
    kept = tuple(line for line in result.warnings if not line.startswith(BY_THE_READER))
    comparable: Result = result.replace(digest=None, warnings=kept)
    return comparable


def _restore(files: Mapping[str, bytes], place: Path) -> None:
    """Write the files of a run, without those that are computed again."""
    place.mkdir()
    for name, content in files.items():
        if name not in (RESULT, STEPS):
            path = place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def _status(place: Path, archived: Result) -> JobStatus:
    """How the job ended, by its script, else by the result."""
    end = Exit.read(place)
    verdict = archived.status if archived.status in STOPPED else None
    if end is None:
        state: Any = "lost" if archived.status == "lost" else "ended"
        return JobStatus(state=state, exit_code=archived.exit_code, verdict=verdict, reason=archived.cause or "")
    status = end.status()
    if verdict is not None and status.verdict is None:  # only the scheduler knew
        stopped: JobStatus = status.replace(verdict=verdict, reason=archived.cause or "")
        return stopped
    return status


def _read(files: Mapping[str, bytes], name: str, kind: type[Result]) -> Result:
    try:
        result: Result = decode(files[name], kind)
    except KeyError:
        raise UsageError(f"{name} is missing") from None
    except NOT_JSON as error:
        raise UsageError(f"{name}: {error}") from None
    return result


def _first_line(old: bytes, new: bytes) -> str:
    """The first line in which two files differ, with its number."""
    pairs = zip(old.splitlines(), new.splitlines(), strict=False)
    number = next((number for number, (left, right) in enumerate(pairs, 1) if left != right), None)
    if number is None:
        return f"{len(old.splitlines())} steps, by the log {len(new.splitlines())}"
    return f"line {number} is not what the log says"


def _short(value: Any) -> str:
    return repr(value) if len(repr(value)) < 60 else f"{repr(value)[:57]}..."
