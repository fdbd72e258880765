"""The folder of an acceptance: its plan, and the outcome of each item as soon as it is known."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path

from llmbx.api import NOT_JSON, LlmbxError, RunFolder, __version__, disk_errors
from llmbx.api.verbs import Install, Recorded, current_user

from .item import Item, Outcome

FOLDER, FILE, OUTCOMES = "acceptances", "acceptance.json", "outcomes"


class Acceptance(Recorded, frozen=True):
    """The content of `acceptance.json`: what is checked. `created` is in epoch seconds."""

    acceptance_id: str
    suite: str
    title: str
    created: float
    llmbx_version: str
    command: tuple[str, ...]
    gpu_type: str
    nodes: tuple[str, ...]
    items: tuple[Item, ...]
    source: str | None = None
    user: str | None = None
    schema_version: int = 1


class Store:
    """The acceptances of an install."""

    def __init__(self, install: Install) -> None:
        self.install = install
        elsewhere = install.workload_root
        outside = elsewhere and (install.workload_origin == "--output" or not os.access(install.path, os.W_OK))
        self.home = Path(elsewhere) / FOLDER if outside and elsewhere else install.path / FOLDER

    def folder(self, acceptance_id: str) -> RunFolder:
        """The folder of an acceptance."""
        return RunFolder(path=self.home / acceptance_id)

    def latest(self, suite: str, items: Sequence[Item]) -> Acceptance | None:
        """The newest acceptance of this user with this plan; None if there is none."""
        names = sorted(
            (path.name for path in self.home.glob(f"{slug(suite)}_*") if path.name.rpartition("_")[2].isdigit()),
            key=lambda name: int(name.rpartition("_")[2]),
            reverse=True,
        )
        for name in names:
            with contextlib.suppress(LlmbxError, OSError, *NOT_JSON):
                acceptance = Acceptance.decoded(self.folder(name).read(FILE))
                if self.folder(name).own and identity(acceptance.items) == identity(items):
                    return acceptance
        return None

    def create(self, acceptance: Acceptance) -> Acceptance:
        """Make the folder of a new acceptance, with its plan; its id gets the time."""
        self.install.ensure()
        stamp = int(time.time())
        with disk_errors(str(self.home)):
            self.home.mkdir(parents=True, exist_ok=True)
            while True:
                name = f"{slug(acceptance.suite)}_{stamp}"
                with contextlib.suppress(FileExistsError):
                    (self.home / name).mkdir(0o755)  # only its owner changes it, also in a shared install
                    break
                stamp += 1
        created: Acceptance = acceptance.replace(
            acceptance_id=name, created=time.time(), llmbx_version=__version__, user=current_user()
        )
        self.folder(name).write(FILE, created.encoded())
        return created

    def outcomes(self, acceptance: Acceptance) -> dict[str, Outcome]:
        """What is known so far, by the keys of the items. A damaged outcome counts as unknown."""
        known: dict[str, Outcome] = {}
        folder = self.folder(acceptance.acceptance_id)
        for number, item in enumerate(acceptance.items, 1):
            with contextlib.suppress(OSError, *NOT_JSON):
                outcome = Outcome.decoded(folder.read(name_of(number)))
                if outcome.key == item.key:
                    known[item.key] = outcome
        return known

    def keep(self, acceptance: Acceptance, outcome: Outcome) -> None:
        """Write the outcome of an item."""
        numbers = {item.key: number for number, item in enumerate(acceptance.items, 1)}
        folder = self.folder(acceptance.acceptance_id)
        with disk_errors(str(folder.path)):
            (folder.path / OUTCOMES).mkdir(exist_ok=True)
        folder.write(name_of(numbers[outcome.key]), outcome.encoded())


def name_of(number: int) -> str:
    """The file of the outcome of the item with this number, from 1."""
    return f"{OUTCOMES}/{number:04}.json"


def identity(items: Sequence[Item]) -> list[Item]:
    """The items without what may change from one call to the next: what is expected of them."""
    return [item.replace(hours=None, hours_from="", spec=item.spec and item.spec.replace(origins={})) for item in items]


def slug(suite: str) -> str:
    """The name of a suite as part of a folder's name."""
    return re.sub(r"[^A-Za-z0-9.-]+", "-", suite).strip("-.") or "suite"
