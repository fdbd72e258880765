"""The files of an import, which get their final names together when all are verified."""

from __future__ import annotations

import errno
import shutil
from contextlib import suppress
from pathlib import Path, PurePosixPath

from ..containers.images.store import ImageStore
from ..leftovers import partial_path
from .manifest import DOCKER, IMAGES, Member


class Staging:
    """A temporary folder in the install. What is not finished leaves nothing behind.

    `llmbx image prune` deletes the folders of killed imports.
    """

    def __init__(self, install: Path) -> None:
        self.install = install
        self.scratch = partial_path(install / IMAGES / "import")
        self.files: list[tuple[Member, Path]] = []
        self.folders: list[Path] = []

    def __enter__(self) -> Staging:
        shutil.rmtree(self.scratch, ignore_errors=True)
        self._make_folders(self.scratch)
        return self

    def add(self, member: Member) -> Path:
        """The temporary path of a file."""
        name = PurePosixPath(member.path).name[-80:]
        path = self.scratch / f"{len(self.files)}-{name}"
        self.files.append((member, path))
        return path

    def finish(self) -> None:
        """Load images into Docker, and move the other files to their final places."""
        moved = [(member, path) for member, path in self.files if member.folder != DOCKER]
        for member, path in self.files:
            if member.folder == DOCKER:
                _load_into_docker(path)
        for member, path in moved:
            target = self._target(member)
            if target.is_dir():
                raise IsADirectoryError(errno.EISDIR, "Is a directory", str(target))
            self._make_folders(target.parent)
            bring(path, self._beside(member, path))
        for member, path in moved:
            target, temporary = self._target(member), self._beside(member, path)
            # The stamp comes first: if llmbx is killed in between, no file matches it.
            if member.stamp:
                stamp = member.stamp.replace(path=str(target))
                ImageStore(self.install).write_stamp(stamp.of(temporary))
            temporary.replace(target)

    def __exit__(self, *error: object) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)
        for member, path in self.files:
            with suppress(OSError):
                self._beside(member, path).unlink()
        for folder in reversed(self.folders):
            with suppress(OSError):
                folder.rmdir()  # if it is empty

    def _target(self, member: Member) -> Path:
        return self.install / member.path

    def _beside(self, member: Member, path: Path) -> Path:
        """A temporary path in the folder of the target; the number in `path` makes it unique."""
        return partial_path(self._target(member).with_name(path.name))

    def _make_folders(self, folder: Path) -> None:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        self.folders += reversed(missing)
        folder.mkdir(parents=True, exist_ok=True)


def bring(path: Path, target: Path) -> None:
    """Move a file into the folder of `target`, which may be on another file system."""
    try:
        path.replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copyfile(path, target)


def _load_into_docker(archive: Path) -> None:
    from ..containers.runtimes.docker_store import load

    load(archive)
