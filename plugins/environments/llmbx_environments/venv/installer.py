"""Install into one environment with uv: its output goes to the log, and failures are explained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llmbx.api import InfraError, follow_process

from . import verified
from .failures import explain, network_problem
from .request import BuildRequest
from .uv_tool import Uv, UvProgress


class Installer:
    """uv for one environment. `lines` are the output of the last command."""

    def __init__(self, request: BuildRequest, uv: Uv) -> None:
        self.request, self.uv = request, uv
        self.lines: list[str] = []

    def install(self, arguments: Sequence[str], indexes: Sequence[str], step: str = "") -> bool:
        """Run `uv pip install`; return whether it succeeded. Its progress is that of `step`.

        uv prefers an extra index, which may have another file of the version than the lock (a
        partial mirror), and needs an answer of each. So the main index is tried alone, too.
        """
        progress = self.request.progress if step else lambda line: None
        shown = UvProgress(f"{self.request.title}: {step}", progress)
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
        environment = self.request.environment
        packages = environment.variant_packages
        pins: list[str] = []
        for requirement in requirements:
            pins += [*packages.get(requirement, ()), requirement]
        if not environment.files:
            return pins
        file = self.request.temporary / f"step-{number}.txt"
        file.write_text(verified.requirements_text(environment, pins), encoding="utf-8")
        return [*verified.OPTIONS, "-r", str(file)]

    def mismatch(self) -> str | None:
        """The file that uv refused because of its digest; None if it refused none."""
        return verified.mismatch(self.lines, self.request.environment)

    def failure(self) -> InfraError:
        """The error that explains why uv failed."""
        request = self.request
        options = self.uv.configured
        reason = explain("uv", self.lines, options, request.wheels, request.offline)
        return InfraError(f"{request.title}: {reason}; uv's log: {request.paths.log}")

    def _run(
        self, uv: Uv, arguments: Sequence[str], indexes: Sequence[str], shown: UvProgress
    ) -> bool:
        """Run `uv pip install` once, write its output to the log, and report its progress."""
        paths, temporary = self.request.paths, self.request.temporary
        argv = uv.install(paths.python, arguments, indexes, self.request.wheels)
        self.lines = []
        with paths.log.open("a", encoding="utf-8") as log:
            log.write(f"$ {Path(argv[0]).name} {' '.join(argv[1:])}\n")

            def record(text: str) -> None:
                log.write(f"{text}\n")
                log.flush()
                self.lines.append(text)
                shown.line(text)

            return follow_process(argv, uv.env, temporary, record, shown.tick) == 0
