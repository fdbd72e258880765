"""Building an environment from its lock: resumable, locked against others, and marked only when it is whole."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from llmbx.catalog.environments import split_pin
from llmbx.errors import InfraError, UsageError
from llmbx.model import Environment, Value
from . import store
from llmbx.runtimes.base import Progress
from llmbx.runtimes.children import follow
from .interpreters import Interpreter
from llmbx.runtimes.locks import held
from .pip_progress import PipProgress, complete_packages
from .pip_tool import configured_places, explain_failure, pip_command, pip_environment, without_network
from .uv_tool import UvProgress, added, uv_arguments, uv_command, uv_environment

Builds = dict[str, tuple[str, str | None]]
"""For a requirement with variants: the exact build that was chosen, and the extra index that has it."""


class Tools(Value, frozen=True):
    """What one build works with: the pip, its environment, where it looks besides, and where it looks as configured."""

    pip: tuple[str, ...]
    env: dict[str, str]
    places: dict[str, str]
    sources: tuple[str, ...]
    wheels: str
    offline: bool
    uv: str | None = None


def build(
    environment: Environment, install: Path, interpreter: Interpreter, progress: Progress, offline: bool
) -> store.Marker:
    """Build `environment` for `interpreter` under `install`, or find it built once the lock is ours.

    Raises `InfraError` (network, disk, a package that cannot be had, a check that fails) and `UsageError` (an install
    that cannot be written). Stopped at any point it goes on from there: pip's cache and finished packages stay.
    """
    where = store.place(environment, install, interpreter.minor)
    with _writing(where):
        Path(where.venvs).mkdir(parents=True, exist_ok=True)
        with held(where.lock_file, f"it builds the environment {where.label}", progress):
            marker = store.read_marker(where)
            if marker is None:
                marker = _Builder(environment, where, interpreter, progress, offline).run(install / "wheels")
            store.set_link(where)
    return marker


class _Builder:
    """One attempt at building one environment; the lock is held."""

    def __init__(
        self, environment: Environment, where: store.Place, interpreter: Interpreter, progress: Progress, offline: bool
    ) -> None:
        self.environment, self.where, self.interpreter = environment, where, interpreter
        self.progress, self.offline = progress, offline
        self.temporary = where.folder / ".tmp"
        self.lines: list[str] = []

    def run(self, wheels: Path) -> store.Marker:
        """Make the virtual environment, install every step, check it and mark it."""
        _end_leftovers(self.where.folder)
        self._make_venv()
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir()
        tools = self._tools(wheels)
        builds = self._choose_builds(tools)
        self._announce(builds)
        self._make_room(builds)
        store.drop_broken_packages(self.where.site)
        for number in range(len(self.environment.steps)):
            self._install(number, builds, tools)
        self._check()
        shutil.rmtree(self.temporary, ignore_errors=True)
        return self._mark(builds)

    def _make_venv(self) -> None:
        if (self.where.folder / "pyvenv.cfg").is_file() and self.where.python.exists():
            self.progress(f"environment {self.where.label}: going on where an earlier build stopped")
            return
        shutil.rmtree(self.where.folder, ignore_errors=True)
        argv = [self.interpreter.path, "-I", "-m", "venv", "--without-pip", str(self.where.folder)]
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
            _raise_if_full(done.stderr, self.where)
            raise InfraError(f"{self.interpreter.path} cannot make a virtual environment: {said[-1]}")

    def _tools(self, wheels: Path) -> Tools:
        pip = pip_command(self.interpreter.path, str(self.where.python))
        env = pip_environment(os.environ, self.temporary)
        places = configured_places(pip, env)
        env = without_network(env, places) if self.offline else env
        sources = ("--find-links", str(wheels)) if wheels.is_dir() else ()
        return Tools(
            pip=tuple(pip), env=env, places=places, sources=sources, wheels=str(wheels), offline=self.offline,
            uv=uv_command(os.environ),
        )  # fmt: skip

    def _choose_builds(self, tools: Tools) -> Builds:
        """For each requirement with variants the first build that can be had, with the extra index that has it."""
        chosen: Builds = {}
        for requirement, variants in self.environment.variants.items():
            for build, extra in variants:
                index = None if self.offline else extra
                if found := self._probe(build, index, tools):
                    chosen[requirement] = (found, index)
                    break
            else:
                raise InfraError(f"environment {self.where.label}: {self._why(tools)}; pip's log: {self.where.log}")
        return chosen

    def _probe(self, build: str, index: str | None, tools: Tools) -> str | None:
        """The build that would be taken for `build` (the exact version), or None when it cannot be had."""
        name, _ = split_pin(build)
        if self._uv([build], (index,) if index else (), tools, "--no-deps", "--dry-run") == 0 and added(self.lines):
            return f"{name}=={next(iter(added(self.lines).values()))}"
        report = self.temporary / "report.json"
        options = ["--dry-run", "--no-deps", "--ignore-installed", "--retries", "1", "--report", str(report)]
        if self._pip(["install", *options, *_extra(index), build], tools, lambda _: None, lambda: None) != 0:
            return None
        return f"{name}=={json.loads(report.read_bytes())['install'][0]['metadata']['version']}"

    def _announce(self, builds: Builds) -> None:
        e = self.environment
        download, disk = _megabytes(e, builds)
        size = f"{_size(download)} to download (less what pip has cached), {_size(disk)} on disk"
        count = sum(map(len, e.steps))
        names = ", ".join(build for build, _ in builds.values())
        self.progress(
            f"environment {self.where.label}: {count} pinned packages for Python {self.interpreter.version}"
            f"{f' with {names}' if names else ''}: {size}, in {self.where.link}"
        )

    def _make_room(self, builds: Builds) -> None:
        """Raise `InfraError` when the disk has less free than what is still to be written."""
        download, disk = _megabytes(self.environment, builds)
        if disk is None:
            return
        there = sum(f.stat().st_size for f in self.where.folder.rglob("*") if f.is_file() and not f.is_symlink()) / 1e6
        needed = max(0.0, disk - there) + (download or 0) * 0.5
        free = shutil.disk_usage(self.where.venvs).free / 1e6
        if free < needed and there < 0.95 * disk:
            raise InfraError(
                f"environment {self.where.label} needs {_size(needed)} more in {self.where.venvs}, where "
                f"{_size(free)} are free: free some space or set LLMB_INSTALL to a folder on another disk"
            )

    def _install(self, number: int, builds: Builds, tools: Tools) -> None:
        step = self.environment.steps[number]
        wanted = [builds.get(requirement, (requirement, None))[0] for requirement in step]
        indexes = {index for requirement in step if (index := builds.get(requirement, ("", None))[1])}
        options = [part for index in sorted(indexes) for part in _extra(index)]
        title = f"environment {self.where.label}: step {number + 1} of {len(self.environment.steps)}"
        alone = ["--no-deps"] if number in self.environment.no_deps else []
        if self._uv(wanted, sorted(indexes), tools, *alone, shown=UvProgress(title, self.progress)) == 0:
            return
        # Compiling everything ahead takes longer than the rest: the check compiles what a run imports.
        options += [*alone, "--no-compile"]
        shown = PipProgress(title, self.progress, lambda: complete_packages(self.where.site))
        if self._pip(["install", *options, *wanted], tools, shown.line, shown.tick) != 0:
            raise InfraError(f"environment {self.where.label}: {self._why(tools)}; pip's log: {self.where.log}")

    def _uv(
        self,
        requirements: list[str],
        indexes: Sequence[str],
        tools: Tools,
        *options: str,
        shown: UvProgress | None = None,
    ) -> int | None:
        """Have uv install them; None where there is no uv. What it cannot do is left to pip, which also says why."""
        if tools.uv is None:
            return None
        no_index = tools.offline or "no-index" in tools.places
        argv = uv_arguments(tools.uv, self.where.python, requirements, indexes, Path(tools.wheels), no_index)
        shown = shown or UvProgress("", lambda _: None)
        return self._follow([*argv, *options], uv_environment(tools.env, tools.places), shown.line, shown.tick)

    def _pip(self, arguments: list[str], tools: Tools, line: Callable[[str], None], tick: Callable[[], None]) -> int:
        """Run one pip command."""
        return self._follow([*tools.pip, arguments[0], *tools.sources, *arguments[1:]], tools.env, line, tick)

    def _follow(
        self, argv: list[str], env: Mapping[str, str], line: Callable[[str], None], tick: Callable[[], None]
    ) -> int:
        """Run an installer with its whole output in the log; the lines of a failure are kept for `_why`."""
        self.lines = []
        with self.where.log.open("a", encoding="utf-8") as log:
            log.write(f"$ {Path(argv[0]).name} {' '.join(argv[1:])}\n")

            def keep(text: str) -> None:
                log.write(f"{text}\n")
                log.flush()
                self.lines.append(text)
                line(text)

            return follow(argv, env, self.temporary, keep, tick)

    def _why(self, tools: Tools) -> str:
        return explain_failure(self.lines, tools.places, Path(tools.wheels), tools.offline)

    def _check(self) -> None:
        if not self.environment.check:
            return
        self.progress(f"environment {self.where.label}: checking it ({self.environment.check})")
        # The first run imports the same modules: their bytecode is written whatever the user's shell says.
        env = {**pip_environment(os.environ, self.temporary), "PYTHONDONTWRITEBYTECODE": ""}
        said: list[str] = []
        argv = [str(self.where.python), "-c", self.environment.check]
        if follow(argv, env, self.temporary, said.append) != 0:
            last = next((line.strip() for line in reversed(said) if line.strip()), "no reason given")
            raise InfraError(f"environment {self.where.label} was installed but fails its check: {last}")

    def _mark(self, builds: Builds) -> store.Marker:
        packages = store.installed_packages(self.where.site)
        marker = store.Marker(
            name=self.environment.name,
            lock=self.where.lock,
            python=self.interpreter.version,
            packages=packages,
            digest=store.packages_digest(packages),
            builds=tuple(build for build, _ in builds.values()),
        )
        store.finish(self.where, marker)
        self.progress(f"environment {self.where.label}: ready, {len(packages)} packages")
        return marker


def _extra(index: str | None) -> list[str]:
    return ["--extra-index-url", index] if index else []


def _megabytes(e: Environment, builds: Builds) -> tuple[float | None, float | None]:
    """Megabytes to download and on disk with the chosen builds; None where the lock does not say."""
    for build, _ in builds.values():
        if build in e.variant_mb:
            return e.variant_mb[build]
    return e.download_mb, e.disk_mb


def _size(megabytes: float | None) -> str:
    return "an unknown amount" if megabytes is None else f"{megabytes:,.0f} MB"


def _end_leftovers(folder: Path) -> None:
    """Stop the pip of a builder that was killed: it would write into the folder beside ours."""
    import psutil

    for process in psutil.process_iter(["cmdline", "uids"]):
        argv, uids = process.info["cmdline"] or [], process.info["uids"]
        pip = any(part.endswith(("pip", "__pip-runner__.py")) for part in argv)
        if pip and uids and uids.real == os.getuid() and any(str(folder) in part for part in argv):
            with suppress(psutil.Error):
                process.kill()
                while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                    time.sleep(0.05)


def _raise_if_full(text: str, where: store.Place) -> None:
    if "No space left on device" in text:
        raise InfraError(f"{where.venvs}: No space left on device: free some space and start again")


@contextmanager
def _writing(where: store.Place) -> Iterator[None]:
    """Turn an OSError while writing under the install into the one line that a user can act on."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            advice = "set LLMB_INSTALL to a folder you can write to"
            raise UsageError(f"cannot write to {where.venvs}: {error.strerror}; {advice}") from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise InfraError(f"the disk of {where.venvs} is full: free some space and start again") from error
        raise InfraError(f"environment {where.label}: {error}") from error
