"""List, verify and delete the images of an install."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from llmbx.api import InfraError, LlmbxError, Progress, UsageError, Value, did_you_mean

from ..naming import is_file, parse_reference
from ..runtimes.container import BUILT
from ..settings import ContainerSettings
from .lockfile import read_lock
from .stamps import (
    Stamp,
    all_stamps,
    current_stamp,
    delete_stamp,
    read_stamp,
    with_identity,
    write_stamp,
)

SUFFIXES = (".sqsh", ".sif")


class Entry(Value, frozen=True):
    """One image as `llmbx image list` shows it.

    `size` is in bytes. `state` is "ok", "not verified", "changed" or a description of the problem.
    """

    name: str
    reference: str | None
    kind: str
    size: int | None
    digest: str | None
    imported: str | None
    state: str
    path: str | None = None

    @property
    def label(self) -> str:
        """Its name in tables: the id of a Docker image is shortened to twelve digits."""
        return (
            self.name
            if self.path is not None
            else self.name.replace("sha256:", "")[: len("docker/") + 12]
        )

    @property
    def good(self) -> bool:
        """Whether a run can use it."""
        return self.state in ("ok", "not verified")


def entries(install: Path) -> list[Entry]:
    """Every image of the install: files in `images`, and the Docker images that runs used. Nothing is hashed."""
    found = [_of_file(path, install) for path in _files(install)]
    known = {entry.path for entry in found}
    for stamp in all_stamps(install):
        if stamp.path not in known and (stamp.inode == 0 or Path(stamp.path).is_file()):
            found.append(_of_stamp(stamp, install))
    return found


def with_origin(entry: Entry) -> Entry:
    """The entry of a SIF file that llmbx did not create, with the image that the file says it was made from."""
    if entry.reference or entry.path is None or entry.kind != "sif":
        return entry
    from ..runtimes.apptainer import ApptainerRuntime
    from ..runtimes.apptainer_client import FROM, labels

    named: Entry = entry.replace(
        reference=labels(ApptainerRuntime().tool, Path(entry.path)).get(FROM)
    )
    return named


def select(install: Path, names: Sequence[str]) -> list[Entry]:
    """The images with these file names or references; all if `names` is empty.

    Raises `UsageError` if the install has no images or a name matches none.
    """
    have = entries(install)
    if not have:
        raise UsageError(
            f"no images in {install / 'images'}: import one with `llmbx image prepare`"
        )
    chosen = []
    for name in names:
        matching = [entry for entry in have if name in _names(entry)]
        if not matching:
            raise UsageError(
                f"no image named '{name}'{did_you_mean(name, [entry.name for entry in have])}"
            )
        chosen += [entry for entry in matching if entry not in chosen]
    return chosen if names else have


def older_than(found: Sequence[Entry], days: float) -> list[Entry]:
    """The images whose file was modified more than `days` days ago. Docker images have no file and never match."""
    oldest = time.time() - days * 86400
    dated = [
        (entry, Path(entry.path))
        for entry in found
        if entry.path is not None and entry.kind != "tar"
    ]
    return [entry for entry, path in dated if path.is_file() and path.stat().st_mtime < oldest]


def verified(
    entry: Entry, install: Path, progress: Progress, registries: ContainerSettings | None
) -> Entry:
    """Verify an image (completeness, sha256, and the tag's digest); returns it with its new state.

    With None instead of the settings of `registries`, no registry is queried.
    """
    state = _store_state(entry) if entry.path is None else _file_state(entry, install, progress)
    if state == "ok" and registries and entry.reference and not is_file(entry.reference):
        state = _registry_state(entry, install, registries)
    checked: Entry = entry.replace(state=state)
    return checked


def remove(entry: Entry, install: Path) -> int:
    """Delete an image file of the install and its stamp, and return the bytes freed. `images.lock` keeps its digest.

    Raises `UsageError` for Docker images and for files outside of the install's `images` folder.
    """
    if entry.path is None:
        raise UsageError(
            f"{entry.name} is stored in Docker: remove it with `docker image rm {entry.reference}`"
        )
    path = Path(entry.path)
    if path.parent != install / "images":
        raise UsageError(
            f"{path} is not in {install / 'images'}: llmbx deletes only images in that folder"
        )
    delete_stamp(entry.path, install)
    path.unlink(missing_ok=True)
    return entry.size or 0


def leftovers(install: Path) -> list[Path]:
    """Temporary folders of killed imports; those of running imports are not included."""
    return [path for path in (install / "images").glob(".*.partial-*") if not _in_use(path)]


def delete_leftovers(install: Path) -> int:
    """Delete leftovers and the stamps of missing files, and return the bytes freed."""
    from llmbx.api import end_leftovers

    freed = 0
    for folder in leftovers(install):
        end_leftovers(folder)
        freed += sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())
        shutil.rmtree(folder, ignore_errors=True)
    for stamp in all_stamps(install):
        if stamp.inode and not Path(stamp.path).exists():
            delete_stamp(stamp.path, install)
    return freed


def _files(install: Path) -> Iterator[Path]:
    folder = install / "images"
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.suffix in SUFFIXES and not path.name.startswith(".") and path.is_file():
            yield path


def _of_file(path: Path, install: Path) -> Entry:
    from .verify import problem

    stamp, current = read_stamp(str(path), install), current_stamp(path, install)
    bad = problem(path)
    state = (
        f"corrupt: {bad}" if bad else "ok" if current else "changed" if stamp else "not verified"
    )
    return Entry(
        name=path.name, reference=stamp.reference if stamp else None, kind=path.suffix[1:], size=path.stat().st_size,
        digest=current.proof if current else None, imported=_date(stamp), state=state, path=str(path),
    )  # fmt: skip


def _of_stamp(stamp: Stamp, install: Path) -> Entry:
    if stamp.inode:
        return _of_file(Path(stamp.path), install).replace(kind=Path(stamp.path).suffix[1:])
    locked = read_lock(install).images.get(stamp.reference)
    return Entry(
        name=stamp.path, reference=stamp.reference, kind=stamp.tool, size=None,
        digest=locked.digest if locked else None, imported=None, state="ok",
    )  # fmt: skip


def _date(stamp: Stamp | None) -> str | None:
    return stamp.imported[:10] or None if stamp else None


def _names(entry: Entry) -> set[str]:
    names = {entry.name, entry.label, entry.reference or "", entry.path or ""}
    with suppress(UsageError):
        names.add(parse_reference(entry.reference or "").enroot)
    return names - {""}


def _file_state(entry: Entry, install: Path, progress: Progress) -> str:
    from .verify import problem, sha256_file

    path = Path(entry.path or "")
    if bad := problem(path):
        return f"corrupt: {bad}"
    stamp, sha256 = read_stamp(entry.path or "", install), sha256_file(path, progress)
    if stamp is None or stamp.sha256 is None:
        return "ok"
    if stamp.sha256 != sha256:
        return f"changed: expected {stamp.sha256}, got {sha256}"
    write_stamp(with_identity(stamp, path), install)
    return "ok"


def _store_state(entry: Entry) -> str:
    from ..runtimes.docker_store import stored

    try:
        return "ok" if stored(entry.name.partition("/")[2]) else "missing: removed from Docker"
    except InfraError as error:
        return f"unknown: {error}"


def _registry_state(entry: Entry, install: Path, settings: ContainerSettings) -> str:
    from .registry import look_up

    locked = read_lock(install).images.get(entry.reference or "")
    if locked is None or locked.digest is None or (entry.reference or "").startswith(BUILT):
        return "ok"
    try:
        now = look_up(parse_reference(entry.reference or ""), settings).digest
    except LlmbxError as error:
        return f"ok, but the registry could not be checked: {error}"
    return (
        "ok"
        if now == locked.digest
        else f"re-pushed: local digest {locked.digest}, registry digest {now}"
    )


def _in_use(partial: Path) -> bool:
    """Whether the process that created this folder (named by host and process id) may still be using it."""
    import platform

    host, _, pid = partial.name.partition(".partial-")[2].rpartition("-")
    if host != platform.node():
        return time.time() - partial.stat().st_mtime < 24 * 3600
    return pid.isdigit() and Path(f"/proc/{pid}").exists() and int(pid) != os.getpid()
