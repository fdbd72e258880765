"""What integration tests share: the command as a user types it, and one install with the frameworks' environments."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from llmbx.model import Image, ImageRequest
from llmbx_environments.venv.runtime import VenvRuntime

SCHEMA = resources.files("llmbx") / "data/result.schema.json"

ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).with_name("llmbx")
Llmbx = Callable[..., subprocess.CompletedProcess[str]]


LONGEST = (
    "test_maxtext_entry", "test_real_faults", "test_nemo", "test_nemo2", "test_built_images", "test_nemo_versions",
    "test_nemo_entry", "test_sweep", "test_import", "test_tutorials",
)  # fmt: skip
"""Modules that are begun first, so that the last test process does not end long after the others."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest modules first; the rest keeps its order."""
    order = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark an integration test."""
    item.add_marker(pytest.mark.integration)


CUDA_BUILDS = {"LLMBX_ALLOW_CUDA_BUILD": "1"}
"""On a machine that cannot reach the index of CPU builds, the frameworks are tested with their CUDA builds."""


def prepared(request: ImageRequest, install: Path) -> Image:
    """The environment of a framework, built if needed."""
    allowed = request.replace(plugin_settings={"venv": {"allow_cuda_build": True}})
    return VenvRuntime().prepare(allowed, install, print)


def clean_environment(install: Path, **extra: str) -> dict[str, str]:
    """This process's environment without anything that changes what llmbx does, and with this install.

    An install with the frameworks' environments may build them with CUDA builds.
    """
    dropped = (
        "LLMB",
        "GPU_TYPE",
        "DTYPE",
        "MODEL_SIZE",
        "JOB_",
        "ENABLE_",
        "SBATCH",
        "SLURM",
        "HF_TOKEN",
        "STAGE_PATH",
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    allowed = CUDA_BUILDS if (install / "venvs").is_symlink() else {}
    return {**kept, "LLMB_INSTALL": str(install), "LLMBX_CONFIG": "/dev/null", **allowed, **extra}


@pytest.fixture
def install(tmp_path: Path) -> Path:
    """An install of this test's own."""
    return tmp_path / "install"


@pytest.fixture(scope="session")
def shared_install() -> Path:
    """One install for all trainings with a real framework: each environment is built once.

    Test processes that run side by side have runs of their own and share what is built.
    """
    root = Path(os.environ.get("LLMBX_TEST_ROOT", ROOT / ".test"))
    folder = root / f"install{os.environ.get('PYTEST_XDIST_WORKER', '')}"
    folder.mkdir(parents=True, exist_ok=True)
    for built in ("venvs", "cache"):
        (root / built).mkdir(exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (folder / built).symlink_to(root / built)
    return folder


@pytest.fixture
def llmbx(install: Path) -> Llmbx:
    """`llmbx("run", "line", install=…, env=…)`: the installed command, as a user types it; its output is text."""

    def call(
        *arguments: str,
        env: Mapping[str, str] = {},
        install: Path = install,
        cwd: Path | None = None,
        timeout: float = 600,
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [COMMAND, *arguments], env=clean_environment(install, **env), cwd=cwd, capture_output=True, text=True,
            timeout=timeout, check=False,
        )  # fmt: skip

    return call


@pytest.fixture
def background(install: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """`background("run", "line")`: the command started, not waited for; ended with the test if it still runs."""
    started: list[subprocess.Popen[str]] = []

    def begin(
        *arguments: str, env: Mapping[str, str] = {}, install: Path = install, cwd: Path | None = None
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [COMMAND, *arguments], env=clean_environment(install, **env), cwd=cwd, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def only_run(install: Path) -> Callable[..., Path]:
    """`only_run()`: the folder of the one run in the install."""

    def find(install: Path = install) -> Path:
        (record,) = install.glob("workloads/*/experiments/*/*/*/run.json")
        return record.parent

    return find


def files_of(output: str) -> Path:
    """The folder of a run that `llmbx run` names in its last lines, if need be as a pattern for a shell."""
    named = re.search(r"^  files +(\S+)$", output, re.MULTILINE)
    assert named, output
    pattern = Path(named[1]).expanduser()
    (folder,) = Path("/").glob(str(pattern.relative_to("/")))
    return folder


@pytest.fixture
def read_result() -> Callable[[Path], dict[str, Any]]:
    """`read_result(folder)`: result.json, checked against the schema that ships with the package."""

    def read(folder: Path) -> dict[str, Any]:
        result: dict[str, Any] = json.loads((folder / "result.json").read_text())
        jsonschema.validate(result, json.loads(SCHEMA.read_bytes()))
        return result

    return read
