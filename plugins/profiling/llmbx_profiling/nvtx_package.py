"""The package nvtx of the ranks: whether ranges were possible, as the ranks have recorded it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from llmbx.api import RunFile, RunFolder, Value

from .names import NVTX

SUITABLE = "nvtx>=0.2.8,<0.2.12"
"""Releases whose ranges are in the reports of every tested nsys. Those from 0.2.12 to 0.2.17 leave none in nsys 2022.4
and 2023.4, without an error."""


class NvtxProblem(Value, frozen=True):
    """Why a rank left no ranges, and what to install; not `certain` if a newer nsys may record those of its version."""

    why: str
    fix: str
    certain: bool

    def explain(self, observation: str) -> str:
        """Return the observation with its cause, or with its possible cause beside it."""
        return f"{observation}, because {self.why}" if self.certain else f"{observation}; {self.why}"


def nvtx_problem(run_dir: Path, ranks: Iterable[int]) -> NvtxProblem | None:
    """Return the first problem that one of the ranks has recorded; None if there is none or nothing was recorded."""
    folder = RunFolder(path=run_dir)
    return next((problem for rank in ranks if (problem := _of_rank(folder.file(NVTX.format(rank=rank))))), None)


def _of_rank(file: RunFile) -> NvtxProblem | None:
    try:
        record = json.loads(file.read())
        version, python = record["nvtx"], str(record["python"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    fix = f"install it: {python} -m pip install '{SUITABLE}'"
    if version is None:
        return NvtxProblem(why=f"nvtx is not installed for {python}", fix=fix, certain=True)
    if is_suitable(str(version)):
        return None
    why = f"{python} has nvtx {version}, but only 0.2.8 to 0.2.11 leave ranges in every tested nsys"
    return NvtxProblem(why=why, fix=fix.replace("install it", "install another", 1), certain=False)


def is_suitable(version: str) -> bool:
    """Return whether every tested nsys records the ranges of this version of nvtx; also if the version is not known."""
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    return numbers is None or (0, 2, 8) <= tuple(map(int, numbers.groups())) < (0, 2, 12)
