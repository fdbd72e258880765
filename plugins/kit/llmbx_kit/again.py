"""A process of its own that finds a driven job again, as `llmbx status` does later.

The question comes on standard input, as JSON.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from llmbx.api import Job, JobStatus, LlmbxError, RunSpec, Value
from llmbx.api.verbs import load_plugins


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
        # What a plugin prints goes to standard error.
        launcher = load_plugins().launcher(question.launcher)
        launcher.watch([question.job])
        status = launcher.status(question.job, folder)
        job = launcher.find({folder: question.spec}).get(folder)
    except LlmbxError as error:
        sys.exit(str(error))
    sys.stdout.buffer.write(msgspec.json.encode(Answer(status=status, found=job)))


if __name__ == "__main__":
    main()
