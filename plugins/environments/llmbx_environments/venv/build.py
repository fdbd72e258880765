"""Build an environment from its lock. A build can be resumed, holds a file lock, and is marked when complete."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from llmbx.api import (
    Environment,
    InfraError,
    Progress,
    UsageError,
    end_leftovers,
    follow_process,
    split_pin,
)

from ..locks import held
from . import cuda_fallback, needs, sizes, store, verified
from .failures import explain, network_problem
from .interpreters import Interpreter
from .pip_tool import NOT_FROM_HERE, configured_uv, pip_environment
from .settings import VenvSettings
from .uv_tool import Uv, UvProgress, first_version

Builds = dict[str, tuple[str, str | None]]
"""By requirement with variants: the exact version that was chosen, and the extra index that provides it."""


BASE = "llmbx_base.pth"
"""File in site-packages with the path of the base's packages; Python adds it to its path at start."""


def build(
    environment: Environment, install: Path, interpreter: Interpreter, progress: Progress, offline: bool,
    settings: VenvSettings,
) -> store.Marker:  # fmt: skip
    """Build `environment` for `interpreter` in `install`, unless another process has built it in the meantime.

    A build that was interrupted is resumed: uv's cache and installed packages are kept. Raises `InfraError` (network,
    disk, an unavailable package, a failed check) and `UsageError` (an install that is not writable).
    """
    if environment.base and store.complete(environment.base, install, interpreter.minor) is None:
        build(environment.base, install, interpreter, progress, offline, settings)
    paths = store.environment_paths(environment, install, interpreter.minor)
    with _writing(paths):
        Path(paths.venvs).mkdir(parents=True, exist_ok=True)
        with held(paths.lock_file, f"it builds the environment {paths.label}", progress):
            marker = store.read_marker(paths)
            if marker is None:
                marker = _Builder(environment, paths, interpreter, progress, offline, settings).run(
                    install
                )
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
        for line in needs.require(
            self.environment, self.paths.label, self.interpreter.path, os.environ
        ):
            self.progress(line)
        end_leftovers(
            self.paths.folder, "pip"
        )  # a leftover `uv pip install` would write into the folder
        self._make_venv()
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir()
        verified.check_wheels(self.environment, install / "wheels")
        self.wheels = install / "wheels"
        env = {**os.environ, **self.environment.build_env}
        self.uv = configured_uv(env, str(self.paths.python), self.temporary, self.offline)
        builds = self._choose_builds()
        self._report_plan(builds)
        self._require_space(builds)
        store.drop_broken_packages(self.paths.site)
        for number in range(len(self.environment.steps)):
            self._install(number, builds)
        base = self._join_base(install)
        self._check()
        shutil.rmtree(self.temporary, ignore_errors=True)
        return self._mark(builds, base)

    def _join_base(self, install: Path) -> dict[str, str]:
        """Put the base's packages after this environment's on the path; return their versions by name."""
        base = self.environment.base and store.complete(
            self.environment.base, install, self.interpreter.minor
        )
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

    def _choose_builds(self) -> Builds:
        """For each requirement with variants, the first available build, with the extra index that provides it."""
        return {
            key: self._first_available(variants)
            for key, variants in self.environment.variants.items()
        }

    def _first_available(
        self, variants: Sequence[tuple[str, str | None]]
    ) -> tuple[str, str | None]:
        """The exact version of the first available build, and the extra index that provides it.

        Raises `InfraError` if none is available, or only one for CUDA, which the settings must allow.
        """
        missing = ""
        for build, extra in variants:
            index = None if self.offline else extra
            for_cuda = cuda_fallback.is_for_cuda(self.environment, build)
            if (
                for_cuda and missing and not self.offline
            ):  # offline, only what the user has copied is there
                self._require_consent(build, missing)
            if self.environment.files and not verified.has_file(
                self.environment, build, self.interpreter.minor
            ):
                reason = f"its lock has no file of {build} for Python {self.interpreter.minor}"
            elif available := self._probe(build, index):
                return available, index
            else:
                reason = cuda_fallback.reason(build, index, self.lines)
            missing = missing if for_cuda else reason
        raise self._failure()

    def _require_consent(self, build: str, reason: str) -> None:
        """Announce a build for CUDA in an environment without. Raises `InfraError` unless the settings allow it.

        This comes before the build is looked for, because uv may download a file in order to look into it.
        """
        allowed = self.settings.allow_cuda_build
        self.progress(
            cuda_fallback.require_consent(
                self.environment, self.paths.label, build, reason, allowed
            )
        )

    def _probe(self, build: str, index: str | None) -> str | None:
        """The exact version that would be installed for `build`, or None if it is not available."""
        name, _ = split_pin(build)
        build = verified.exact(build) if self.environment.files else build
        empty = str(self.temporary / "empty")  # what is installed already would not be listed
        if not self._uv(
            [build, "--no-deps", "--dry-run", "--target", empty], [index] if index else []
        ):
            return None
        version = first_version(self.lines)
        return f"{name}=={version}" if version else None

    def _report_plan(self, builds: Builds) -> None:
        environment = self.environment
        download, disk = _megabytes(environment, builds)
        size = (
            f"{sizes.text(download)} to download (less if cached by uv), {sizes.text(disk)} on disk"
        )
        count = sizes.packages(environment, *(build for build, _ in builds.values()))
        if not count and not builds:
            return  # a Python without packages
        names = ", ".join(build for build, _ in builds.values())
        self.progress(
            f"environment {self.paths.label}: {count} pinned packages for Python {self.interpreter.version}"
            f"{f' with {names}' if names else ''}: {size}, in {self.paths.link}"
        )
        if count and not environment.files:
            self.progress(
                f"environment {self.paths.label}: its lock has no digests, so packages are not verified"
            )

    def _require_space(self, builds: Builds) -> None:
        """Raise `InfraError` if the disk has too little free space for the packages that are not installed yet."""
        download, disk = _megabytes(self.environment, builds)
        if disk is None:
            return
        installed = (
            sum(
                f.stat().st_size
                for f in self.paths.folder.rglob("*")
                if f.is_file() and not f.is_symlink()
            )
            / 1e6
        )
        needed = max(0.0, disk - installed) + (download or 0) * 0.5
        free = shutil.disk_usage(self.paths.venvs).free / 1e6
        if free < needed and installed < 0.95 * disk:
            raise InfraError(
                f"environment {self.paths.label} needs {sizes.text(needed)} more in {self.paths.venvs}, but only "
                f"{sizes.text(free)} are free: free some space or set LLMB_INSTALL to a folder on another disk"
            )

    def _install(self, number: int, builds: Builds) -> None:
        step = self.environment.steps[number]
        requirements = self._requirements(number, [builds.get(pin, (pin, None))[0] for pin in step])
        indexes = sorted({index for pin in step if (index := builds.get(pin, ("", None))[1])})
        title = (
            f"environment {self.paths.label}: step {number + 1} of {len(self.environment.steps)}"
        )
        if compiled := [pin for pin in step if pin in self.environment.needs]:
            title += f" (builds {', '.join(compiled)}, which can take an hour)"
        no_deps = ["--no-deps"] if number in self.environment.no_deps else []
        if not self._uv([*no_deps, *requirements], indexes, title):
            self._require_known_files()
            raise self._failure()

    def _requirements(self, number: int, requirements: list[str]) -> list[str]:
        """The arguments of uv for one step: `requirements`, or a file with their digests if the lock has them."""
        packages = self.environment.variant_packages
        pins = [
            pin
            for requirement in requirements
            for pin in (*packages.get(requirement, ()), requirement)
        ]
        if not self.environment.files:
            return pins
        listed = self.temporary / f"step-{number}.txt"
        listed.write_text(verified.requirements_text(self.environment, pins), encoding="utf-8")
        return [*verified.OPTIONS, "-r", str(listed)]

    def _require_known_files(self) -> None:
        """Delete the build and raise `InfraError` if uv refused a file whose digest is not in the lock."""
        refused = verified.mismatch(self.lines, self.environment)
        if refused is None:
            return
        shutil.rmtree(self.paths.folder, ignore_errors=True)
        raise InfraError(
            f"environment {self.paths.label}: {refused}; nothing was installed: find out who changed the file in your "
            f"package index, find-links folder or {Path(self.paths.venvs).parent / 'wheels'}; log: {self.paths.log}"
        )

    def _uv(self, arguments: Sequence[str], indexes: Sequence[str], title: str = "") -> bool:
        """Run `uv pip install`; return whether it succeeded. Its output is in `lines`.

        uv prefers an extra index, which may have another file of the version than the lock (a partial mirror), and
        needs an answer of each. So the main index is tried alone, too.
        """
        if self._run(self.uv, arguments, indexes, title):
            return True
        alone, lines = self.uv.without_further_indexes(), self.lines
        refused = verified.mismatch(lines, self.environment) or network_problem("\n".join(lines))
        if refused and alone != self.uv and self._run(alone, arguments, indexes, title):
            return True
        self.lines = lines
        return False

    def _run(self, uv: Uv, arguments: Sequence[str], indexes: Sequence[str], title: str) -> bool:
        """Run `uv pip install` once, write its output to the log and to `lines`, and report its progress."""
        argv = uv.install(self.paths.python, arguments, indexes, self.wheels)
        shown = UvProgress(title, self.progress if title else lambda _: None)
        self.lines = []
        with self.paths.log.open("a", encoding="utf-8") as log:
            log.write(f"$ {Path(argv[0]).name} {' '.join(argv[1:])}\n")

            def record(text: str) -> None:
                log.write(f"{text}\n")
                log.flush()
                self.lines.append(text)
                shown.line(text)

            return follow_process(argv, uv.env, self.temporary, record, shown.tick) == 0

    def _failure(self) -> InfraError:
        """The error that explains why uv failed."""
        reason = explain("uv", self.lines, self.uv.configured, self.wheels, self.offline)
        return InfraError(f"environment {self.paths.label}: {reason}; uv's log: {self.paths.log}")

    def _check(self) -> None:
        if not self.environment.check:
            return
        self.progress(
            f"environment {self.paths.label}: running the check ({self.environment.check})"
        )
        # The first run imports the same modules, so their bytecode is written even if the user's shell disables that.
        env = {**pip_environment(os.environ, self.temporary), "PYTHONDONTWRITEBYTECODE": ""}
        output: list[str] = []
        argv = [str(self.paths.python), *NOT_FROM_HERE, "-c", self.environment.check]
        if follow_process(argv, env, self.temporary, output.append) != 0:
            last = next(
                (line.strip() for line in reversed(output) if line.strip()), "no error output"
            )
            raise InfraError(
                f"environment {self.paths.label} was installed but its check failed: {last}"
            )

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


def _megabytes(environment: Environment, builds: Builds) -> tuple[int | None, int | None]:
    """Download size and disk usage in MB with the chosen builds; None if the lock does not have them."""
    sized = (build for build, _ in builds.values() if build in environment.variant_mb)
    return sizes.megabytes(environment, next(sized, ""))


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
            raise UsageError(
                f"cannot write to {paths.venvs}: {error.strerror}; {advice}"
            ) from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise InfraError(
                f"the disk of {paths.venvs} is full: free some space and retry"
            ) from error
        raise InfraError(f"environment {paths.label}: {error}") from error
