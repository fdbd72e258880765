"""Image files: each is imported once, verified, locked by its digest and renamed; runs reuse it."""

from __future__ import annotations

import dataclasses
import shutil
import time
from pathlib import Path

from llmbx.api import Image, InfraError, UsageError, disk_errors, format_bytes

from ...leftovers import partial_folder
from ...locks import held
from ..built import BUILT, require_importable
from ..naming import is_file
from .inside import python_versions
from .needed import NeededImage, download
from .registry import RemoteImage
from .store import DOCKER, ImageStore, Stamp
from .tool import Command, FileTool, run_import
from .verify import problem, require_intact, sha256_file, sha256_of_new


@dataclasses.dataclass(frozen=True, kw_only=True)
class NeededFile(NeededImage):
    """An image file that a runtime needs. `source`: the Docker archive to convert, if any."""

    tool: FileTool
    source: Path | None = None

    @property
    def path(self) -> Path:
        """Final path of the file."""
        return Path(self.image.path or "")

    @property
    def title(self) -> str:
        """Name of the image in progress and error messages."""
        return f"image {self.path.name}"

    @property
    def key(self) -> str:
        """Key of the image in `images.lock`."""
        if is_file(self.image.reference):
            return str(self.source or self.path)
        return self.reference.docker

    @property
    def subject(self) -> str:
        """What a message about its digest calls it."""
        return self.key

    def stamp(self) -> Stamp | None:
        """The stamp of the file, if the file and its source are unchanged."""
        stamp = self.store.current_stamp(self.path)
        if stamp and self.source and stamp.digest != self.source_digest():
            return None
        return stamp

    def source_digest(self) -> str:
        """sha256 of the Docker archive. Raises `UsageError` if it does not exist."""
        source = self.source
        assert source is not None
        _require_file(source)
        stamp = self.store.current_stamp(source)
        if stamp and stamp.sha256:
            return stamp.sha256
        require_intact(source)
        sha256 = sha256_file(source, self.progress)
        stamp = Stamp(path=str(source), reference=str(source), sha256=sha256)
        self.store.write_stamp(stamp.of(source))
        return sha256

    def check(self, digest: str | None, sha256: str | None) -> None:
        """Raise `InfraError` if the digest or the file changed, unless that is accepted."""
        self.check_digest(digest)
        if digest is None or sha256 is None:
            accept = self.request.accept_change
            self.store.check_file(self.key, self.path.name, sha256, accept)


def ensure_file(need: NeededFile) -> Image:
    """Return the image with a verified file; verify, convert or import it if it has no valid stamp.

    Raises `InfraError` for failures of the registry, disk or tool and for a changed digest,
    `UsageError` if the image or file does not exist.
    """
    stamp = need.stamp() or _create(need)
    need.check(stamp.digest, stamp.sha256)
    files = {need.path.name: stamp.sha256, DOCKER: stamp.config}
    digests = {name: digest for name, digest in files.items() if digest}
    need.store.remember(need.key, stamp.digest, digests)
    return need.image.replace(digest=stamp.proof, versions=stamp.versions)


def inspect_file(image: Image, tool: FileTool, install: Path) -> Image:
    """Return the image with the versions inside, read by starting it once for each file.

    The image is returned unchanged if no container can be started here. Raises `UsageError` if it
    has no python3.
    """
    path, store = Path(image.path or ""), ImageStore(install)
    stamp = store.current_stamp(path)
    if stamp is None or "python" in stamp.versions:
        return image
    versions = python_versions(tool.start_command(path), image.reference)
    if versions is None:
        return image
    store.write_stamp(stamp.replace(versions=versions))
    return image.replace(versions=versions)


def _create(need: NeededFile) -> Stamp:
    """Verify, convert or import a file without a valid stamp, and return its new stamp."""
    if is_file(need.image.reference) and need.source is None:
        _require_file(need.path)
        return _verify_existing(need)
    lease = need.path.with_name(f".{need.path.name}.lease")
    doing = f"it imports {need.path.name}"
    with disk_errors(str(need.path)), held(lease, doing, need.progress):
        return need.stamp() or _create_locked(need)


def _create_locked(need: NeededFile) -> Stamp:
    if need.source:
        return _write_file(need, need.source_digest())
    if need.path.is_file():
        reason = problem(need.path)
        if reason is None:
            return _verify_existing(need)
        need.progress(f"{need.path} is corrupt ({reason}): importing it again")
    if need.offline and not need.key.startswith(BUILT):
        raise InfraError(
            f"{need.path} does not exist and --offline disables the import: run `llmbx image "
            f"prepare` on a machine with network access, or import a bundle with `llmbx image "
            f"import BUNDLE`"
        )
    require_importable(need.key, need.tool.name)
    remote = need.look_up(need.attempts())
    need.require_space(need.path.parent, remote, packed_again=True)
    return _write_file(need, remote.digest, remote)


def _verify_existing(need: NeededFile) -> Stamp:
    """Verify and stamp an existing file, whether or not llmbx created it."""
    require_intact(need.path)
    need.progress(f"{need.title}: checking {need.path}")
    stamp = Stamp(path=str(need.path), reference=need.key).of(need.path)
    sha256 = sha256_file(need.path, need.progress)
    need.check(None, sha256)
    entry = need.store.locked(need.key)
    digest = entry.digest if entry.files.get(need.path.name) == sha256 else None
    stamp = stamp.replace(sha256=sha256, digest=digest)
    need.store.write_stamp(stamp)
    return stamp


def _write_file(need: NeededFile, digest: str, remote: RemoteImage | None = None) -> Stamp:
    """Have the tool write the file under a temporary name, then verify, stamp and rename it."""
    source = need.source or need.key
    need.progress(f"{need.title}: importing {source}{download(remote)} with {need.tool.name}")
    attempts = need.attempts()
    with partial_folder(need.path) as scratch:
        output = scratch / f"image{need.tool.suffix}"
        command = _command(need, digest, output, scratch)

        def attempt() -> None:
            _empty(scratch)
            run_import(command, scratch, need.title, attempts.deadline, need.progress)

        attempts.retry(attempt)
        require_intact(output)
        stamp = Stamp(
            path=str(need.path),
            reference=need.key,
            sha256=sha256_of_new(output, need.progress),
            digest=digest,
            config=remote.config if remote else None,
            imported=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            tool=need.tool.name,
        ).of(output)
        # The stamp comes before the rename: if llmbx is killed in between, no file matches the
        # stamp, while a file without a stamp would lose its digest.
        need.store.write_stamp(stamp)
        output.replace(need.path)
    need.progress(f"{need.title}: ready, {format_bytes(stamp.size)}, {stamp.proof}")
    return stamp


def _command(need: NeededFile, digest: str, output: Path, scratch: Path) -> Command:
    """The command that converts the archive, or imports exactly `digest`."""
    if need.source:
        return need.tool.convert_command(need.source, output, scratch)
    reference = need.reference.replace(digest=digest)
    plain_http = need.settings.plain_http(reference.registry)
    return need.tool.import_command(reference, output, scratch, plain_http)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _require_file(path: Path) -> None:
    if not path.is_file():
        raise UsageError(f"image file {path} does not exist")
