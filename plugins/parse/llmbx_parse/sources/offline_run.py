"""Files of an offline run of W&B (`run-*.wandb`), read by `wandb-core` of the package `wandb`.

`wandb leet inspect --json` prints each record of such a file as a line of JSON. The history is
used.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import BinaryIO

from llmbx.api import CUT, SourceReader, SourceRecord, UsageError

from .jsonl import JsonLines
from .values import real_number, whole_number

LEAST = (0, 31)
"""First version of the package whose program prints JSON."""

NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
"""How numbers are printed that JSON does not have."""

LONGEST_MESSAGE, MOST_MESSAGES = 200, 4096
"""How much of a message of the program, and of all its messages, is read: characters, bytes."""


class OfflineRun(SourceReader):
    """Reads a file of an offline run. Raises `UsageError` if the package is missing or too old.

    The program reads the whole file each time (about 30 ms for a short one); records that were read
    before are skipped.
    """

    kind = "wandb"

    def __init__(self, source: str, rank: int | None) -> None:
        super().__init__(source, rank)
        self._program = _program()
        self._last = 0

    @classmethod
    def recognizes(cls, name: str) -> bool:
        """By the suffix .wandb."""
        return name.endswith(".wandb")

    def read(self, file: BinaryIO) -> Iterator[SourceRecord]:
        """The records of the history that were completed since."""
        lines = JsonLines(self.source, self.rank)
        options = ["--no-observability", "--json", "--run-file", "/dev/stdin"]
        argv = [self._program, "leet", "inspect", *options]
        with tempfile.TemporaryDirectory() as folder:
            output, messages = Path(folder, "records"), Path(folder, "messages")
            with output.open("wb") as stdout, messages.open("wb") as stderr:
                program = subprocess.run(
                    argv, stdin=file, stdout=stdout, stderr=stderr, check=False
                )
            with output.open("rb") as records:
                for record in lines.read(records):
                    yield from self._history(record.values)
            self.faults = lines.faults
            self.faults.messages = _last_messages(messages)
        if program.returncode and not self.faults.messages:
            self.faults.messages = [f"wandb-core ended with exit code {program.returncode}"]

    def _history(self, record: Mapping[str, object]) -> Iterator[SourceRecord]:
        number, history = whole_number(record, "num"), record.get("history")
        if number is None or number <= self._last:
            return
        self._last = number
        item = history.get("item") if isinstance(history, dict) else None
        if isinstance(item, dict):
            values = {name: _number(value) for name, value in item.items()}
            yield SourceRecord(
                source=self.source,
                rank=self.rank,
                step=whole_number(values, "_step"),
                wall_time=real_number(values, "_timestamp"),
                values=values,
            )


def _number(value: object) -> object:
    """The value; the number that it stands for if it is one that JSON does not have."""
    return NOT_FINITE.get(value, value) if isinstance(value, str) else value


def _last_messages(path: Path) -> list[str]:
    """The last messages of the program, without control characters, each cut if it is long."""
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - MOST_MESSAGES))
        lines = file.read().decode("utf-8", "replace").split("\n")
    return [_shortened(line) for line in lines if line]


def _shortened(message: str) -> str:
    printable = "".join(c if c.isprintable() else "?" for c in message[: LONGEST_MESSAGE + 1])
    if len(printable) <= LONGEST_MESSAGE:
        return printable
    return f"{printable[:LONGEST_MESSAGE]}{CUT}"


def _program() -> str:
    """The program `wandb-core`. The package itself is not imported, which would take a second."""
    try:
        package = metadata.distribution("wandb")
        version = re.match(r"(\d+)\.(\d+)", package.version)
    except metadata.PackageNotFoundError:
        version = None
    if version is None or (int(version[1]), int(version[2])) < LEAST:
        least = f"wandb {LEAST[0]}.{LEAST[1]}"
        raise UsageError(f"{least} or newer is not installed: pip install 'llmbx[wandb]'")
    return str(package.locate_file("wandb/bin/wandb-core"))
