"""Files of an offline run of W&B (`run-*.wandb`), read by the program `wandb-core` of the package `wandb`.

`wandb leet inspect --json` prints each record of such a file as a line of JSON. Its history is used.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import BinaryIO

from ...errors import UsageError
from ...model import SourceRecord
from ..lines import last_lines, shortened
from .base import Faults, real_number, whole_number
from .jsonl import JsonLines

LEAST = (0, 31)
"""First version of the package whose program prints JSON."""

NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
"""How numbers are printed that JSON does not have."""

LONGEST_MESSAGE, MOST_MESSAGES = 200, 4096
"""How much of a message of the program, and of all its messages, is read: characters, bytes."""


class OfflineRun:
    """Reads a file of an offline run. See `base.Reader`. Raises `UsageError` if the package is missing or too old.

    The program reads the whole file each time (about 30 ms for a short one); records that are known are skipped.
    """

    def __init__(self, source: str, rank: int | None) -> None:
        self.faults = Faults()
        self._source, self._rank = source, rank
        self._program = _program()
        self._last = 0

    def read(self, file: BinaryIO) -> Iterator[SourceRecord]:
        """The records of the history that were completed since."""
        lines = JsonLines(self._source, self._rank)
        argv = [self._program, "leet", "inspect", "--no-observability", "--json", "--run-file", "/dev/stdin"]
        with tempfile.TemporaryDirectory() as folder:
            output, messages = Path(folder, "records"), Path(folder, "messages")
            with output.open("wb") as stdout, messages.open("wb") as stderr:
                done = subprocess.run(argv, stdin=file, stdout=stdout, stderr=stderr, check=False)
            with output.open("rb") as records:
                for record in lines.read(records):
                    yield from self._history(record.values)
            self.faults = lines.faults
            self.faults.messages = [shortened(line, LONGEST_MESSAGE) for line in last_lines(messages, MOST_MESSAGES)]
        if done.returncode and not self.faults.messages:
            self.faults.messages = [f"wandb-core ended with exit code {done.returncode}"]

    def close(self) -> list[SourceRecord]:
        """Nothing: a record is complete or not."""
        return []

    def _history(self, record: Mapping[str, object]) -> Iterator[SourceRecord]:
        number, history = whole_number(record, "num"), record.get("history")
        if number is None or number <= self._last:
            return
        self._last = number
        item = history.get("item") if isinstance(history, dict) else None
        if isinstance(item, dict):
            values = {name: _number(value) for name, value in item.items()}
            step, at = whole_number(values, "_step"), real_number(values, "_timestamp")
            yield SourceRecord(source=self._source, rank=self._rank, step=step, wall_time=at, values=values)


def _number(value: object) -> object:
    """The value; the number that it stands for if it is one that JSON does not have."""
    return NOT_FINITE.get(value, value) if isinstance(value, str) else value


def _program() -> str:
    """The program `wandb-core`. The package itself is not imported, which would take a second."""
    try:
        package = metadata.distribution("wandb")
        version = re.match(r"(\d+)\.(\d+)", package.version)
    except metadata.PackageNotFoundError:
        version = None
    if version is None or (int(version[1]), int(version[2])) < LEAST:
        raise UsageError(f"wandb {LEAST[0]}.{LEAST[1]} or newer is not installed: pip install 'llmbx[wandb]'")
    return str(package.locate_file("wandb/bin/wandb-core"))
