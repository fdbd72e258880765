"""A process of its own that finds a driven job again, as `llmbx status` does later: a question on stdin, as JSON."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from ..errors import LlmbxError
from ..model import Job, JobStatus, RunSpec, Value
from ..plugins.manager import load


class Again(Value, frozen=True):
    """The job to find, by its record and by its folder."""

    launcher: str
    job: Job
    spec: RunSpec
    folder: str


class Answer(Value, frozen=True):
    """Its status, and the job that `find` returns for its folder."""

    status: JobStatus
    found: Job | None = None


def main() -> None:
    """Answer the question."""
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=Again)
    folder = Path(question.folder)
    try:
        launcher = load().launcher(question.launcher)  # what a plugin prints goes to standard error
        launcher.watch([question.job])
        status = launcher.status(question.job, folder)
        found = launcher.find({folder: question.spec}).get(folder)
    except LlmbxError as error:
        sys.exit(str(error))
    sys.stdout.buffer.write(msgspec.json.encode(Answer(status=status, found=found)))


if __name__ == "__main__":
    main()
