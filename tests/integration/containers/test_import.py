"""Imports with the real tools: whole or not at all, once for all who ask, and one clear line for every fault."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from llmbx.errors import InfraError
from llmbx.model import ImageRequest
from llmbx_environments.containers.naming import parse_reference
from llmbx_environments.containers.runtimes.apptainer import ApptainerRuntime
from llmbx_environments.containers.runtimes.docker import DockerRuntime
from llmbx_environments.containers.runtimes.docker_store import pull

from ...patience import wait_until
from .proxy import Fault, Proxy
from .tools import TOOLS, Daemons

Prepare = Callable[..., subprocess.Popen[str]]
BLOBS = r"/blobs/"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@pytest.fixture(autouse=True)
def empty_store(images: dict[str, str], daemons: Daemons) -> None:
    """Docker downloads no layer that an image of an earlier test has: a fault would not be met."""
    daemons.forget_images()


def end(process: subprocess.Popen[str], seconds: float = 120) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=seconds)
    assert "Traceback" not in err, err
    return process.returncode, out, err


def last_line(err: str) -> str:
    line = err.strip().splitlines()[-1]
    assert line.startswith("llmbx: "), err
    return line


def nothing_left(install: Path, daemons: Daemons) -> None:
    """No image, no part of one, no process that still makes one, no container."""
    images = install / "images"
    left = [path.name for path in images.iterdir()] if images.is_dir() else []
    assert [name for name in left if name not in ("images.lock", ".stamps")] == []
    assert workers(install) == []
    assert daemons.docker("ps", "--all", "--quiet").stdout == ""
    assert str(install) not in Path("/proc/self/mounts").read_text()


def workers(install: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(f"{install}/images/." in part for part in process.info["cmdline"] or ()):
            found.append(process)
    return found


def forget(daemons: Daemons, reference: str) -> None:
    daemons.docker("image", "rm", "--force", reference, check=False)


def partial(install: Path) -> list[Path]:
    return list((install / "images").glob(".*.partial-*"))


@pytest.mark.parametrize("tool", TOOLS)
def test_an_import_is_known_by_the_registrys_digest_and_done_once(
    tool: str, prepare: Prepare, proxy: Proxy, images: dict[str, str], install: Path, daemons: Daemons
) -> None:
    reference = f"{proxy.registry}/ci/tiny:1"
    code, out, err = end(prepare(reference, "--runtime", tool))
    assert code == 0, err
    assert out.split()[-1] == images["ci/tiny:1"]
    asked = len(proxy.asked)
    assert asked > 0
    assert end(prepare(reference, "--runtime", tool))[0] == 0
    assert len(proxy.asked) == asked, "what is here already needs no network"
    assert end(prepare(reference, "--runtime", tool, "--offline"))[0] == 0
    locked = json.loads((install / "images/images.lock").read_text())["images"]
    assert locked[reference]["digest"] == images["ci/tiny:1"]
    assert partial(install) == []
    forget(daemons, reference)


def test_nine_at_once_import_once(prepare: Prepare, proxy: Proxy, images: dict[str, str], install: Path) -> None:
    reference = f"{proxy.registry}/ci/tiny:1"
    processes = [prepare(reference, "--runtime", "apptainer") for _ in range(9)]
    ends = [end(process) for process in processes]
    assert [code for code, _, _ in ends] == [0] * 9, ends
    assert len({out for _, out, _ in ends}) == 1
    blobs = [path for path in proxy.asked if "/blobs/" in path]
    assert len(blobs) == len(set(blobs)), "a layer was downloaded twice"
    assert [path.name for path in (install / "images").glob("*.sif")] == ["ci+tiny+1.sif"]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    ("status", "code", "words"),
    [(401, 4, "log in"), (404, 2, "has no image"), (429, 4, "too many requests"), (500, 4, "(500)")],
)
def test_a_registry_that_refuses_is_quoted(
    tool: str, status: int, code: int, words: str, prepare: Prepare, proxy: Proxy, install: Path, daemons: Daemons
) -> None:
    proxy.fault = Fault(status=status)
    got, _, err = end(prepare(f"{proxy.registry}/ci/tiny:1", "--runtime", tool))
    assert got == code and words in last_line(err) and proxy.registry in last_line(err)
    assert err.count("retrying in") == (2 if status in (429, 500) else 0)
    nothing_left(install, daemons)


def test_a_registry_that_recovers_is_tried_again(prepare: Prepare, proxy: Proxy, images: dict[str, str]) -> None:
    proxy.fault = Fault(status=503, times=2)
    code, _, err = end(prepare(f"{proxy.registry}/ci/tiny:1", "--runtime", "apptainer"))
    assert code == 0, err
    assert err.count("retrying in") == 2


@pytest.mark.parametrize("tool", TOOLS)
def test_a_registry_that_is_down(tool: str, prepare: Prepare, install: Path, daemons: Daemons) -> None:
    code, _, err = end(prepare("127.0.0.1:1/ci/tiny:1", "--runtime", tool))
    assert code == 4 and "cannot be reached: Connection refused; whether it has" in last_line(err)
    assert "(after 3 attempts)" in last_line(err)
    nothing_left(install, daemons)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_registry_that_dies_in_mid_pull(
    tool: str, prepare: Prepare, proxy: Proxy, images: dict[str, str], install: Path, daemons: Daemons
) -> None:
    proxy.fault = Fault(path=BLOBS, cut=200_000)
    code, _, err = end(prepare(f"{proxy.registry}/ci/tiny:1", "--runtime", tool))
    assert code == 4 and "(after 3 attempts)" in last_line(err)
    nothing_left(install, daemons)


@pytest.mark.parametrize("tool", TOOLS)
def test_one_cut_is_survived(
    tool: str, prepare: Prepare, proxy: Proxy, images: dict[str, str], daemons: Daemons
) -> None:
    proxy.fault = Fault(path=BLOBS, cut=200_000, times=2)
    reference = f"{proxy.registry}/ci/tiny:1"
    code, out, err = end(prepare(reference, "--runtime", tool))
    assert code == 0 and out.split()[-1] == images["ci/tiny:1"], err
    forget(daemons, reference)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_slow_registry_runs_into_the_time_limit(
    tool: str, prepare: Prepare, proxy: Proxy, images: dict[str, str], install: Path, daemons: Daemons
) -> None:
    proxy.fault = Fault(path=BLOBS, bytes_per_s=20_000)
    code, _, err = end(prepare(f"{proxy.registry}/ci/tiny:1", "--runtime", tool, "--timeout", "3"))
    assert code == 4 and "set LLMBX_IMAGE_TIMEOUT_S to allow more time" in last_line(err)
    nothing_left(install, daemons)


@pytest.mark.parametrize("tool", TOOLS)
def test_other_content_than_the_digests_is_refused(
    tool: str, prepare: Prepare, proxy: Proxy, images: dict[str, str], install: Path, daemons: Daemons
) -> None:
    proxy.fault = Fault(path=BLOBS, wrong=True)
    code, _, err = end(prepare(f"{proxy.registry}/ci/tiny:1", "--runtime", tool))
    assert code == 4, err
    last_line(err)
    nothing_left(install, daemons)


def test_a_manifest_of_another_image_is_refused(
    prepare: Prepare, proxy: Proxy, images: dict[str, str], install: Path, daemons: Daemons
) -> None:
    proxy.fault = Fault(path="/manifests/", wrong=True)
    wanted = images["ci/tiny:1"]
    code, _, err = end(prepare(f"{proxy.registry}/ci/tiny@{wanted}", "--runtime", "apptainer"))
    assert code == 4 and "returned the wrong image" in last_line(err)
    missing = f"sha256:{'0' * 64}"
    code, _, err = end(prepare(f"{daemons.registry}/ci/tiny:2", "--runtime", "apptainer", "--digest", missing))
    assert code == 4 and {missing, images["ci/tiny:2"]} <= set(DIGEST.findall(last_line(err)))
    nothing_left(install, daemons)


def test_a_disk_without_room_is_noticed_before(
    prepare: Prepare, images: dict[str, str], install: Path, daemons: Daemons
) -> None:
    (install / "images").mkdir(parents=True)
    mount = f"mount -t tmpfs -o size=12m tmpfs {install / 'images'}"
    code, _, err = end(prepare(f"{daemons.registry}/ci/tiny:1", "--runtime", "apptainer", inside=mount))
    assert code == 4 and "the import needs about" in last_line(err) and "13 MB are free" in last_line(err)
    nothing_left(install, daemons)


def test_a_disk_that_fills_up_during_the_import(
    prepare: Prepare, images: dict[str, str], install: Path, tmp_path: Path, daemons: Daemons
) -> None:
    (tmp_path / "small").mkdir()
    mount = f"mount -t tmpfs -o size=2m tmpfs {tmp_path / 'small'}"
    env = {"APPTAINER_TMPDIR": str(tmp_path / "small")}
    code, _, err = end(prepare(f"{daemons.registry}/ci/tiny:1", "--runtime", "apptainer", env=env, inside=mount))
    assert code == 4 and "no space left" in last_line(err)
    nothing_left(install, daemons)


@pytest.fixture
def small_daemon(daemons: Daemons, tmp_path: Path) -> Iterator[Daemons]:
    """A second daemon, whose disk has 24 MB."""
    other = Daemons(Path(tempfile.mkdtemp(prefix="llmbx-small-")), daemons.apptainer)
    (other.folder / "docker").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", other.folder / "docker"], check=True)
    try:
        other.start_docker()
        yield other
    finally:
        other.stop_all()
        subprocess.run(["umount", "--recursive", other.folder / "docker"], check=True)
        shutil.rmtree(other.folder)


def test_a_daemon_whose_disk_is_too_small_or_fills_up(
    prepare: Prepare, images: dict[str, str], install: Path, daemons: Daemons, small_daemon: Daemons
) -> None:
    env = {"DOCKER_HOST": small_daemon.environment["DOCKER_HOST"]}
    code, _, err = end(prepare(f"{daemons.registry}/ci/tiny:1", "--runtime", "docker", env=env))
    assert code == 4 and "MB are free" in last_line(err), err
    # A disk that somebody else fills meanwhile: the daemon's own word.
    with (small_daemon.folder / "docker/filler").open("wb") as filler:
        filler.write(b"x" * 20_000_000)
    with pytest.raises(InfraError, match="no space left"), pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", env["DOCKER_HOST"])
        pull(parse_reference(f"{daemons.registry}/ci/tiny:1"), images["ci/tiny:1"], 60, lambda line: None)
    nothing_left(install, small_daemon)


def test_killed_with_9_leaves_nothing_that_looks_whole_and_the_next_import_cleans_up(
    prepare: Prepare, proxy: Proxy, images: dict[str, str], install: Path, daemons: Daemons
) -> None:
    proxy.fault = Fault(path=BLOBS, bytes_per_s=50_000)
    process = prepare(f"{proxy.registry}/ci/tiny:1", "--runtime", "apptainer")
    # While it fetches a layer it says nothing: one that had to say something would die of the closed pipe by itself.
    wait_until(lambda: workers(install) and any("/blobs/" in path for path in proxy.asked))
    process.kill()
    process.wait()
    assert list((install / "images").glob("*.sif")) == []
    orphans = workers(install)
    assert orphans and partial(install)
    proxy.fault = None
    code, _, err = end(prepare(f"{proxy.registry}/ci/tiny:1", "--runtime", "apptainer"))
    assert code == 0, err
    assert partial(install) == []
    # Killed processes stay as zombies, without a command line, until their new parent looks.
    assert workers(install) == []


def test_interrupted_leaves_nothing(
    prepare: Prepare, proxy: Proxy, images: dict[str, str], install: Path, daemons: Daemons
) -> None:
    proxy.fault = Fault(path=BLOBS, bytes_per_s=50_000)
    process = prepare(f"{proxy.registry}/ci/tiny:1", "--runtime", "apptainer")
    wait_until(lambda: workers(install))
    process.send_signal(signal.SIGINT)
    code, _, err = end(process)
    assert code == 130, err
    nothing_left(install, daemons)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tag_that_was_pushed_again_is_noticed(
    tool: str, prepare: Prepare, images: dict[str, str], install: Path, daemons: Daemons
) -> None:
    tag = f"{daemons.registry}/ci/moving:{tool}"

    def point_tag_at(name: str) -> None:
        daemons.docker("pull", f"{daemons.registry}/{name}")
        daemons.docker("tag", f"{daemons.registry}/{name}", tag)
        daemons.docker("push", tag)
        forget(daemons, tag)
        forget(daemons, f"{daemons.registry}/{name}")
        for file in (install / "images").glob("ci+moving+*"):
            file.unlink()

    point_tag_at("ci/tiny:1")
    assert end(prepare(tag, "--runtime", tool))[0] == 0
    point_tag_at("ci/tiny:2")
    code, _, err = end(prepare(tag, "--runtime", tool))
    assert code == 4 and DIGEST.findall(last_line(err))[:2] == [images["ci/tiny:1"], images["ci/tiny:2"]]
    code, out, err = end(prepare(tag, "--runtime", tool, "--accept-image-change"))
    assert code == 0 and out.split()[-1] == images["ci/tiny:2"], err
    assert end(prepare(tag, "--runtime", tool))[0] == 0
    forget(daemons, tag)


def test_a_file_that_was_replaced_is_noticed_and_one_that_is_broken_is_imported_again(
    prepare: Prepare, images: dict[str, str], install: Path, daemons: Daemons
) -> None:
    first = f"{daemons.registry}/ci/tiny:1"
    assert end(prepare(first, "--runtime", "apptainer"))[0] == 0
    file = install / "images/ci+tiny+1.sif"
    good = file.read_bytes()
    middle = len(good) // 2
    file.write_bytes(good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :])
    code, _, err = end(prepare(first, "--runtime", "apptainer"))
    assert code == 4 and "the file ci+tiny+1.sif" in last_line(err) and len(DIGEST.findall(last_line(err))) == 2
    file.write_bytes(good)
    code, out, _ = end(prepare(first, "--runtime", "apptainer"))
    assert code == 0 and out.split()[-1] == images["ci/tiny:1"], "the same bytes are the same image"
    file.write_bytes(good[: len(good) // 2])
    code, out, err = end(prepare(first, "--runtime", "apptainer", "--offline"))
    assert code == 4 and "--offline" in last_line(err)
    file.write_bytes(b"")
    code, out, err = end(prepare(first, "--runtime", "apptainer"))
    assert code == 0 and "is corrupt (it is empty (0 bytes)): importing it again" in err
    assert out.split()[-1] == images["ci/tiny:1"]


def test_files_are_taken_as_images(
    prepare: Prepare, images: dict[str, str], install: Path, tmp_path: Path, daemons: Daemons
) -> None:
    reference = f"{daemons.registry}/ci/tiny:1"
    daemons.docker("pull", reference)
    archive = tmp_path / "mine.tar"
    daemons.docker("save", "--output", str(archive), reference)
    forget(daemons, reference)
    digests = set()
    for tool in ("docker", "apptainer"):
        for _ in range(2):
            code, out, err = end(prepare(str(archive), "--runtime", tool))
            assert code == 0, err
            digests.add(out.split()[-1])
    assert len(digests) == 1
    code, out, _ = end(prepare(reference, "--runtime", "docker", "--offline"))
    assert code == 0 and out.startswith(reference), "the archive brought the tag as well"
    forget(daemons, reference)
    (made,) = (install / "images").glob("mine+*.sif")
    shutil.move(made, tmp_path / "mine.sif")
    code, out, err = end(prepare(str(tmp_path / "mine.sif")))
    assert code == 0 and out.startswith(str(tmp_path / "mine.sif")), err
    content = archive.read_bytes()
    archive.write_bytes(content[: len(content) // 2])
    code, _, err = end(prepare(str(archive), "--runtime", "docker"))
    assert code == 4 and "is corrupt" in last_line(err)
    code, _, err = end(prepare(str(tmp_path / "mine.sif"), "--runtime", "docker"))
    assert code == 2 and "docker cannot start" in last_line(err)
    code, _, err = end(prepare(str(tmp_path / "none.sif")))
    assert code == 2 and "image file" in last_line(err) and "does not exist" in last_line(err)


@pytest.mark.parametrize("tool", TOOLS)
def test_an_image_without_python_is_named(
    tool: str, prepare: Prepare, images: dict[str, str], daemons: Daemons
) -> None:
    reference = f"{daemons.registry}/ci/bare:1"
    assert end(prepare(reference, "--runtime", tool))[0] == 0, "importing starts nothing"
    for _ in range(2):
        code, _, err = end(prepare(reference, "--runtime", tool, "--check"))
        assert code == 2 and last_line(err) == (
            f"llmbx: the image {reference} has no python3 on its PATH, which llmbx needs to start programs"
        )
    forget(daemons, reference)


def test_a_daemon_that_does_not_run_and_a_tool_that_is_missing(
    prepare: Prepare, install: Path, daemons: Daemons, tmp_path: Path
) -> None:
    code, _, err = end(prepare("a/b:1", "--runtime", "docker", env={"DOCKER_HOST": f"unix://{tmp_path}/none.sock"}))
    assert code == 4 and "the Docker daemon is not running" in last_line(err)
    for tool in ("apptainer", "enroot", "docker"):
        code, _, err = end(prepare("a/b:1", "--runtime", tool, env={"PATH": str(tmp_path)}))
        assert code == 4 and "on PATH" in last_line(err)
    nothing_left(install, daemons)


def test_a_warm_image_is_found_without_a_program(
    tool_env: dict[str, str], images: dict[str, str], install: Path, daemons: Daemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the container tool nor the image is started again, which would take a second and more."""
    request = ImageRequest(reference=f"{daemons.registry}/ci/tiny:1")

    def start(*arguments: object, **_: object) -> None:
        raise AssertionError(f"a program is started: {arguments}")

    for runtime in (ApptainerRuntime(), DockerRuntime()):
        first = runtime.look_inside(runtime.prepare(request, install, lambda line: None), install)
        assert first.digest == images["ci/tiny:1"] and first.versions["python"].startswith("3.")
        with monkeypatch.context() as context:
            context.setattr(subprocess, "Popen", start)
            assert runtime.look_inside(runtime.prepare(request, install, lambda line: None), install) == first
    forget(daemons, request.reference or "")
