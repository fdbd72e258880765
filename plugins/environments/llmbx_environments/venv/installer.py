"""Install into one environment with uv: its output goes to the log, and failures are explained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llmbx.api import Environment, InfraError, Progress, follow_process

from . import verified
from .failures import explain, network_problem
from .store import EnvironmentPaths
from .uv_tool import Uv, UvProgress


class Installer:
    """uv for one environment. `lines` are the output of the last command."""

    def __init__(
        self, uv: Uv, environment: Environment, paths: EnvironmentPaths, temporary: Path
    ) -> None:
        self.uv, self.environment, self.paths, self.temporary = uv, environment, paths, temporary
        self.wheels = Path(paths.venvs).parent / "wheels"
        self.lines: list[str] = []

    def install(
        self,
        arguments: Sequence[str],
        indexes: Sequence[str],
        title: str = "",
        progress: Progress = lambda line: None,
    ) -> bool:
        """Run `uv pip install`; return whether it succeeded.

        uv prefers an extra index, which may have another file of the version than the lock (a
        partial mirror), and needs an answer of each. So the main index is tried alone, too.
        """
        shown = UvProgress(title, progress)
        if self._run(self.uv, arguments, indexes, shown):
            return True
        alone, lines = self.uv.without_further_indexes(), self.lines
        refused = self.mismatch() or network_problem("\n".join(lines))
        if refused and alone != self.uv and self._run(alone, arguments, indexes, shown):
            return True
        self.lines = lines
        return False

    def requirements(self, number: int, requirements: Sequence[str]) -> list[str]:
        """uv's arguments for a step: requirements, or a file with digests if the lock has them."""
        packages = self.environment.variant_packages
        pins: list[str] = []
        for requirement in requirements:
            pins += [*packages.get(requirement, ()), requirement]
        if not self.environment.files:
            return pins
        file = self.temporary / f"step-{number}.txt"
        file.write_text(verified.requirements_text(self.environment, pins), encoding="utf-8")
        return [*verified.OPTIONS, "-r", str(file)]

    def mismatch(self) -> str | None:
        """The file that uv refused because of its digest; None if it refused none."""
        return verified.mismatch(self.lines, self.environment)

    def failure(self, offline: bool) -> InfraError:
        """The error that explains why uv failed."""
        reason = explain("uv", self.lines, self.uv.configured, self.wheels, offline)
        log = f"uv's log: {self.paths.log}"
        return InfraError(f"environment {self.paths.label}: {reason}; {log}")

    def _run(
        self, uv: Uv, arguments: Sequence[str], indexes: Sequence[str], shown: UvProgress
    ) -> bool:
        """Run `uv pip install` once, write its output to the log, and report its progress."""
        argv = uv.install(self.paths.python, arguments, indexes, self.wheels)
        self.lines = []
        with self.paths.log.open("a", encoding="utf-8") as log:
            log.write(f"$ {Path(argv[0]).name} {' '.join(argv[1:])}\n")

            def record(text: str) -> None:
                log.write(f"{text}\n")
                log.flush()
                self.lines.append(text)
                shown.line(text)

            return follow_process(argv, uv.env, self.temporary, record, shown.tick) == 0
