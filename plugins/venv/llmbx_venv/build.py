"""Build an environment from its lock. A build can be resumed, holds a file lock, and is marked when complete."""

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

import msgspec

from llmbx.api import Environment, InfraError, Progress, UsageError, Value, children, environments, locks

from . import cuda_fallback, needs, sizes, store, verified
from .interpreters import Interpreter
from .pip_progress import PipProgress, complete_packages
from .pip_tool import NOT_FROM_HERE, configured_options, explain_failure, pip_command, pip_environment, without_network
from .settings import INSTALLER, VenvSettings
from .uv_tool import UvProgress, added, uv_arguments, uv_command, uv_environment

Builds = dict[str, tuple[str, str | None]]
"""By requirement with variants: the exact version that was chosen, and the extra index that provides it."""


BASE = "llmbx_base.pth"
"""File in site-packages with the path of the base's packages; Python adds it to its path at start."""


class Tools(Value, frozen=True):
    """The installers of one build, and their settings.

    `pip`: argv prefix; `env`: environment variables; `pip_options`: the user's pip options; `sources`: additional pip
    options; `wheels`: the install's folder of wheels; `uv`: path of uv, or None to use only pip.
    """

    pip: tuple[str, ...]
    env: dict[str, str]
    pip_options: dict[str, str]
    sources: tuple[str, ...]
    wheels: str
    offline: bool
    uv: str | None = None

    def without_extra_indexes(self) -> Tools:
        """The same tools, which search the main index alone."""
        options = {name: value for name, value in self.pip_options.items() if name != "extra-index-url"}
        return msgspec.structs.replace(self, pip_options=options)


def build(
    environment: Environment, install: Path, interpreter: Interpreter, progress: Progress, offline: bool,
    settings: VenvSettings,
) -> store.Marker:  # fmt: skip
    """Build `environment` for `interpreter` in `install`, unless another process has built it in the meantime.

    A build that was interrupted is resumed: pip's cache and installed packages are kept. Raises `InfraError` (network,
    disk, an unavailable package, a failed check) and `UsageError` (an install that is not writable).
    """
    if environment.base and store.complete(environment.base, install, interpreter.minor) is None:
        build(environment.base, install, interpreter, progress, offline, settings)
    paths = store.environment_paths(environment, install, interpreter.minor)
    with _writing(paths):
        Path(paths.venvs).mkdir(parents=True, exist_ok=True)
        with locks.held(paths.lock_file, f"it builds the environment {paths.label}", progress):
            marker = store.read_marker(paths)
            if marker is None:
                marker = _Builder(environment, paths, interpreter, progress, offline, settings).run(install)
            store.set_link(paths)
    return marker


