"""Import bundles, which come from elsewhere: everything is checked before anything is in place.

The headers of the whole file are compared with the manifest first. The files are then written to a temporary folder and
verified, and only after the last one moved to their final names; an import that fails leaves nothing behind.
"""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import re
import shutil
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO

from llmbx.api import (
    NOT_JSON,
    InfraError,
    Progress,
    UsageError,
    decode,
    disk_errors,
    format_bytes,
)

from ...archives import TarMember, package_problem, path_problem, tar_members
from .bundle import DOCKER, MANIFEST, PACKAGES, TOKENIZERS, WHEELS, Manifest, Member
from .disk import require_space
from .inventory import SUFFIXES
from .lockfile import check_locked, remember
from .stamps import Stamp, delete_stamp, read_stamp, with_identity, write_stamp

LARGEST_MANIFEST = 1 << 26
"""Largest manifest in bytes: that of `archives.MOST_MEMBERS` files has about half."""

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_GZIP = b"\x1f\x8b"
_CHUNK = 1 << 22


def import_bundle(bundle: Path, install: Path, accept: bool, progress: Progress) -> Manifest:
    """Import all files of a bundle into the install.

    Raises `UsageError` if the file is no bundle or has something that llmbx does not export, `InfraError` if it is
    damaged or a digest changed. Nothing is changed then, except for images that Docker has loaded already.
    """
    with disk_errors(str(install)), bundle.open("rb") as file:
        manifest, members = _checked(file, bundle)
        require_space(install, sum(member.size for member in members), f"bundle {bundle.name}")
        for key, entry in manifest.locked.items():
            check_locked(install, key, "digest", entry.digest, accept)
            for name, sha256 in entry.files.items() if entry.digest is None else ():
                check_locked(install, key, "file", sha256, accept, key=name)
        with _scratch(install) as scratch:
            written = list(_write_members(file, bundle, manifest, members, scratch, progress))
            for member, path in written:
                if member.path.startswith(f"{DOCKER}/"):
                    _load_into_docker(path)
            _move(
                [(m, path) for m, path in written if not m.path.startswith(f"{DOCKER}/")], install
            )
    for key, entry in manifest.locked.items():
        remember(install, key, entry.digest, entry.files)
    return manifest


def _checked(file: IO[bytes], bundle: Path) -> tuple[Manifest, list[TarMember]]:
    """The manifest and the files' places in the bundle, after their headers were compared; no content is read."""
    if file.read(2) == _GZIP:
        raise UsageError(
            f"{bundle} is compressed: a bundle of `llmbx image export` is a plain tar file"
        )
    file.seek(0)
    try:
        found = list(tar_members(file))
    except UsageError as error:
        raise UsageError(f"{bundle} was refused: {error}") from None
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise InfraError(f"{bundle} is not a complete bundle: {error}") from None
    if not found:
        raise InfraError(f"{bundle} is not a complete bundle: it is empty")
    manifest = _read_manifest(file, bundle, found[0])
    _compare(bundle, manifest, found[1:])
    return manifest, found[1:]


def _read_manifest(file: IO[bytes], bundle: Path, first: TarMember) -> Manifest:
    """The manifest, which is the first member. Raises `UsageError` for a path or value that no export writes."""
    if first.path != MANIFEST:
        raise UsageError(f"{bundle} is not a bundle of `llmbx image export`")
    if first.size > LARGEST_MANIFEST:
        raise UsageError(
            f"{bundle} was refused: its manifest has {first.size:,} bytes (limit: {LARGEST_MANIFEST:,})"
        )
    file.seek(first.offset)
    try:
        manifest = decode(file.read(first.size), Manifest)
    except NOT_JSON:
        raise UsageError(f"{bundle} is not a bundle of `llmbx image export`") from None
    for member in manifest.members:
        if not _is_expected(member.path):
            raise UsageError(
                f"{bundle} contains {member.path!r}, which is not an allowed path in an install"
            )
        stamped = member.stamp.sha256 if member.stamp else None
        if not _DIGEST.fullmatch(member.sha256) or stamped not in (None, member.sha256):
            raise UsageError(
                f"{bundle} was refused: the manifest has no valid sha256 of {member.path}"
            )
    return manifest


def _compare(bundle: Path, manifest: Manifest, found: Sequence[TarMember]) -> None:
    """Raise an error unless the bundle has exactly the files of the manifest, in its order and with its sizes."""
    for index, member in enumerate(manifest.members):
        if index >= len(found) or found[index].path != member.path:
            raise InfraError(f"{bundle} is incomplete: {member.path} is missing")
        if found[index].size != member.size:
            real = f"has {found[index].size:,} bytes, and the manifest declares {member.size:,}"
            raise UsageError(f"{bundle} was refused: {member.path} {real}")
    if len(found) > len(manifest.members):
        extra = found[len(manifest.members)].path
        raise UsageError(f"{bundle} was refused: {extra!r} is not in its manifest")


def _is_expected(path: str) -> bool:
    """Whether an export may write this path: images, Docker archives, packages, and files of the Hugging Face cache."""
    if path_problem(path) or str(PurePosixPath(path)) != path:
        return False
    folder, _, name = path.partition("/")
    if folder in ("images", DOCKER):
        suffixes: Sequence[str] = SUFFIXES if folder == "images" else (".tar",)
        return (
            "/" not in name and not name.startswith(".") and PurePosixPath(name).suffix in suffixes
        )
    hidden = any(part.startswith(".") for part in name.split("/"))
    return folder == ".cache" or (folder == WHEELS and not hidden and name.endswith(PACKAGES))


