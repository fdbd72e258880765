"""The interface of a training log that a plugin found, recognized and read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ..model import Failure, Result, Step


class TrainingLog(ABC):
    """A training log, of a run of llmbx or any other, that can be measured over any window."""

    path: str
    """The path as the user named it, or of a file in the folder that the user named."""
    run_dir: str | None
    """The folder of the run of llmbx that wrote it, if any."""
    format: str | None
    """The name of its format; None if no format recognizes it."""
    steps: Sequence[Step]
    """All steps."""

    @property
    @abstractmethod
    def window(self) -> str:
        """The window of the recipe that its name and its format belong to; `auto` without one."""

    @property
    @abstractmethod
    def unread(self) -> str | None:
        """Why no step could be read, in one line."""

    @property
    @abstractmethod
    def failure(self) -> Failure | None:
        """The first failure that the log tells of; of a run of llmbx, that of its result, if any."""

    @abstractmethod
    def lines(self) -> list[str]:
        """Return the lines of the log as they are; none if there is no log. Raises `OSError`."""

    @abstractmethod
    def last_words(self, rank: int) -> str | None:
        """Return the last line that a rank printed; None without labels of ranks."""

    @abstractmethod
    def measure(self, window: str) -> Result:
        """Measure it over a window.

        The result has what the log says: its path as `run_id`, and no workload.
        """