class _Builder:
    """One attempt to build one environment. The caller holds the lock."""

    def __init__(
        self, environment: Environment, paths: store.EnvironmentPaths, interpreter: Interpreter, progress: Progress,
        offline: bool, settings: VenvSettings,
    ) -> None:  # fmt: skip
        self.environment, self.paths, self.interpreter = environment, paths, interpreter
        self.progress, self.offline, self.settings = progress, offline, settings
        self.temporary = paths.folder / ".tmp"
        self.lines: list[str] = []

    def run(self, install: Path) -> store.Marker:
        """Create the virtual environment, install every step, run the check, and write the marker."""
        verified.require_files(self.environment, self.paths.label, self.interpreter.minor)
        for line in needs.require(self.environment, self.paths.label, self.interpreter.path, os.environ):
            self.progress(line)
        _end_leftovers(self.paths.folder)
        self._make_venv()
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir()
        verified.check_wheels(self.environment, install / "wheels")
        tools = self._tools(install / "wheels")
        builds = self._choose_builds(tools)
        self._report_plan(builds)
        self._require_space(builds)
        store.drop_broken_packages(self.paths.site)
        for number in range(len(self.environment.steps)):
            self._install(number, builds, tools)
        base = self._join_base(install)
        self._check()
        shutil.rmtree(self.temporary, ignore_errors=True)
        return self._mark(builds, base)

    def _join_base(self, install: Path) -> dict[str, str]:
        """Put the base's packages after this environment's on the path; return their versions by name."""
        base = self.environment.base and store.complete(self.environment.base, install, self.interpreter.minor)
        if not base:
            return {}
        (self.paths.site / BASE).write_text(f"{base[0].site}\n", encoding="utf-8")
        return base[1].packages

    def _make_venv(self) -> None:
        if (self.paths.folder / "pyvenv.cfg").is_file() and self.paths.python.exists():
            self.progress(f"environment {self.paths.label}: resuming an interrupted build")
            return
        shutil.rmtree(self.paths.folder, ignore_errors=True)
        argv = [self.interpreter.path, "-I", "-m", "venv", "--without-pip", str(self.paths.folder)]
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode != 0:
            output = (done.stderr or done.stdout).strip().splitlines() or ["no error output"]
            _raise_if_full(done.stderr, self.paths)
            raise InfraError(f"{self.interpreter.path} -m venv failed: {output[-1]}")

    def _tools(self, wheels: Path) -> Tools:
        pip = pip_command(str(self.paths.python))
        env = pip_environment(os.environ, self.temporary)
        pip_options = configured_options(pip, env)
        env = {**(without_network(env, pip_options) if self.offline else env), **self.environment.build_env}
        sources = ("--find-links", str(wheels)) if wheels.is_dir() else ()
        installer = self.settings.installer
        return Tools(
            pip=tuple(pip), env=env, pip_options=pip_options, sources=sources, wheels=str(wheels), offline=self.offline,
            uv=uv_command({**os.environ, **({INSTALLER: installer} if installer else {})}),
        )  # fmt: skip

    def _choose_builds(self, tools: Tools) -> Builds:
        """For each requirement with variants, the first available build, with the extra index that provides it."""
        return {key: self._first_available(variants, tools) for key, variants in self.environment.variants.items()}

    def _first_available(self, variants: Sequence[tuple[str, str | None]], tools: Tools) -> tuple[str, str | None]:
        """The exact version of the first available build, and the extra index that provides it.

        Raises `InfraError` if none is available, or only one for CUDA, which the settings must allow.
        """
        missing = ""
        for build, extra in variants:
            index = None if self.offline else extra
            for_cuda = cuda_fallback.is_for_cuda(self.environment, build)
            if for_cuda and missing and not self.offline:  # offline, only what the user has copied is there
                self._require_consent(build, missing)
            if self.environment.files and not verified.has_file(self.environment, build, self.interpreter.minor):
                reason = f"its lock has no file of {build} for Python {self.interpreter.minor}"
            elif available := self._probe(build, index, tools):
                return available, index
            else:
                reason = cuda_fallback.reason(build, index, self.lines)
            missing = missing if for_cuda else reason
        raise InfraError(f"environment {self.paths.label}: {self._failure_reason(tools)}; pip's log: {self.paths.log}")

    def _require_consent(self, build: str, reason: str) -> None:
        """Announce a build for CUDA in an environment without. Raises `InfraError` unless the settings allow it.

        This comes before the build is looked for, because pip may download a file in order to look into it.
        """
        allowed = self.settings.allow_cuda_build
        self.progress(cuda_fallback.require_consent(self.environment, self.paths.label, build, reason, allowed))

    def _probe(self, build: str, index: str | None, tools: Tools) -> str | None:
        """The exact version that would be installed for `build`, or None if it is not available."""
        name, _ = environments.split_pin(build)
        build = verified.exact(build) if self.environment.files else build
        if self._uv([build], (index,) if index else (), tools, "--no-deps", "--dry-run") == 0 and added(self.lines):
            return f"{name}=={next(iter(added(self.lines).values()))}"
        report = self.temporary / "report.json"
        options = ["--dry-run", "--no-deps", "--ignore-installed", "--retries", "1", "--report", str(report)]
        if self._pip(["install", *options, *_extra(index), build], tools, lambda _: None, lambda: None) != 0:
            return None
        return f"{name}=={json.loads(report.read_bytes())['install'][0]['metadata']['version']}"

    def _report_plan(self, builds: Builds) -> None:
        environment = self.environment
        download, disk = _megabytes(environment, builds)
        size = f"{sizes.text(download)} to download (less if cached by pip), {sizes.text(disk)} on disk"
        count = sizes.packages(environment, *(build for build, _ in builds.values()))
        if not count and not builds:
            return  # a Python without packages
        names = ", ".join(build for build, _ in builds.values())
        self.progress(
            f"environment {self.paths.label}: {count} pinned packages for Python {self.interpreter.version}"
            f"{f' with {names}' if names else ''}: {size}, in {self.paths.link}"
        )
        if count and not environment.files:
            self.progress(f"environment {self.paths.label}: its lock has no digests, so packages are not verified")

    def _require_space(self, builds: Builds) -> None:
        """Raise `InfraError` if the disk has too little free space for the packages that are not installed yet."""
        download, disk = _megabytes(self.environment, builds)
        if disk is None:
            return
        installed = (
            sum(f.stat().st_size for f in self.paths.folder.rglob("*") if f.is_file() and not f.is_symlink()) / 1e6
        )
        needed = max(0.0, disk - installed) + (download or 0) * 0.5
        free = shutil.disk_usage(self.paths.venvs).free / 1e6
        if free < needed and installed < 0.95 * disk:
            raise InfraError(
                f"environment {self.paths.label} needs {sizes.text(needed)} more in {self.paths.venvs}, but only "
                f"{sizes.text(free)} are free: free some space or set LLMB_INSTALL to a folder on another disk"
            )

    def _install(self, number: int, builds: Builds, tools: Tools) -> None:
        step = self.environment.steps[number]
        wanted = self._wanted(number, [builds.get(requirement, (requirement, None))[0] for requirement in step])
        indexes = {index for requirement in step if (index := builds.get(requirement, ("", None))[1])}
        options = [part for index in sorted(indexes) for part in _extra(index)]
        title = f"environment {self.paths.label}: step {number + 1} of {len(self.environment.steps)}"
        if compiled := [requirement for requirement in step if requirement in self.environment.needs]:
            title += f" (builds {', '.join(compiled)}, which can take an hour)"
        no_deps = ["--no-deps"] if number in self.environment.no_deps else []
        if self._uv(wanted, sorted(indexes), tools, *no_deps, progress_lines=UvProgress(title, self.progress)) == 0:
            return
        # uv prefers an extra index, which may have another file of the version than the lock (a partial mirror).
        if verified.mismatch(self.lines, self.environment) and "extra-index-url" in tools.pip_options:
            alone, lines = tools.without_extra_indexes(), UvProgress(title, self.progress)
            if self._uv(wanted, sorted(indexes), alone, *no_deps, progress_lines=lines) == 0:
                return
        # pip takes from all its sources a file that the lock has, so a mismatch of uv's choice is not the last word.
        # Compiling all modules takes longer than installing them. The check compiles the modules that a run imports.
        options += [*no_deps, "--no-compile"]
        progress_lines = PipProgress(title, self.progress, lambda: complete_packages(self.paths.site))
        if self._pip(["install", *options, *wanted], tools, progress_lines.line, progress_lines.tick) != 0:
            self._require_known_files()
            raise InfraError(
                f"environment {self.paths.label}: {self._failure_reason(tools)}; pip's log: {self.paths.log}"
            )

    def _wanted(self, number: int, requirements: list[str]) -> list[str]:
        """The installers' arguments for one step: `requirements`, or a file with their digests if the lock has them."""
        packages = self.environment.variant_packages
        wanted = [part for requirement in requirements for part in (*packages.get(requirement, ()), requirement)]
        if not self.environment.files:
            return wanted
        listed = self.temporary / f"step-{number}.txt"
        listed.write_text(verified.requirements_text(self.environment, wanted), encoding="utf-8")
        return [*verified.OPTIONS, "-r", str(listed)]

    def _require_known_files(self) -> None:
        """Delete the build and raise `InfraError` if the installer refused a file whose digest is not in the lock."""
        found = verified.mismatch(self.lines, self.environment)
        if found is None:
            return
        shutil.rmtree(self.paths.folder, ignore_errors=True)
        raise InfraError(
            f"environment {self.paths.label}: {found}; nothing was installed: find out who changed the file in your "
            f"package index, find-links folder or {Path(self.paths.venvs).parent / 'wheels'}; log: {self.paths.log}"
        )

    def _uv(
        self,
        requirements: list[str],
        indexes: Sequence[str],
        tools: Tools,
        *options: str,
        progress_lines: UvProgress | None = None,
    ) -> int | None:
        """Run `uv pip install` and return its exit code; None without uv. If it fails, the caller falls back to pip."""
        if tools.uv is None:
            return None
        no_index = tools.offline or "no-index" in tools.pip_options
        argv = uv_arguments(tools.uv, self.paths.python, requirements, indexes, Path(tools.wheels), no_index)
        progress_lines = progress_lines or UvProgress("", lambda _: None)
        return self._follow(
            [*argv, *options], uv_environment(tools.env, tools.pip_options), progress_lines.line, progress_lines.tick
        )

    def _pip(self, arguments: list[str], tools: Tools, line: Callable[[str], None], tick: Callable[[], None]) -> int:
        """Run one pip command and return its exit code."""
        return self._follow([*tools.pip, arguments[0], *tools.sources, *arguments[1:]], tools.env, line, tick)

    def _follow(
        self, argv: list[str], env: Mapping[str, str], line: Callable[[str], None], tick: Callable[[], None]
    ) -> int:
        """Run an installer, write its output to the log, keep the lines for `_failure_reason`, return the exit code."""
        self.lines = []
        with self.paths.log.open("a", encoding="utf-8") as log:
            log.write(f"$ {Path(argv[0]).name} {' '.join(argv[1:])}\n")

            def record(text: str) -> None:
                log.write(f"{text}\n")
                log.flush()
                self.lines.append(text)
                line(text)

            return children.follow(argv, env, self.temporary, record, tick)

    def _failure_reason(self, tools: Tools) -> str:
        return explain_failure(self.lines, tools.pip_options, Path(tools.wheels), tools.offline)

    def _check(self) -> None:
        if not self.environment.check:
            return
        self.progress(f"environment {self.paths.label}: running the check ({self.environment.check})")
        # The first run imports the same modules, so their bytecode is written even if the user's shell disables that.
        env = {**pip_environment(os.environ, self.temporary), "PYTHONDONTWRITEBYTECODE": ""}
        output: list[str] = []
        argv = [str(self.paths.python), *NOT_FROM_HERE, "-c", self.environment.check]
        if children.follow(argv, env, self.temporary, output.append) != 0:
            last = next((line.strip() for line in reversed(output) if line.strip()), "no error output")
            raise InfraError(f"environment {self.paths.label} was installed but its check failed: {last}")

    def _mark(self, builds: Builds, base: Mapping[str, str]) -> store.Marker:
        packages = {**base, **store.installed_packages(self.paths.site)}
        marker = store.Marker(
            name=self.environment.name,
            lock=self.paths.lock,
            python=self.interpreter.version,
            packages=packages,
            digest=store.packages_digest(packages, store.accepted_files(self.environment)),
            builds=tuple(build for build, _ in builds.values()),
        )
        store.finish(self.paths, marker)
        self.progress(f"environment {self.paths.label}: ready, {len(packages)} packages")
        return marker


