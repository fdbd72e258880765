"""Prepare images in the Docker daemon: pull or load once, check the digest, and determine the Python version once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from llmbx.api import (
    Image,
    ImageRequest,
    InfraError,
    UsageError,
    disk_errors,
    format_bytes,
    settings_of,
)

from ..images.lockfile import STORE, check_locked, read_lock, remember
from ..images.stamps import Stamp, current_stamp, read_stamp, with_identity, write_stamp
from ..naming import Reference, file_name, parse_reference
from ..settings import ContainerSettings
from .container import archive, require_importable
from .docker_store import Stored, daemon_host, load, pull, stored

if TYPE_CHECKING:
    from llmbx.api import Progress


def ensure_stored(
    image: Image, request: ImageRequest, install: Path, progress: Progress, offline: bool = False
) -> Image:
    """Return the image with its digest after pulling or loading it if needed.

    Raises `InfraError` and `UsageError` as `images.engine.ensure_file` does.
    """
    source = archive(request)
    if source is not None:
        return _from_archive(image, request, source, install, progress)
    reference = parse_reference(image.reference)
    found = stored(reference.docker) or _fetch(reference, request, install, progress, offline)
    digest = (
        _digest(found, reference) or _locked_digest(found, reference.docker, install) or found.id
    )
    _check_digest(request, install, reference.docker, digest)
    remember(install, reference.docker, digest, {STORE: found.id})
    stamp = _stamp(found.id, reference.docker, install)
    known: Image = image.replace(digest=digest, versions=stamp.versions)
    return known


def inspect_stored(image: Image, install: Path) -> Image:
    """Return the image with the versions of its Python and packages, read by starting it once for each image id.

    The container uses the host's network like the ranks, because creating a network takes Docker almost as long as
    starting the container. Raises `UsageError` if the image has no python3.
    """
    from ..images.tool import Command, python_versions

    found = None if image.versions else stored(image.reference)
    if found is None:
        return image
    stamp = _stamp(found.id, image.reference, install)
    name = stamp.reference if image.reference == found.id else image.reference
    start = (
        "docker",
        "run",
        "--rm",
        "--pull",
        "never",
        "--network",
        "host",
        "--entrypoint",
        "",
        found.id,
    )
    versions = python_versions(Command(argv=start), name) or {}
    write_stamp(stamp.replace(versions=versions), install)
    known: Image = image.replace(versions=versions)
    return known


def _fetch(
    reference: Reference, request: ImageRequest, install: Path, progress: Progress, offline: bool
) -> Stored:
    """Pull the image under a lock, so that only one process pulls it."""
    from ...locks import held

    name = reference.docker
    require_importable(name, "docker")
    if offline:
        raise InfraError(
            f"Docker does not have {name} and --offline disables the pull: run `llmbx image prepare` on a machine with "
            f"network access, or import a bundle with `llmbx image import BUNDLE`"
        )
    lease = install / "images" / f".docker-{file_name(name, '')}.lease"
    with disk_errors(str(lease)):
        lease.parent.mkdir(parents=True, exist_ok=True)
        with held(lease, f"it pulls {name}", progress):
            return stored(name) or _pull(reference, request, install, progress)


def _pull(reference: Reference, request: ImageRequest, install: Path, progress: Progress) -> Stored:
    """Look up the digest in the registry, check it, and have the daemon pull exactly that digest."""

    from ..images.registry import look_up_pinned
    from ..images.transient import retry

    bounds, name = settings_of(request, ContainerSettings), reference.docker
    title, deadline = f"image {name}", time.monotonic() + bounds.image_timeout_s
    pinned = None if request.accept_change else request.digest
    remote = retry(
        lambda: look_up_pinned(reference, pinned, bounds), title, bounds, deadline, progress
    )
    _check_digest(request, install, name, remote.digest)
    much = f" ({format_bytes(remote.layer_bytes)} to download)" if remote.layer_bytes else ""
    _require_space(remote.layer_bytes, title)
    progress(f"{title}: pulling{much} with docker")
    retry(
        lambda: pull(reference, remote.digest, deadline - time.monotonic(), progress),
        title,
        bounds,
        deadline,
        progress,
    )
    found = stored(name)
    if found is None or _digest(found, reference) != remote.digest:
        raise InfraError(f"{title}: Docker pulled a different image than {remote.digest}")
    progress(f"{title}: ready, {remote.digest}")
    return found


def _require_space(layer_bytes: int | None, title: str) -> None:
    """Raise `InfraError` if the disk of a local daemon has too little space for `layer_bytes` of compressed layers."""
    from ..images.disk import needed_bytes, require_space
    from .docker_store import data_root

    if layer_bytes is not None and daemon_host().startswith("unix://") and (root := data_root()):
        require_space(root, needed_bytes(layer_bytes, packed_again=False), title)


def _from_archive(
    image: Image, request: ImageRequest, source: Path, install: Path, progress: Progress
) -> Image:
    """Return the image of a Docker archive; load the archive unless the daemon has the image already."""
    from ..images.verify import require_intact, sha256_file

    if not source.is_file():
        raise UsageError(f"image file {source} does not exist")
    stamp = current_stamp(source, install)
    if stamp is None or stamp.digest is None or stored(stamp.digest) is None:
        require_intact(source)
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


def _check_digest(request: ImageRequest, install: Path, name: str, digest: str) -> None:
    if request.digest and digest != request.digest and not request.accept_change:
        raise InfraError(
            f"image {name}: the recipe is pinned to {request.digest}, but it is {digest}; to use it anyway, pass "
            f"--accept-image-change"
        )
    check_locked(install, name, "digest", digest, request.accept_change)


def _digest(found: Stored, reference: Reference) -> str | None:
    """The registry digest of an image in the daemon. Docker omits the name of its default registry."""
    names = [f"{reference.registry}/{reference.repository}"]
    if reference.registry == "docker.io":
        names += [reference.repository, reference.repository.removeprefix("library/")]
    return next((found.digests[name] for name in names if name in found.digests), None)


def _locked_digest(found: Stored, name: str, install: Path) -> str | None:
    """The registry digest, from `images.lock`, of an image that was loaded from an archive, found by its id."""
    entry = read_lock(install).images.get(name)
    return entry.digest if entry and entry.files.get(STORE) == found.id else None


def _stamp(identity: str, name: str, install: Path) -> Stamp:
    """The stamp of the Docker image with id `identity`; created if missing, so that `llmbx image list` shows it."""
    key = f"docker/{identity}"
    known = read_stamp(key, install)
    if known is None:
        known = Stamp(path=key, reference=name, tool="docker")
        write_stamp(known, install)
    return known
