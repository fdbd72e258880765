"""Images in the Docker daemon: pulled or loaded once, with their digest checked."""

from __future__ import annotations

import time
from pathlib import Path

from llmbx.api import Image, InfraError, UsageError, disk_errors

from ...locks import held
from ..built import require_importable
from ..images.inside import python_versions
from ..images.needed import NeededImage, download
from ..images.store import DOCKER, ImageStore, Stamp
from ..images.tool import Command
from ..images.verify import require_intact, sha256_file
from ..naming import Reference, file_name
from .docker_store import Stored, daemon_host, data_root, load, pull, stored


class StoredImage(NeededImage):
    """An image that the runtime docker needs, in the daemon."""

    @property
    def key(self) -> str:
        """Key of the image in `images.lock`, and its name in the daemon."""
        return self.reference.docker

    @property
    def title(self) -> str:
        """Name of the image in progress and error messages."""
        return f"image {self.key}"


def ensure_stored(need: StoredImage) -> Image:
    """Return the image with its digest after pulling it if needed.

    Raises `InfraError` and `UsageError` as `images.files.ensure_file` does.
    """
    present = stored(need.key) or _fetch(need)
    digest = _digest(present, need.reference) or _locked_digest(present, need) or present.id
    need.check_digest(digest)
    need.store.remember(need.key, digest, {DOCKER: present.id})
    stamp = _stamp(present.id, need.key, need.store)
    return need.image.replace(digest=digest, versions=stamp.versions)


def load_archive(need: StoredImage, source: Path) -> Image:
    """Return the image of a Docker archive; load it unless the daemon has the image already."""
    if not source.is_file():
        raise UsageError(f"image file {source} does not exist")
    store, accept, key = need.store, need.request.accept_change, str(source)
    stamp = store.current_stamp(source)
    if stamp is None or stamp.digest is None or stored(stamp.digest) is None:
        require_intact(source)
        need.progress(f"image {source.name}: loading it into Docker")
        sha256 = sha256_file(source, need.progress)
        store.check_file(key, source.name, sha256, accept)
        identity = load(source)
        stamp = Stamp(path=key, reference=key, digest=identity, sha256=sha256)
        stamp = stamp.of(source)
        store.write_stamp(stamp)
    store.check_file(key, source.name, stamp.sha256, accept)
    store.remember(key, None, {source.name: stamp.sha256 or ""})
    name = stamp.digest or ""
    versions = _stamp(name, key, store).versions
    return need.image.replace(reference=name, digest=stamp.sha256, versions=versions)


def inspect_stored(image: Image, install: Path) -> Image:
    """Return the image with the versions inside, read by starting it once for each image id.

    The container uses the host's network like the ranks, because creating a network takes Docker
    almost as long as starting the container. Raises `UsageError` if the image has no python3.
    """
    present = None if image.versions else stored(image.reference)
    if present is None:
        return image
    store = ImageStore(install)
    stamp = _stamp(present.id, image.reference, store)
    name = stamp.reference if image.reference == present.id else image.reference
    options = ("--rm", "--pull", "never", "--network", "host", "--entrypoint", "")
    start = Command(argv=("docker", "run", *options, present.id))
    versions = python_versions(start, name) or {}
    store.write_stamp(stamp.replace(versions=versions))
    return image.replace(versions=versions)


def _fetch(need: StoredImage) -> Stored:
    """Pull the image under a lock, so that only one process pulls it."""
    require_importable(need.key, "docker")
    if need.offline:
        raise InfraError(
            f"Docker does not have {need.key} and --offline disables the pull: run `llmbx image "
            f"prepare` on a machine with network access, or import a bundle with `llmbx image "
            f"import BUNDLE`"
        )
    lease = need.store.folder / f".docker-{file_name(need.key, '')}.lease"
    with disk_errors(str(lease)), held(lease, f"it pulls {need.key}", need.progress):
        return stored(need.key) or _pull(need)


def _pull(need: StoredImage) -> Stored:
    """Have the daemon pull exactly the digest that the registry has, after checking it."""
    attempts = need.attempts()
    remote = need.look_up(attempts)
    is_local = daemon_host().startswith("unix://")
    if remote.layer_bytes is not None and is_local and (root := data_root()):
        need.require_space(root, remote, packed_again=False)
    need.progress(f"{need.title}: pulling{download(remote)} with docker")

    def attempt() -> None:
        left_s = attempts.deadline - time.monotonic()
        pull(need.reference, remote.digest, left_s, need.progress)

    attempts.retry(attempt)
    present = stored(need.key)
    if present is None or _digest(present, need.reference) != remote.digest:
        raise InfraError(f"{need.title}: Docker pulled a different image than {remote.digest}")
    need.progress(f"{need.title}: ready, {remote.digest}")
    return present


def _digest(image: Stored, reference: Reference) -> str | None:
    """The registry digest of an image. Docker omits the name of its default registry."""
    names = [f"{reference.registry}/{reference.repository}"]
    if reference.registry == "docker.io":
        names += [reference.repository, reference.repository.removeprefix("library/")]
    return next((image.digests[name] for name in names if name in image.digests), None)


def _locked_digest(image: Stored, need: StoredImage) -> str | None:
    """The locked digest of an image that was loaded from an archive, recognized by its id."""
    entry = need.store.locked(need.key)
    return entry.digest if entry.files.get(DOCKER) == image.id else None


def _stamp(identity: str, name: str, store: ImageStore) -> Stamp:
    """The stamp of a Docker image; created if missing, so that `llmbx image list` shows it."""
    key = f"docker/{identity}"
    stamp = store.stamp(key)
    if stamp is None:
        stamp = Stamp(path=key, reference=name, tool="docker")
        store.write_stamp(stamp)
    return stamp