def _extra(index: str | None) -> list[str]:
    return ["--extra-index-url", index] if index else []


def _megabytes(environment: Environment, builds: Builds) -> tuple[int | None, int | None]:
    """Download size and disk usage in MB with the chosen builds; None if the lock does not have them."""
    sized = (build for build, _ in builds.values() if build in environment.variant_mb)
    return sizes.megabytes(environment, next(sized, ""))


def _end_leftovers(folder: Path) -> None:
    """Kill pip processes of a killed build, which would write into the same folder."""
    import psutil

    for process in psutil.process_iter(["cmdline", "uids"]):
        argv, uids = process.info["cmdline"] or [], process.info["uids"]
        pip = any(part.endswith(("pip", "__pip-runner__.py")) for part in argv)
        if pip and uids and uids.real == os.getuid() and any(str(folder) in part for part in argv):
            with suppress(psutil.Error):
                process.kill()
                while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                    time.sleep(0.05)


def _raise_if_full(text: str, paths: store.EnvironmentPaths) -> None:
    if "No space left on device" in text:
        raise InfraError(f"{paths.venvs}: No space left on device: free some space and retry")


@contextmanager
def _writing(paths: store.EnvironmentPaths) -> Iterator[None]:
    """Convert an OSError while writing to the install into a `UsageError` or `InfraError` with advice."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            advice = "set LLMB_INSTALL to a folder you can write to"
            raise UsageError(f"cannot write to {paths.venvs}: {error.strerror}; {advice}") from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise InfraError(f"the disk of {paths.venvs} is full: free some space and retry") from error
        raise InfraError(f"environment {paths.label}: {error}") from error
