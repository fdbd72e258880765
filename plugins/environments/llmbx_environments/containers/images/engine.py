"""Import image files atomically: import once, verify, lock the digest, rename; later runs use the cached result."""

from __future__ import annotations

import dataclasses
import os
import platform
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from llmbx.api import (
    Image,
    ImageRequest,
    InfraError,
    Progress,
    UsageError,
    disk_errors,
    format_bytes,
    settings_of,
)

from ..naming import is_file, parse_reference
from ..runtimes.container import BUILT, require_importable
from ..settings import ContainerSettings
from .lockfile import STORE, check_locked, read_lock, remember
from .stamps import Stamp, current_stamp, with_identity, write_stamp
from .tool import Command, FileTool, run_import

if TYPE_CHECKING:
    from .registry import RemoteImage


@dataclasses.dataclass(frozen=True)
class FileRequest:
    """One image file that a runtime needs, and how to create it. `source`: the Docker archive to convert, if any."""

    image: Image
    request: ImageRequest
    install: Path
    tool: FileTool
    progress: Progress
    offline: bool = False
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
        reference = self.image.reference
        return (
            str(self.source or self.path)
            if is_file(reference)
            else parse_reference(reference).docker
        )


def ensure_file(wanted: FileRequest) -> Image:
    """Return the image with a verified file; the file is verified, converted or imported if it has no valid stamp.

    Raises `InfraError` for failures of the registry, disk or tool and for a changed digest, `UsageError` if the image
    or file does not exist.
    """
    stamp = current_stamp(wanted.path, wanted.install)
    if stamp is not None and wanted.source is not None and stamp.digest != _archive_digest(wanted):
        stamp = None
    if stamp is None:
        stamp = _create(wanted)
    _check_digest(wanted, stamp.digest, stamp.sha256)
    seen = {wanted.path.name: stamp.sha256, STORE: stamp.config}
    remember(
        wanted.install,
        wanted.key,
        stamp.digest,
        {name: digest for name, digest in seen.items() if digest},
    )
    found: Image = wanted.image.replace(digest=stamp.proof, versions=stamp.versions)
    return found


def inspect_file(image: Image, tool: FileTool, install: Path) -> Image:
    """Return the image with the versions of its Python and packages, read by starting it once for each file.

    The image is returned unchanged if no container can be started here. Raises `UsageError` if it has no python3.
    """
    from .tool import python_versions

    path = Path(image.path or "")
    stamp = current_stamp(path, install)
    if stamp is None or "python" in stamp.versions:
        return image
    versions = python_versions(tool.starting(path), image.reference)
    if versions is None:
        return image
    write_stamp(stamp.replace(versions=versions), install)
    known: Image = image.replace(versions=versions)
    return known


def verify_existing(wanted: FileRequest) -> Stamp:
    """Verify and stamp an existing file, whether or not llmbx created it."""
    from .verify import require_intact, sha256_file

    require_intact(wanted.path)
    wanted.progress(f"{wanted.title}: checking {wanted.path}")
    stamp = with_identity(_new_stamp(wanted), wanted.path).replace(
        sha256=sha256_file(wanted.path, wanted.progress)
    )
    _check_digest(wanted, None, stamp.sha256)
    known = read_lock(wanted.install).images.get(wanted.key)
    if known and known.files.get(wanted.path.name) == stamp.sha256:
        stamp = stamp.replace(digest=known.digest)
    write_stamp(stamp, wanted.install)
    verified: Stamp = stamp
    return verified


def _create(wanted: FileRequest) -> Stamp:
    """Verify, convert or import a file without a valid stamp, and return its new stamp."""
    if is_file(wanted.image.reference) and wanted.source is None:
        if not wanted.path.is_file():
            raise UsageError(f"image file {wanted.path} does not exist")
        return verify_existing(wanted)
    with disk_errors(str(wanted.path)), _locked(wanted):
        stamp = current_stamp(wanted.path, wanted.install)
        if wanted.source is not None:
            digest = _archive_digest(wanted)
            return stamp if stamp and stamp.digest == digest else _write_file(wanted, digest)
        if stamp is not None:
            return stamp
        if wanted.path.is_file():
            from .verify import problem

            if (bad := problem(wanted.path)) is None:
                return verify_existing(wanted)
            wanted.progress(f"{wanted.path} is corrupt ({bad}): importing it again")
        if wanted.offline and not wanted.key.startswith(BUILT):
            raise InfraError(
                f"{wanted.path} does not exist and --offline disables the import: run `llmbx image prepare` on a "
                f"machine with network access, or import a bundle with `llmbx image import BUNDLE`"
            )
        return _import(wanted)


