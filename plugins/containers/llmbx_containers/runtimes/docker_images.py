"""An image in the Docker daemon's store: fetched once, compared with what was first seen, asked once for its Python."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from llmbx.errors import InfraError, UsageError
from llmbx.files import disk_errors
from llmbx.model import Image, ImageRequest

from ..images.lockfile import STORE, check_locked, read_lock, remember
from ..images.stamps import Stamp, current_stamp, read_stamp, with_identity, write_stamp
from ..naming import Reference, file_name, parse_reference
from .container import archive, require_importable
from .docker_store import Stored, daemon_host, load, pull, stored

if TYPE_CHECKING:
    from llmbx.runtimes.base import Progress


def ensure_stored(
    image: Image, request: ImageRequest, install: Path, progress: Progress, offline: bool = False
) -> Image:
    """The image as the daemon has it now. Raises `InfraError` and `UsageError` as `images.engine.ensure_file` does."""
    source = archive(request)
    if source is not None:
        return _from_archive(image, request, source, install, progress)
    reference = parse_reference(image.reference)
    found = stored(reference.docker) or _fetch(reference, request, install, progress, offline)
    digest = _digest(found, reference) or _locked_digest(found, reference.docker, install) or found.id
    _agree(request, install, reference.docker, digest)
    remember(install, reference.docker, digest, {STORE: found.id})
    stamp = _stamp(found.id, reference.docker, install)
    known: Image = image.replace(digest=digest, versions=stamp.versions)
    return known


def look_into_stored(image: Image, install: Path) -> Image:
    """The image with the versions that it names when it is started, asked once for each image id.

    In the host's network, as the ranks run: one of its own takes Docker almost as long as the container. Raises
    `UsageError` when the image has no python3.
    """
    from ..images.tool import Command, python_versions

    found = None if image.versions else stored(image.reference)
    if found is None:
        return image
    stamp = _stamp(found.id, image.reference, install)
    name = stamp.reference if image.reference == found.id else image.reference
    start = ("docker", "run", "--rm", "--pull", "never", "--network", "host", "--entrypoint", "", found.id)
    versions = python_versions(Command(argv=start), name) or {}
    write_stamp(stamp.replace(versions=versions), install)
    known: Image = image.replace(versions=versions)
    return known


def _fetch(reference: Reference, request: ImageRequest, install: Path, progress: Progress, offline: bool) -> Stored:
    """The image, pulled by the one process that has the lock."""
    from llmbx.runtimes.locks import held

    name = reference.docker
    require_importable(name, "docker")
    if offline:
        raise InfraError(
            f"Docker does not have {name}, and --offline forbids to pull it: `llmbx image prepare` it where there is a "
            f"network, or bring it with `llmbx image import BUNDLE`"
        )
    lease = install / "images" / f".docker-{file_name(name, '')}.lease"
    with disk_errors(str(lease)):
        lease.parent.mkdir(parents=True, exist_ok=True)
        with held(lease, f"it pulls {name}", progress):
            return stored(name) or _pull(reference, request, install, progress)


def _pull(reference: Reference, request: ImageRequest, install: Path, progress: Progress) -> Stored:
    """Ask the registry, compare digests, and have the daemon pull just that digest."""
    from llmbx.cli.words import size

    from ..images.limits import limits
    from ..images.registry import look_up
    from ..images.retry import retrying

    bounds, name = limits(), reference.docker
    title, deadline = f"image {name}", time.monotonic() + bounds.timeout_s
    remote = retrying(lambda: look_up(reference, bounds), title, bounds, deadline, progress)
    _agree(request, install, name, remote.digest)
    much = f" ({size(remote.layer_bytes)} to download)" if remote.layer_bytes else ""
    _require_room(remote.layer_bytes, title)
    progress(f"{title}: pulling it{much} with docker")
    retrying(
        lambda: pull(reference, remote.digest, deadline - time.monotonic(), progress), title, bounds, deadline, progress
    )
    found = stored(name)
    if found is None or _digest(found, reference) != remote.digest:
        raise InfraError(f"{title}: Docker pulled something else than {remote.digest}")
    progress(f"{title}: ready, {remote.digest}")
    return found


def _require_room(layer_bytes: int | None, title: str) -> None:
    """Raise `InfraError` when the disk of a daemon on this machine is too small for so many bytes of layers."""
    from ..images.disk import needed_bytes, require_room
    from .docker_store import data_root

    if layer_bytes is not None and daemon_host().startswith("unix://") and (root := data_root()):
        require_room(root, needed_bytes(layer_bytes, packed_again=False), title)


def _from_archive(image: Image, request: ImageRequest, source: Path, install: Path, progress: Progress) -> Image:
    """The image of a Docker archive, loaded unless the daemon has it already."""
    from ..images.verify import require_whole, sha256_file

    if not source.is_file():
        raise UsageError(f"there is no image file {source}")
    stamp = current_stamp(source, install)
    if stamp is None or stamp.digest is None or stored(stamp.digest) is None:
        require_whole(source)
        progress(f"image {source.name}: loading it into Docker")
        sha256 = sha256_file(source, progress)
        check_locked(install, str(source), "file", sha256, request.accept_change, key=source.name)
        loaded = Stamp(path=str(source), reference=str(source), digest=load(source), sha256=sha256)
        stamp = with_identity(loaded, source)
        write_stamp(stamp, install)
    check_locked(install, str(source), "file", stamp.sha256, request.accept_change, key=source.name)
    name = stamp.digest or ""
    remember(install, str(source), None, {source.name: stamp.sha256 or ""})
    seen = _stamp(name, str(source), install)
    known: Image = image.replace(reference=name, digest=stamp.sha256, versions=seen.versions)
    return known


def _agree(request: ImageRequest, install: Path, name: str, digest: str) -> None:
    if request.digest and digest != request.digest and not request.accept_change:
        raise InfraError(
            f"image {name}: the recipe is pinned to {request.digest}, but it is {digest}; use it all the same with "
            f"--accept-image-change"
        )
    check_locked(install, name, "digest", digest, request.accept_change)


def _digest(found: Stored, reference: Reference) -> str | None:
    """The registry's digest of what the daemon has; Docker drops the name of its own registry."""
    names = [f"{reference.registry}/{reference.repository}"]
    if reference.registry == "docker.io":
        names += [reference.repository, reference.repository.removeprefix("library/")]
    return next((found.digests[name] for name in names if name in found.digests), None)


def _locked_digest(found: Stored, name: str, install: Path) -> str | None:
    """The registry's digest of an image that came into the store from an archive, by its id."""
    entry = read_lock(install).images.get(name)
    return entry.digest if entry and entry.files.get(STORE) == found.id else None


def _stamp(identity: str, name: str, install: Path) -> Stamp:
    """What is known of the daemon's image `identity`; from the first time on, the install's list shows it."""
    key = f"docker/{identity}"
    known = read_stamp(key, install)
    if known is None:
        known = Stamp(path=key, reference=name, tool="docker")
        write_stamp(known, install)
    return known
