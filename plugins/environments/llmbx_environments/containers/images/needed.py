"""An image that a run needs, and the digest that it must have."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from pathlib import Path

from llmbx.api import Image, ImageRequest, InfraError, Progress, format_bytes, settings_of

from ...space import require_space
from ..naming import Reference, parse_reference
from ..settings import ContainerSettings
from .registry import RemoteImage, look_up_pinned
from .store import ImageStore
from .transient import Attempts


@dataclasses.dataclass(frozen=True, kw_only=True)
class NeededImage(ABC):
    """An image that a run needs, in the store of an install."""

    image: Image
    request: ImageRequest
    store: ImageStore
    progress: Progress
    offline: bool = False

    @property
    @abstractmethod
    def key(self) -> str:
        """Key of the image in `images.lock`."""

    @property
    @abstractmethod
    def title(self) -> str:
        """Name of the image in progress and error messages."""

    @property
    def subject(self) -> str:
        """What a message about its digest calls it."""
        return "it"

    @property
    def settings(self) -> ContainerSettings:
        """The limits of its import."""
        return settings_of(self.request, ContainerSettings)

    @property
    def reference(self) -> Reference:
        """The image in its registry."""
        return parse_reference(self.image.reference).replace(machine=self.request.machine)

    def attempts(self) -> Attempts:
        """The attempts of an import that starts now."""
        return Attempts(self.title, self.settings, self.progress)

    def check_digest(self, digest: str | None) -> None:
        """Raise `InfraError` if another digest is pinned or locked, unless changes are accepted."""
        pinned, accept = self.request.digest, self.request.accept_change
        if not accept and digest and pinned not in (None, "", digest):
            raise InfraError(
                f"{self.title}: the recipe is pinned to {pinned}, but {self.subject} is {digest}; "
                f"to use it anyway, pass --accept-image-change"
            )
        self.store.check_digest(self.key, digest, accept)

    def look_up(self, attempts: Attempts) -> RemoteImage:
        """Look the image up in its registry, and check its digest."""
        pinned = None if self.request.accept_change else self.request.digest
        remote = attempts.retry(lambda: look_up_pinned(self.reference, pinned, self.settings))
        self.check_digest(remote.digest)
        return remote

    def require_space(self, folder: Path, remote: RemoteImage, packed_again: bool) -> None:
        """Raise `InfraError` if the disk of `folder` has too little space for the import."""
        needed = remote.disk_bytes(packed_again)
        need = f"{self.title}: the import needs about {format_bytes(needed)}"
        require_space(folder, needed, need, "free some space (`llmbx image prune`)")


def download(remote: RemoteImage | None) -> str:
    """How much an import downloads, for its progress."""
    if remote is None or not remote.layer_bytes:
        return ""
    return f" ({format_bytes(remote.layer_bytes)} to download)"
