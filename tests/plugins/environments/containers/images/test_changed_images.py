"""An image whose digest is not the one of the lock or of the recipe is refused, before anything is downloaded."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.errors import InfraError
from llmbx.model import Image, ImageRequest
from llmbx_environments.containers.images.files import NeededFile, ensure_file
from llmbx_environments.containers.images.store import ImageStore
from llmbx_environments.containers.images.tool import Command, FileTool
from llmbx_environments.containers.naming import Reference
from llmbx_environments.containers.runtimes import docker_images
from llmbx_environments.containers.runtimes.docker import DockerRuntime
from llmbx_environments.containers.runtimes.docker_store import Stored
from llmbx_environments.containers.runtimes.pyxis import PyxisRuntime

from .loopback_registry import CONFIG, IMAGE, INDEX, Registry, digest

EARLIER = "sha256:" + "e" * 64
SQUASHFS = "hsqs" + "\\0" * 24 + "\\4\\0\\0\\0"
"""The start of an empty squashfs file, for `printf`."""

MakeFile = Callable[..., NeededFile]


class Tool(FileTool):
    """A container tool that writes the file of any image; `imported` are the references that it was asked for."""

    name, suffix = "builder", ".sqsh"

    def __init__(self) -> None:
        self.imported: list[Reference] = []

    def import_command(self, reference: Reference, output: Path, scratch: Path, plain_http: bool) -> Command:
        self.imported.append(reference)
        file = shlex.quote(str(output))
        script = f"printf '{SQUASHFS}' > {file} && head -c 4096 /dev/zero >> {file}"
        return Command(argv=("/bin/sh", "-c", script))

    def start_command(self, file: Path) -> Command:
        raise AssertionError("no image is started here")


@pytest.fixture
def tool() -> Tool:
    return Tool()


@pytest.fixture
def install(tmp_path: Path) -> Path:
    return tmp_path / "install"


@pytest.fixture
def image_file(registry: Registry, tool: Tool, install: Path) -> MakeFile:
    """`image_file(**request)`: the image `team/app:1` of the registry, as a file that `tool` imports."""
    registry.login = False

    def make(**members: object) -> NeededFile:
        request = ImageRequest(reference=f"{registry.name}/team/app:1").replace(**members)
        image = PyxisRuntime().plan(request, install)
        return NeededFile(
            image=image, request=request, store=ImageStore(install), tool=tool, progress=lambda line: None
        )

    return make


def test_the_digest_of_the_registry_is_imported_and_locked(image_file: MakeFile, tool: Tool, install: Path) -> None:
    image = ensure_file(image_file())
    assert image.digest == digest(INDEX)
    assert [reference.digest for reference in tool.imported] == [digest(INDEX)], "and not what the tag is by then"
    locked = ImageStore(install).lock().images[image_file().key]
    assert (locked.digest, locked.files["docker"]) == (digest(INDEX), CONFIG)
    assert ensure_file(image_file()) == image and len(tool.imported) == 1


def test_a_registry_that_returns_another_digest_than_the_lock_has_is_refused(
    image_file: MakeFile, tool: Tool, install: Path
) -> None:
    ImageStore(install).remember(image_file().key, EARLIER, {})
    with pytest.raises(InfraError) as refused:
        ensure_file(image_file())
    problem = str(refused.value)
    assert "first seen" in problem and f"as {EARLIER}, the tag is now {digest(INDEX)}; " in problem
    name = image_file().key.removesuffix(":1")
    assert problem.endswith(f"pass --accept-image-change; to keep the old one, pass --image {name}@{EARLIER}")
    assert tool.imported == [] and not image_file().path.exists()
    assert ImageStore(install).lock().images[image_file().key].digest == EARLIER


def test_an_accepted_change_replaces_the_locked_digest(image_file: MakeFile, tool: Tool, install: Path) -> None:
    ImageStore(install).remember(image_file().key, EARLIER, {})
    assert ensure_file(image_file(accept_change=True)).digest == digest(INDEX)
    assert ImageStore(install).lock().images[image_file().key].digest == digest(INDEX)
    assert ensure_file(image_file()).digest == digest(INDEX), "it is accepted once and for all"


def test_a_file_that_was_imported_before_is_refused_if_the_lock_says_otherwise(
    image_file: MakeFile, tool: Tool, install: Path
) -> None:
    """For example because the lock is that of a shared folder."""
    ensure_file(image_file())
    (install / "images" / "images.lock").unlink()
    ImageStore(install).remember(image_file().key, EARLIER, {})
    with pytest.raises(InfraError, match=f"as {EARLIER}, the tag is now {digest(INDEX)}"):
        ensure_file(image_file())


def test_the_digest_that_a_recipe_pins_is_imported_although_the_tag_has_moved(
    image_file: MakeFile, tool: Tool, registry: Registry
) -> None:
    registry.answers["1"] = IMAGE
    assert ensure_file(image_file(digest=digest(INDEX))).digest == digest(INDEX)


def test_another_digest_than_the_recipe_pins_is_refused(image_file: MakeFile, tool: Tool, registry: Registry) -> None:
    """The registry has only another image under the tag."""
    with pytest.raises(InfraError) as refused:
        ensure_file(image_file(digest=EARLIER))
    name, key = image_file().path.name, image_file().key
    assert str(refused.value) == (
        f"image {name}: the recipe is pinned to {EARLIER}, but {key} is {digest(INDEX)}; "
        "to use it anyway, pass --accept-image-change"
    )
    assert tool.imported == []
    assert ensure_file(image_file(digest=EARLIER, accept_change=True)).digest == digest(INDEX)


class Daemon:
    """A Docker daemon that has an image once it was pulled; `digest` is that of the image that a pull brings."""

    def __init__(self) -> None:
        self.repository, self.digest, self.pulled = "", digest(INDEX), list[str]()
        self.image: Stored | None = None

    def stored(self, name: str) -> Stored | None:
        return self.image

    def pull(self, reference: Reference, digest: str, timeout_s: float, progress: object) -> None:
        self.pulled.append(digest)
        self.image = Stored(id=CONFIG, digests={f"{reference.registry}/{reference.repository}": self.digest})


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Daemon:
    stand_in = Daemon()
    monkeypatch.setattr(docker_images, "stored", stand_in.stored)
    monkeypatch.setattr(docker_images, "pull", stand_in.pull)
    monkeypatch.setattr(docker_images, "daemon_host", lambda: "tcp://elsewhere:2375")
    return stand_in


def pulled(file: NeededFile) -> Image:
    """The same image with the runtime `docker`."""
    image = DockerRuntime().plan(file.request, file.store.install)
    need = docker_images.StoredImage(image=image, request=file.request, store=file.store, progress=lambda line: None)
    return docker_images.ensure_stored(need)


def test_docker_pulls_the_digest_of_the_registry_and_it_is_locked(
    image_file: MakeFile, daemon: Daemon, install: Path
) -> None:
    assert pulled(image_file()).digest == digest(INDEX) and daemon.pulled == [digest(INDEX)]
    assert ImageStore(install).lock().images[image_file().key].digest == digest(INDEX)
    assert pulled(image_file()).digest == digest(INDEX) and len(daemon.pulled) == 1


def test_docker_does_not_pull_another_digest_than_the_lock_or_the_recipe_has(
    image_file: MakeFile, daemon: Daemon, install: Path
) -> None:
    with pytest.raises(InfraError, match=f"the recipe is pinned to {EARLIER}, but it is {digest(INDEX)}"):
        pulled(image_file(digest=EARLIER))
    ImageStore(install).remember(image_file().key, EARLIER, {})
    with pytest.raises(InfraError, match=f"as {EARLIER}, the tag is now {digest(INDEX)}"):
        pulled(image_file())
    assert daemon.pulled == []
    assert pulled(image_file(accept_change=True)).digest == digest(INDEX)


def test_an_image_that_docker_pulled_must_be_the_one_that_was_asked_for(image_file: MakeFile, daemon: Daemon) -> None:
    daemon.digest = EARLIER
    with pytest.raises(InfraError, match=f": Docker pulled a different image than {digest(INDEX)}$"):
        pulled(image_file())


def test_an_image_that_docker_already_has_is_compared_with_the_lock_too(
    image_file: MakeFile, daemon: Daemon, install: Path, registry: Registry
) -> None:
    ImageStore(install).remember(image_file().key, EARLIER, {})
    daemon.image = Stored(id=CONFIG, digests={f"{registry.name}/team/app": digest(INDEX)})
    with pytest.raises(InfraError, match=f"as {EARLIER}, the tag is now {digest(INDEX)}"):
        pulled(image_file())
    assert daemon.pulled == []
