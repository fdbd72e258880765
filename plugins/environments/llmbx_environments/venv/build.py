"""Build an environment from its lock. A build can be resumed, and is marked when complete."""

from __future__ import annotations

import dataclasses
import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from llmbx.api import InfraError, UsageError, end_leftovers, follow_process

from ..locks import held
from ..programs import last_line, run
from ..space import require_space
from . import needs, store, verified
from .installer import Installer
from .pip_settings import NOT_FROM_HERE, pip_environment
from .request import BuildRequest, size_text
from .uv_tool import configured_uv
from .variants import Build, Chooser

BASE = "llmbx_base.pth"
"""File in site-packages with the path of the base's packages, which Python adds to its path."""


def ensure(request: BuildRequest) -> store.Complete:
    """Build an environment and its base, unless another process does that in the meantime.

    An interrupted build is resumed: uv's cache and installed packages are kept. Raises `InfraError`
    (network, disk, an unavailable package, a failed check) and `UsageError` (an install that is not
    writable).
    """
    environment, install, minor = request.environment, request.install, request.interpreter.minor
    base, paths = environment.base, request.paths
    if base and store.complete(base, install, minor) is None:
        ensure(dataclasses.replace(request, environment=base))
    doing = f"it builds the {request.title}"
    with _writing(paths), held(paths.lock_file, doing, request.progress):
        build = store.complete(environment, install, minor)
        if build is None:
            build = store.Complete(paths=paths, marker=_Builder(request).run())
        store.set_link(paths)
    return build


