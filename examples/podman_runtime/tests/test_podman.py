import io
import itertools
import json
import tarfile
from pathlib import Path

import pytest
from llmbx_podman import store
from llmbx_podman.runtime import PodmanRuntime

from llmbx.api import Image, ImageRequest, InfraError, Launch, Phase, UsageError
from llmbx.testing import CHECKS, assert_conforms, sample_spec

IDENTITY = "ad" * 32
MINE, OTHERS = (f"sha256:{letter * 64}" for letter in "ab")
IMAGE = Image(kind="podman", reference="localhost/train:1", python="python3")
FOLDER = Path("/runs/1")
PODMAN = f"""#!/bin/sh
echo "$@" >> "$0.log"
case "$*" in
  "image exists"*) [ -e "$0.has" ];;
  load*|pull*) touch "$0.has";;
  "image inspect"*) echo '[{{"Id": "{IDENTITY}", "Digest": "{MINE}", "RepoDigests": ["localhost/train@{MINE}"]}}]';;
  run*) echo 'Error: runc: exec: "python3": executable file not found in $PATH' >&2; exit 127;;
esac
"""


@pytest.mark.parametrize("check", CHECKS)
def test_it_conforms(check):
    assert_conforms("podman", check)


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """`calls()`: the commands that a stand-in for Podman has got."""
    program = tmp_path / "bin" / "podman"
    program.parent.mkdir()
    program.write_text(PODMAN)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return lambda: [line.split()[0] for line in program.with_suffix(".log").read_text().splitlines()]


def archive(folder, *images):
    path, content = folder / "image.tar", json.dumps([{"Config": f"{image}.json"} for image in images]).encode()
    with tarfile.open(path, "w") as tar:
        entry = tarfile.TarInfo("manifest.json")
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    return str(path)


def prepare(reference, **more):
    return PodmanRuntime().prepare(ImageRequest(reference=reference, **more), Path("/install"), lambda line: None)


def test_an_archive_is_loaded_once(tmp_path, calls):
    for _ in range(2):
        image = prepare(archive(tmp_path, IDENTITY))
        assert (image.reference, image.digest) == (IDENTITY, MINE)
    assert calls().count("load") == 1


def test_files_that_are_not_one_image_are_refused(tmp_path, calls):
    (tmp_path / "text.tar").write_text("text")
    for path, why in (
        (archive(tmp_path, IDENTITY, "b" * 64), "contains 2 images"),
        (str(tmp_path / "text.tar"), "is not a Docker archive"),
        (str(tmp_path / "gone.tar"), "does not exist"),
    ):
        with pytest.raises(UsageError, match=why):
            prepare(path)


def test_an_image_is_pulled_once_and_its_digest_checked(calls):
    for _ in range(2):
        assert prepare("registry.example#team/train:1", digest=MINE).reference == "registry.example/team/train:1"
    assert calls().count("pull") == 1
    with pytest.raises(InfraError, match=f"pinned to {OTHERS}, but it is {MINE}"):
        prepare("registry.example#team/train:1", digest=OTHERS)


def test_offline_nothing_is_pulled(calls):
    request = ImageRequest(reference="python:3.12")
    with pytest.raises(InfraError, match=r"does not have docker\.io/library/python:3\.12 and --offline"):
        PodmanRuntime().prepare(request, Path("/install"), lambda line: None, offline=True)
    assert "pull" not in calls()


def test_an_image_without_python_is_refused(calls):
    with pytest.raises(UsageError, match="the image localhost/train:1 has no python3"):
        PodmanRuntime().look_inside(IMAGE, Path("/install"))


def test_without_podman_one_line_says_so(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InfraError, match=r"^runtime podman: podman is not on PATH$"):
        prepare("python:3.12")
    assert PodmanRuntime().check(Path("/install")).warning


def test_variables_are_passed_by_name_and_options_come_before_the_image(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "very_secret")
    phase = Phase(role="train", argv=("python3", "train.py"), forward=("HF_TOKEN",))
    launch = Launch(nodes=1, ranks_per_node=2, gpus_per_rank=1, phases=(phase,))
    spec = sample_spec(env={"NCCL_DEBUG": "very_loud"}, plugin_settings={"podman": {"options": "--memory 64g"}})
    argv = PodmanRuntime().wrap(spec, launch, phase, IMAGE, FOLDER).argv
    assert "very_" not in " ".join(argv)
    words = list(itertools.pairwise(argv))
    for pair in (
        ("--env", "HF_TOKEN"),
        ("--env", "NCCL_DEBUG"),
        ("--volume", f"{FOLDER}:{FOLDER}"),
        ("--memory", "64g"),
    ):
        assert words.index(pair) < argv.index(IMAGE.reference)


def test_an_option_with_an_open_quote_is_refused():
    phase = Phase(role="train", argv=("python3",))
    launch = Launch(nodes=1, ranks_per_node=1, gpus_per_rank=0, phases=(phase,))
    spec = sample_spec(plugin_settings={"podman": {"options": "--label 'a"}})
    with pytest.raises(UsageError, match="No closing quotation"):
        PodmanRuntime().wrap(spec, launch, phase, IMAGE, FOLDER)


@pytest.mark.parametrize(
    ("typed", "full"),
    [
        ("docker://python:3.12", "docker.io/library/python:3.12"),
        ("team/train:1", "docker.io/team/train:1"),
        ("registry.example#team/train:1", "registry.example/team/train:1"),
        ("localhost/train:1", "localhost/train:1"),
    ],
)
def test_names_are_complete(typed, full):
    assert store.full_name(typed) == full
