"""examples/podman_runtime: real runs in containers of Podman, from the command to the result; and nothing stays."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ...patience import PATIENCE_S, wait_until
from . import tools

EXAMPLE = Path(__file__).parents[3] / "examples/podman_runtime"
PACKAGES = {"podman": "podman", "runc": "runc", "busybox": "busybox-static"}
STORAGE = '[storage]\ndriver = "overlay"\ngraphroot = "{0}/graph"\nrunroot = "{0}/run"\n'
CONTAINERS = """\
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
"""crun of Debian 12 refuses cgroups of both versions side by side, and root may not raise limits in every container."""

Llmbx = Callable[..., subprocess.CompletedProcess[str]]
Background = Callable[..., subprocess.Popen[str]]
Result = Callable[[Path], dict[str, Any]]


class Podman:
    """Podman with a store of its own, and the Docker archive of a tiny image with Python."""

    def __init__(self, folder: Path) -> None:
        self.archive = folder / "tiny.tar"
        self._folder = folder
        (folder / "storage.conf").write_text(STORAGE.format(folder))
        (folder / "containers.conf").write_text(CONTAINERS)
        self.environment = {
            "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
            "CONTAINERS_CONF": str(folder / "containers.conf"),
            "LLMBX_PLUGINS": str(EXAMPLE),
        }
        root = tools.make_archive(tools.make_root(folder / "root"), folder / "root.tar")
        self("import", str(root), "localhost/ci/tiny:1")
        self("save", "--quiet", "--output", str(self.archive), "localhost/ci/tiny:1")
        self("image", "rm", "localhost/ci/tiny:1")

    def __call__(self, *arguments: str) -> str:
        return tools.run("podman", *arguments, env={**os.environ, **self.environment}).stdout.strip()

    def close(self) -> None:
        self("rm", "--all", "--force", "--time", "0")
        tools.run("umount", str(self._folder / "graph/overlay"), check=False)


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    if why := tools.why_not():
        if os.environ.get("CI"):
            pytest.fail(f"{why}; CI must run them")
        pytest.skip(why)
    tools.install_packages(PACKAGES)
    with tempfile.TemporaryDirectory(prefix="llmbx-podman-") as folder:
        own = Podman(Path(folder))
        try:
            yield own
        finally:
            own.close()


def test_a_run_in_a_container_of_podman(
    llmbx: Llmbx, podman: Podman, install: Path, only_run: Callable[..., Path], read_result: Result
) -> None:
    arguments = ("line", "--image", str(podman.archive), "--runtime", "podman", "--podman-options", "--pids-limit 64")
    done = llmbx("run", *arguments, "--gpus", "2", env={**podman.environment, "HF_TOKEN": "hf_very_secret"})
    assert done.returncode == 0, done.stderr
    result = read_result(only_run())
    assert (result["status"], result["runtime"], result["steps_seen"]) == ("completed", "podman", 20)
    (stored,) = json.loads(podman("image", "inspect", podman("images", "--quiet")))
    assert result["image"]["digest"] == stored["Digest"]
    assert json.loads((only_run() / "run.json").read_text())["versions"]["python"].startswith("3.")
    assert podman("ps", "--all", "--quiet") == ""
    script = (only_run() / "run.sh").read_text().replace("\\\n", "")
    script = " ".join(script.split())
    assert "--pids-limit 64" in script and "--env HF_TOKEN" in script and "hf_very_secret" not in script


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_no_container_outlives_its_run(
    end: signal.Signals, background: Background, podman: Podman, install: Path
) -> None:
    arguments = ("line", "--image", str(podman.archive), "--runtime", "podman", "--set", "fault=deaf")
    process = background("run", *arguments, env={**podman.environment, "LLMBX_STOP_GRACE_S": "1"})
    wait_until(lambda: process.poll() is not None or any(
        "toy step 10/" in log.read_text() for log in install.glob("workloads/**/log-*.out")
    ))  # fmt: skip
    (label,) = podman("ps", "--format", '{{index .Labels "org.llmbx.run"}}').splitlines()
    assert label.startswith(str(install)) and tools.trainers(install)
    process.send_signal(end)
    assert process.wait(PATIENCE_S) == (130 if end == signal.SIGINT else -end)
    wait_until(
        lambda: not podman("ps", "--all", "--quiet") and not tools.trainers(install),
        f"containers of Podman stayed: {podman('ps', '--all')}",
    )


FAILING_REMOVAL = """#!/bin/sh
[ "$1" != rm ] || [ -e {0}/failed ] || { touch {0}/failed; echo "Error: container state improper" >&2; exit 2; }
exec {1} "$@"
"""
"""Stands for a Podman that cannot remove a container while it is busy with it."""


def test_a_removal_that_fails_is_tried_again(
    background: Background, podman: Podman, install: Path, tmp_path: Path
) -> None:
    busy = tmp_path / "podman"
    busy.write_text(FAILING_REMOVAL.replace("{0}", str(tmp_path)).replace("{1}", str(shutil.which("podman"))))
    busy.chmod(0o755)
    env = {**podman.environment, "LLMBX_STOP_GRACE_S": "1", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    process = background(
        "run", "line", "--image", str(podman.archive), "--runtime", "podman", "--set", "fault=deaf", env=env
    )
    wait_until(lambda: process.poll() is not None or bool(tools.trainers(install)))
    process.kill()
    process.wait(PATIENCE_S)
    wait_until(lambda: not podman("ps", "--all", "--quiet") and not tools.trainers(install))
    assert (tmp_path / "failed").exists()


def test_an_image_without_python_is_refused(llmbx: Llmbx, podman: Podman, tmp_path: Path) -> None:
    root = tools.make_archive(tools.make_root(tmp_path / "bare", python=False), tmp_path / "bare.tar")
    podman("import", str(root), "localhost/ci/bare:1")
    done = llmbx("run", "line", "--image", "localhost/ci/bare:1", "--runtime", "podman", env=podman.environment)
    assert (done.returncode, done.stderr.splitlines()[-1].endswith("which llmbx needs to start programs")) == (2, True)


def test_the_doctor_starts_a_container(llmbx: Llmbx, podman: Podman) -> None:
    def row(**env: str) -> dict[str, str]:
        found = json.loads(llmbx("doctor", "--format", "json", env={**podman.environment, **env}).stdout)
        return next(row for row in found if (row["what"], row["name"]) == ("runtime", "podman"))

    assert row()["state"] == "ok"
    broken = row(CONTAINERS_STORAGE_CONF="/nowhere/storage.conf")
    assert broken["state"] == "broken" and "storage.conf" in broken["detail"]
