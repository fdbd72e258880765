"""The images of an install: list, verify and delete them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from llmbx.api import InfraError, LlmbxError, Progress, UsageError, Value, did_you_mean

from ... import leftovers
from ..built import BUILT
from ..naming import is_file, parse_reference
from ..settings import ContainerSettings
from .store import ImageStore, Stamp
from .verify import problem, sha256_file

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
        if self.path is not None:
            return self.name
        return self.name.replace("sha256:", "")[: len("docker/") + 12]

    @property
    def good(self) -> bool:
        """Whether a run can use it."""
        return self.state in ("ok", "not verified")

    @property
    def names(self) -> set[str]:
        """Everything by which a user may call it."""
        names = {self.name, self.label, self.reference or "", self.path or ""}
        with suppress(UsageError):
            names.add(parse_reference(self.reference or "").enroot)
        return names - {""}


def entries(install: Path) -> list[Entry]:
    """Every image of the install: files, and the Docker images of runs. Nothing is hashed."""
    images = [_of_file(path, install) for path in _files(install)]
    listed = {entry.path for entry in images}
    for stamp in ImageStore(install).stamps():
        if stamp.path in listed:
            continue
        if stamp.inode == 0:
            images.append(_of_docker_image(stamp, install))
        elif Path(stamp.path).is_file():
            images.append(_of_file(Path(stamp.path), install))
    return images


def with_origin(entry: Entry) -> Entry:
    """The entry of a SIF file that llmbx did not create, with the image that it was made from."""
    if entry.reference or entry.path is None or entry.kind != "sif":
        return entry
    from ..runtimes.apptainer_tool import FROM, Apptainer

    return entry.replace(reference=Apptainer().labels(Path(entry.path)).get(FROM))


def select(install: Path, names: Sequence[str]) -> list[Entry]:
    """The images with these file names or references; all if `names` is empty.

    Raises `UsageError` if the install has no images or a name matches none.
    """
    images = entries(install)
    if not images:
        folder = install / "images"
        raise UsageError(f"no images in {folder}: import one with `llmbx image prepare`")
    if not names:
        return images
    chosen: list[Entry] = []
    for name in names:
        matching = [entry for entry in images if name in entry.names]
        if not matching:
            hint = did_you_mean(name, [entry.name for entry in images])
            raise UsageError(f"no image named '{name}'{hint}")
        chosen += [entry for entry in matching if entry not in chosen]
    return chosen


def older_than(images: Sequence[Entry], days: float) -> list[Entry]:
    """The images whose file was modified more than `days` days ago; Docker images have none."""
    oldest = time.time() - days * 86400
    dated = [(entry, Path(entry.path)) for entry in images if entry.path and entry.kind != "tar"]
    return [entry for entry, path in dated if path.is_file() and path.stat().st_mtime < oldest]


def verified(
    entry: Entry, install: Path, progress: Progress, registries: ContainerSettings | None
) -> Entry:
    """Verify an image and return it with its new state: completeness, sha256, the tag's digest.

    Without the settings of `registries`, no registry is queried.
    """
    path = Path(entry.path) if entry.path is not None else None
    state = _file_state(path, install, progress) if path else _docker_state(entry)
    if state == "ok" and registries and entry.reference and not is_file(entry.reference):
        state = _registry_state(entry.reference, install, registries)
    return entry.replace(state=state)


def remove(entry: Entry, install: Path) -> int:
    """Delete an image file and its stamp, and return the bytes freed. The lock keeps its digest.

    Raises `UsageError` for Docker images and for files outside of the install's `images` folder.
    """
    if entry.path is None:
        command = f"`docker image rm {entry.reference}`"
        raise UsageError(f"{entry.name} is stored in Docker: remove it with {command}")
    path, folder = Path(entry.path), install / "images"
    if path.parent != folder:
        raise UsageError(f"{path} is not in {folder}: llmbx deletes only images in that folder")
    ImageStore(install).delete_stamp(path)
    path.unlink(missing_ok=True)
    return entry.size or 0


def delete_leftovers(install: Path) -> int:
    """Delete leftovers of imports and the stamps of missing files, and return the bytes freed."""
    store = ImageStore(install)
    freed = sum(leftovers.delete(path) for path in leftovers.leftovers(store.folder))
    for stamp in store.stamps():
        if stamp.inode and not Path(stamp.path).exists():
            store.delete_stamp(stamp.path)
    return freed


def _files(install: Path) -> Iterator[Path]:
    folder = install / "images"
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.suffix in SUFFIXES and not path.name.startswith(".") and path.is_file():
            yield path


def _of_file(path: Path, install: Path) -> Entry:
    store = ImageStore(install)
    stamp, current = store.stamp(path), store.current_stamp(path)
    state = "ok" if current else "changed" if stamp else "not verified"
    if reason := problem(path):
        state = f"corrupt: {reason}"
    return Entry(
        name=path.name,
        reference=stamp.reference if stamp else None,
        kind=path.suffix[1:],
        size=path.stat().st_size,
        digest=current.proof if current else None,
        imported=(stamp.imported[:10] or None) if stamp else None,
        state=state,
        path=str(path),
    )


def _of_docker_image(stamp: Stamp, install: Path) -> Entry:
    digest = ImageStore(install).locked(stamp.reference).digest
    return Entry(
        name=stamp.path,
        reference=stamp.reference,
        kind=stamp.tool,
        size=None,
        digest=digest,
        imported=None,
        state="ok",
    )


def _file_state(path: Path, install: Path, progress: Progress) -> str:
    if reason := problem(path):
        return f"corrupt: {reason}"
    store = ImageStore(install)
    stamp, sha256 = store.stamp(path), sha256_file(path, progress)
    if stamp is None or stamp.sha256 is None:
        return "ok"
    if stamp.sha256 != sha256:
        return f"changed: expected {stamp.sha256}, got {sha256}"
    store.write_stamp(stamp.of(path))
    return "ok"


def _docker_state(entry: Entry) -> str:
    from ..runtimes.docker_store import stored

    try:
        present = stored(entry.name.partition("/")[2])
    except InfraError as error:
        return f"unknown: {error}"
    return "ok" if present else "missing: removed from Docker"


def _registry_state(reference: str, install: Path, settings: ContainerSettings) -> str:
    from .registry import look_up

    locked = ImageStore(install).locked(reference).digest
    if locked is None or reference.startswith(BUILT):
        return "ok"
    try:
        digest = look_up(parse_reference(reference), settings).digest
    except LlmbxError as error:
        return f"ok, but the registry could not be checked: {error}"
    if digest == locked:
        return "ok"
    return f"re-pushed: local digest {locked}, registry digest {digest}"