def _is_imported(path: str) -> bool:
    """Whether a file is imported. Bundles of earlier versions contain the whole Hugging Face folder, with tokens."""
    return not path.startswith(".cache/") or PurePosixPath(path).is_relative_to(TOKENIZERS)


def _write_members(
    file: IO[bytes], bundle: Path, manifest: Manifest, found: Sequence[TarMember], scratch: Path,
    progress: Progress,
) -> Iterator[tuple[Member, Path]]:  # fmt: skip
    """Write each file to `scratch`, verify its checksum and what it is; yields it with its temporary path."""
    for number, (member, place) in enumerate(zip(manifest.members, found, strict=True)):
        if not _is_imported(member.path):
            progress(
                f"{bundle.name}: skipping {member.path}: only hub/ is imported from .cache/huggingface"
            )
            continue
        progress(f"{bundle.name}: importing {member.path} ({format_bytes(member.size)})")
        temporary = scratch / f"{number}-{PurePosixPath(member.path).name[-100:]}"
        _copy(file, place, temporary, member, bundle)
        if problem := _problem(member.path, temporary):
            raise UsageError(f"{bundle} was refused: {member.path}: {problem}")
        yield member, temporary


def _copy(file: IO[bytes], place: TarMember, target: Path, member: Member, bundle: Path) -> None:
    """Write one file and verify its checksum. Raises `InfraError` if it differs from the manifest's."""
    hashed, left = hashlib.sha256(), place.size
    file.seek(place.offset)
    with target.open("wb") as output:
        while left and (chunk := file.read(min(_CHUNK, left))):
            left -= len(chunk)
            hashed.update(chunk)
            output.write(chunk)
    got = f"sha256:{hashed.hexdigest()}"
    if got != member.sha256:
        raise InfraError(f"{bundle} is damaged: {member.path}: expected {member.sha256}, got {got}")


def _problem(path: str, content: Path) -> str | None:
    """Why a file must not be used, by its kind; None if nothing speaks against it."""
    from .verify import problem

    if path.startswith(f"{WHEELS}/"):
        return package_problem(content)
    if path.startswith("images/"):
        return problem(content)
    if not path.startswith(f"{DOCKER}/"):
        return None
    try:
        with content.open("rb") as file:
            names = {member.path for member in tar_members(file, folders=True, links=True)}
    except (UsageError, tarfile.TarError, ValueError) as error:
        return str(error)
    return None if "manifest.json" in names else "it is not an archive of `docker save`"


def _move(written: Sequence[tuple[Member, Path]], install: Path) -> None:
    """Move the files to their final names. If one cannot be moved, all are put back as they were."""
    undo: list[tuple[Path, Path | None, Stamp | None]] = []
    made: list[Path] = []
    try:
        for member, temporary in written:
            target = install / member.path
            made += _make_folders(target.parent)
            stamp = read_stamp(str(target), install) if member.stamp else None
            undo.append((target, _kept(target) if os.path.lexists(target) else None, stamp))
            # The stamp comes before the file: if llmbx is killed in between, no file matches the stamp.
            if member.stamp is not None:
                write_stamp(
                    with_identity(member.stamp.replace(path=str(target)), temporary), install
                )
            _place(temporary, target)
    except BaseException:
        for target, before, stamp in reversed(undo):
            with suppress(OSError):
                before.replace(target) if before else target.unlink(missing_ok=True)
            delete_stamp(str(target), install)
            if stamp is not None:
                write_stamp(stamp, install)
        _remove_empty(made)
        raise
    for _, before, _ in undo:
        if before is not None:
            before.unlink(missing_ok=True)


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name[-100:]}.partial-{platform.node()}-{os.getpid()}")


def _kept(target: Path) -> Path:
    """A second name of an existing file, by which it can be put back."""
    before = _beside(target).with_suffix(".before")
    before.unlink(missing_ok=True)
    try:
        os.link(target, before, follow_symlinks=False)
    except OSError:
        target.rename(before)
    return before


def _place(temporary: Path, target: Path) -> None:
    """Rename a file; if `target` is on another file system, copy it first."""
    try:
        temporary.replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        copy = _beside(target)
        try:
            shutil.copyfile(temporary, copy)
            copy.replace(target)
        finally:
            copy.unlink(missing_ok=True)


@contextmanager
def _scratch(install: Path) -> Iterator[Path]:
    """A temporary folder in the install. `llmbx image prune` deletes those of killed imports."""
    made = _make_folders(install / "images")
    folder = install / "images" / f".import.partial-{platform.node()}-{os.getpid()}"
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _remove_empty(made)


def _make_folders(folder: Path) -> list[Path]:
    """Create `folder` and its parents; returns those that did not exist, the outermost first."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing[::-1]


def _remove_empty(folders: Sequence[Path]) -> None:
    for folder in reversed(folders):
        with suppress(OSError):
            folder.rmdir()


def _load_into_docker(archive: Path) -> None:
    from ..runtimes.docker_store import load

    load(archive)