class _Builder:
    """One attempt to build one environment. The caller holds the lock."""

    def __init__(self, request: BuildRequest) -> None:
        self.request, self.environment, self.paths = request, request.environment, request.paths
        self.title, self.temporary = request.title, request.temporary

    def run(self) -> store.Marker:
        """Create the virtual environment, install every step, run the check, write the marker."""
        request, environment, paths = self.request, self.environment, self.paths
        verified.require_files(environment, paths.label, request.interpreter.minor)
        for line in needs.require(environment, paths.label, request.interpreter.path, os.environ):
            request.progress(line)
        end_leftovers(paths.folder, "pip")  # a leftover `uv pip install` would write there
        self._make_venv()
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir()
        verified.check_wheels(environment, request.wheels)
        environ = {**os.environ, **environment.build_env}
        installer = Installer(request, configured_uv(environ, self.temporary, request.offline))
        builds = Chooser(request, installer).builds()
        pins = [build.pin for build in builds.values()]
        self._report_plan(pins)
        self._require_space(pins)
        store.drop_broken_packages(paths.site)
        for number in range(len(environment.steps)):
            self._install(number, installer, builds)
        inherited = self._join_base()
        self._check()
        shutil.rmtree(self.temporary, ignore_errors=True)
        return self._mark(pins, inherited)

    def _make_venv(self) -> None:
        folder = self.paths.folder
        if (folder / "pyvenv.cfg").is_file() and self.paths.python.exists():
            self.request.report("resuming an interrupted build")
            return
        shutil.rmtree(folder, ignore_errors=True)
        python = self.request.interpreter.path
        done = run([python, "-I", "-m", "venv", "--without-pip", str(folder)])
        if "No space left on device" in done.stderr:
            reason = "No space left on device: free some space and retry"
            raise InfraError(f"{self.paths.venvs}: {reason}")
        if done.returncode != 0:
            raise InfraError(f"{python} -m venv failed: {last_line(done)}")

    def _report_plan(self, pins: list[str]) -> None:
        count = self.request.packages(*pins)
        if not count and not pins:
            return  # a Python without packages
        download, disk = map(size_text, self.request.megabytes(*pins))
        size = f"{download} to download (less if cached by uv), {disk} on disk"
        chosen = f" with {', '.join(pins)}" if pins else ""
        python = self.request.interpreter.version
        packages = f"{count} pinned packages for Python {python}{chosen}"
        self.request.report(f"{packages}: {size}, in {self.paths.link}")
        if count and not self.environment.files:
            self.request.report("its lock has no digests, so packages are not verified")

    def _require_space(self, pins: list[str]) -> None:
        """Raise `InfraError` if the disk is too small for what is not installed yet."""
        download, disk = self.request.megabytes(*pins)
        if disk is None:
            return
        installed = sum(
            file.stat().st_size
            for file in self.paths.folder.rglob("*")
            if file.is_file() and not file.is_symlink()
        )
        left = disk - installed / 1e6
        if left > 0.05 * disk:
            needed = left + (download or 0) * 0.5
            need = f"{self.title} needs {size_text(needed)} more"
            require_space(Path(self.paths.venvs), needed * 1e6, need, size=_megabytes)

    def _install(self, number: int, installer: Installer, builds: Mapping[str, Build]) -> None:
        """Install one step. Raises `InfraError` if that fails."""
        environment, step = self.environment, self.environment.steps[number]
        chosen = [builds.get(pin, Build(pin=pin)) for pin in step]
        arguments = ["--no-deps"] if number in environment.no_deps else []
        arguments += installer.requirements(number, [build.pin for build in chosen])
        indexes = sorted({build.index for build in chosen if build.index})
        title = f"step {number + 1} of {len(environment.steps)}"
        if compiled := [pin for pin in step if pin in environment.needs]:
            title += f" (builds {', '.join(compiled)}, which can take an hour)"
        if not installer.install(arguments, indexes, title):
            self._require_accepted(installer)
            raise installer.failure()

    def _require_accepted(self, installer: Installer) -> None:
        """Delete the build and raise `InfraError` if uv refused a file because of its digest."""
        refused = installer.mismatch()
        if refused is None:
            return
        shutil.rmtree(self.paths.folder, ignore_errors=True)
        raise InfraError(
            f"{self.title}: {refused}; nothing was installed: find out who changed the file in "
            f"your package index, find-links folder or {self.request.wheels}; log: {self.paths.log}"
        )

    def _join_base(self) -> dict[str, str]:
        """Put the base's packages after this environment's; return their versions by name."""
        base = self.environment.base
        minor = self.request.interpreter.minor
        build = store.complete(base, self.request.install, minor) if base else None
        if build is None:
            return {}
        (self.paths.site / BASE).write_text(f"{build.paths.site}\n", encoding="utf-8")
        return build.marker.packages

    def _check(self) -> None:
        """Run the check of the lock. Raises `InfraError` if it fails."""
        code = self.environment.check
        if not code:
            return
        self.request.report(f"running the check ({code})")
        # The first run imports the same modules, so their bytecode is written in any case.
        env = {**pip_environment(os.environ, self.temporary), "PYTHONDONTWRITEBYTECODE": ""}
        output: list[str] = []
        argv = [str(self.paths.python), *NOT_FROM_HERE, "-c", code]
        if follow_process(argv, env, self.temporary, output.append) != 0:
            lines = [line.strip() for line in output if line.strip()] or ["no error output"]
            raise InfraError(f"{self.title} was installed but its check failed: {lines[-1]}")

    def _mark(self, pins: list[str], inherited: Mapping[str, str]) -> store.Marker:
        packages = {**inherited, **store.installed_packages(self.paths.site)}
        files = store.accepted_files(self.environment)
        marker = store.Marker(
            name=self.environment.name,
            lock=self.paths.lock,
            python=self.request.interpreter.version,
            packages=packages,
            digest=store.packages_digest(packages, files),
            builds=tuple(pins),
        )
        store.finish(self.paths, marker)
        self.request.report(f"ready, {len(packages)} packages")
        return marker


def _megabytes(size: float) -> str:
    return size_text(size / 1e6)


@contextmanager
def _writing(paths: store.EnvironmentPaths) -> Iterator[None]:
    """Convert an OSError while writing to the install into an error with advice."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            advice = "set LLMB_INSTALL to a folder you can write to"
            reason = f"cannot write to {paths.venvs}: {error.strerror}"
            raise UsageError(f"{reason}; {advice}") from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            reason = f"the disk of {paths.venvs} is full: free some space and retry"
            raise InfraError(reason) from error
        raise InfraError(f"environment {paths.label}: {error}") from error
