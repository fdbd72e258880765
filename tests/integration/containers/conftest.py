"""One Docker daemon, one registry with a few tiny images, and Apptainer, for the tests of this folder."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ..slurm import cluster
from . import tools
from .proxy import Proxy

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def daemons() -> Iterator[tools.Daemons]:
    """The tools, running; the variables by which they are found are set for as long as the tests run."""
    if why := tools.why_not():
        if os.environ.get("CI"):
            pytest.fail(f"{why}; CI must run them")
        pytest.skip(why)
    prefix = Path(os.environ.get("LLMBX_TEST_ROOT", ROOT / ".test")) / "apptainer"
    tools.install(prefix)
    with tempfile.TemporaryDirectory(prefix="llmbx-containers-") as folder:
        running = tools.Daemons(Path(folder), prefix)
        try:
            running.start()
            yield running
        finally:
            running.stop_all()


@pytest.fixture(scope="session")
def images(daemons: tools.Daemons, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Digests by name in the registry: `ci/tiny:1` and `ci/tiny:2` (Python), `ci/bare:1` (no Python)."""
    folder = tmp_path_factory.mktemp("roots")
    bare = tools.make_root(folder / "bare", python=False)
    tiny = tools.make_root(folder / "tiny")
    first = daemons.push(tiny, "ci/tiny:1")
    (tiny / "etc/second").touch()
    return {
        "ci/tiny:1": first,
        "ci/tiny:2": daemons.push(tiny, "ci/tiny:2"),
        "ci/bare:1": daemons.push(bare, "ci/bare:1"),
    }


@pytest.fixture
def tool_env(daemons: tools.Daemons, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """The tools' variables, set in this process too; imports fail fast, and enroot knows no layer yet."""
    quick = {"LLMBX_IMAGE_RETRIES": "2", "LLMBX_IMAGE_BACKOFF_S": "0.1", "LLMBX_REGISTRY_TIMEOUT_S": "5"}
    env = {**daemons.environment, **quick, "APPTAINER_MKSQUASHFS_ARGS": "-noI -noD -noF -noX"}
    env["ENROOT_CACHE_PATH"] = str(tmp_path / "layers")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return env


@pytest.fixture
def proxy(daemons: tools.Daemons) -> Iterator[Proxy]:
    """A stand-in in front of the registry, without a fault yet."""
    server = Proxy(daemons.port)
    yield server
    server.shutdown()
    server.server_close()


Prepare = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def prepare(tool_env: dict[str, str], install: Path) -> Iterator[Prepare]:
    """`prepare(reference, "--runtime", "apptainer", …)`: `llmbx image prepare`, started and not waited for."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, env: dict[str, str] | None = None, inside: str = "") -> subprocess.Popen[str]:
        argv = [str(Path(sys.executable).with_name("llmbx")), "image", "prepare", *arguments]
        if inside:
            argv = ["unshare", "-m", "sh", "-c", f'{inside} && exec "$@"', "sh", *argv]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LLMB", "SLURM", "SBATCH"))}
        environ = {**kept, "LLMB_INSTALL": str(install), "LLMBX_CONFIG": "/dev/null", **tool_env, **(env or {})}
        process = subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def slurm() -> Iterator[cluster.Cluster]:
    """A Slurm of two nodes, which only those see that get its `SLURM_CONF`."""
    if why := cluster.install():
        if os.environ.get("CI"):
            pytest.fail(f"{why}; CI must run it")
        pytest.skip(why)
    with tempfile.TemporaryDirectory(prefix="llmbx-slurm-") as folder:
        private = cluster.Cluster(Path(folder), nodes=2, first_job=2301)
        try:
            private.start()
            yield private
        finally:
            private.stop()


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """A container that one test leaves behind fails that test alone: it is gone before the next one."""
    yield
    if "daemons" in request.fixturenames:
        daemons: tools.Daemons = request.getfixturevalue("daemons")
        for name in daemons.docker("ps", "--all", "--quiet").stdout.split():
            daemons.docker("rm", "--force", name, check=False)