def _import(wanted: FileRequest) -> Stamp:
    """Look up the digest in the registry, check it and the disk space, and import exactly that digest."""
    from .disk import needed_bytes, require_space
    from .registry import look_up_pinned
    from .transient import retry

    require_importable(wanted.key, wanted.tool.name)
    settings = settings_of(wanted.request, ContainerSettings)
    deadline = time.monotonic() + settings.image_timeout_s
    reference = parse_reference(wanted.image.reference)
    pinned = None if wanted.request.accept_change else wanted.request.digest
    remote = retry(
        lambda: look_up_pinned(reference, pinned, settings),
        wanted.title,
        settings,
        deadline,
        wanted.progress,
    )
    _check_digest(wanted, remote.digest, None)
    if remote.layer_bytes is not None:
        require_space(
            wanted.path.parent, needed_bytes(remote.layer_bytes, packed_again=True), wanted.title
        )
    return _write_file(wanted, remote.digest, remote)


def _write_file(wanted: FileRequest, digest: str, remote: RemoteImage | None = None) -> Stamp:
    """Have the tool write the file under a temporary name, then verify, stamp and rename it."""

    from .transient import retry
    from .verify import require_intact, sha256_of_new

    settings = settings_of(wanted.request, ContainerSettings)
    deadline = time.monotonic() + settings.image_timeout_s
    much = (
        f" ({format_bytes(remote.layer_bytes)} to download)"
        if remote and remote.layer_bytes
        else ""
    )
    wanted.progress(
        f"{wanted.title}: importing {wanted.source or wanted.key}{much} with {wanted.tool.name}"
    )
    with _scratch(wanted.path) as scratch:
        output = scratch / f"image{wanted.tool.suffix}"

        def attempt() -> None:
            for rest in scratch.iterdir():
                shutil.rmtree(rest) if rest.is_dir() else rest.unlink()
            run_import(
                _command(wanted, digest, output, scratch),
                scratch,
                wanted.title,
                deadline,
                wanted.progress,
            )

        retry(attempt, wanted.title, settings, deadline, wanted.progress)
        require_intact(output)
        sha256 = sha256_of_new(output, wanted.progress)
        stamp = with_identity(_new_stamp(wanted, digest), output)
        stamp = stamp.replace(sha256=sha256, config=remote.config if remote else None)
        # Write the stamp before the rename: if killed in between, the stamp is ignored because no file matches it,
        # while a file without a stamp would lose its digest.
        write_stamp(stamp, wanted.install)
        output.replace(wanted.path)
    wanted.progress(f"{wanted.title}: ready, {format_bytes(stamp.size)}, {stamp.proof}")
    written: Stamp = stamp
    return written


def _command(wanted: FileRequest, digest: str | None, output: Path, scratch: Path) -> Command:
    if wanted.source is not None:
        assert wanted.tool.converting is not None
        return wanted.tool.converting(wanted.source, output, scratch)
    reference = parse_reference(wanted.image.reference).replace(digest=digest)
    plain = settings_of(wanted.request, ContainerSettings).plain_http(reference.registry)
    return wanted.tool.importing(reference, output, scratch, plain)


def _check_digest(wanted: FileRequest, digest: str | None, sha256: str | None) -> None:
    """Raise `InfraError` if the digest differs from the pinned one, or digest or file differ from `images.lock`."""
    accept, pinned = wanted.request.accept_change, wanted.request.digest
    if pinned and digest and digest != pinned and not accept:
        raise InfraError(
            f"{wanted.title}: the recipe is pinned to {pinned}, but {wanted.key} is {digest}; to use it anyway, pass "
            f"--accept-image-change"
        )
    check_locked(wanted.install, wanted.key, "digest", digest, accept)
    if digest is None or sha256 is None:
        check_locked(wanted.install, wanted.key, "file", sha256, accept, key=wanted.path.name)


def _archive_digest(wanted: FileRequest) -> str:
    """sha256 of the Docker archive, from its stamp if the file is unchanged."""
    from .verify import require_intact, sha256_file

    archive = wanted.source
    assert archive is not None
    if not archive.is_file():
        raise UsageError(f"image file {archive} does not exist")
    if (stamp := current_stamp(archive, wanted.install)) and stamp.sha256:
        return stamp.sha256
    require_intact(archive)
    digest = sha256_file(archive, wanted.progress)
    stamp = Stamp(path=str(archive), reference=str(archive), sha256=digest)
    write_stamp(with_identity(stamp, archive), wanted.install)
    return digest


def _new_stamp(wanted: FileRequest, digest: str | None = None) -> Stamp:
    now = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    return Stamp(
        path=str(wanted.path), reference=wanted.key, digest=digest, imported=now if digest else "",
        tool=wanted.tool.name if digest else "",
    )  # fmt: skip


@contextmanager
def _locked(wanted: FileRequest) -> Iterator[None]:
    from ...locks import held

    wanted.path.parent.mkdir(parents=True, exist_ok=True)
    lease = wanted.path.with_name(f".{wanted.path.name}.lease")
    with held(lease, f"it imports {wanted.path.name}", wanted.progress):
        yield


@contextmanager
def _scratch(target: Path) -> Iterator[Path]:
    """A temporary folder beside `target` for one import. Folders of killed imports are deleted as well."""
    from llmbx.api import end_leftovers

    for leftover in target.parent.glob(f".{target.name}.partial-*"):
        end_leftovers(leftover)
        shutil.rmtree(leftover, ignore_errors=True)
    folder = target.with_name(f".{target.name}.partial-{platform.node()}-{os.getpid()}")
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
