"""Images that llmbx builds: a real framework's mini trains inside one, in Docker and in Apptainer, and is profiled."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from llmbx_environments.containers.runtimes.apptainer_tool import Apptainer, version

from ..nsys.conftest import SUITES, unpacked, until_nsys_stays
from . import tools

Llmbx = Callable[..., subprocess.CompletedProcess[str]]
Result = Callable[[Path], dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Case:
    """A workload whose mini is trained, and the Debian that has a Python for its environment."""

    plugin: str
    workload: str
    suite: str
    python: str
    packages: tuple[str, ...]
    recipe: tuple[str, ...] = ()


CASES = (
    Case("nemo", "grok1", "bookworm", "3.11", ("torch", "megatron-bridge")),
    Case("maxtext", "llama2", "trixie", "3.13", ("jax", "maxtext")),
)
RECORD = os.environ.get("LLMBX_RECORD_IMAGES")
"""The file in which `make images` has the results of Apptainer recorded."""

if RECORD:  # too slow for every run of the tests
    CASES += (Case("nemo", "llama3.1", "bookworm", "3.11", ("torch", "nemo-toolkit"), ("--recipe", "nemo2-mini")),)

HEAD = """\
# Written by `make images`: the images of CPU environments that Apptainer built from cpu.Dockerfile, on a Debian with
# its own Python. In each of them the mini trained 12 steps afterwards. The lock is the environment's at that time.
"""


@pytest.fixture(scope="module", params=CASES, ids=[f"{case.plugin}-{case.workload}" for case in CASES])
def case(request: pytest.FixtureRequest) -> Case:
    """Each of the frameworks."""
    found: Case = request.param
    return found


@pytest.fixture(scope="module")
def debian(case: Case, daemons: tools.Daemons, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The case's Debian with its Python, in the registry."""
    root = tools.make_debian(tmp_path_factory.mktemp("debian") / "root", case.suite)
    daemons.push(root, f"ci/{case.suite}:1")
    shutil.rmtree(root, ignore_errors=True)
    return f"{daemons.registry}/ci/{case.suite}:1"


@pytest.fixture(scope="module")
def nsys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The nsys of this machine; no image has one."""
    return unpacked(SUITES[1], tmp_path_factory)


@pytest.fixture
def shared_venvs(install: Path, shared_install: Path, daemons: tools.Daemons) -> Iterator[None]:
    """Environments are built once for all tests; images are large, and go when the test ends."""
    install.mkdir()
    (install / "venvs").symlink_to(shared_install / "venvs")
    yield
    shutil.rmtree(install / "images", ignore_errors=True)
    for name in daemons.docker("images", "--quiet", "--filter", "label=org.llmbx.lock").stdout.split():
        daemons.docker("image", "rm", "--force", name)


@pytest.mark.parametrize("tool", ["docker", "apptainer"])
def test_the_mini_trains_inside_the_image_that_was_built_for_it(
    tool: str, case: Case, llmbx: Llmbx, tool_env: dict[str, str], debian: str, shared_venvs: None,
    only_run: Callable[..., Path], read_result: Result, nsys: Path,
) -> None:  # fmt: skip
    chosen = ("--plugin", case.plugin, case.workload, *case.recipe, "--runtime", tool)
    missing = llmbx("run", *chosen, env=tool_env)
    assert missing.returncode == 4 and "llmbx image build" in missing.stderr.splitlines()[-1]
    shutil.rmtree(only_run().parents[2])
    base = ("--base", debian, "--python", case.python)
    built = llmbx("image", "build", case.workload, *case.recipe, "--runtime", tool, *base, env=tool_env, timeout=900)
    assert built.returncode == 0, built.stderr
    done = llmbx("run", *chosen, "--steps", "12", env=tool_env)
    assert done.returncode == 0, done.stdout + done.stderr
    result = read_result(only_run())
    assert (result["status"], result["runtime"], result["steps_seen"]) == ("completed", tool, 12)
    assert result["loss"]["last"] < result["loss"]["first"]
    assert result["image"]["digest"].startswith("sha256:")
    assert {"python", *case.packages} <= set(result["versions"])
    assert result["versions"]["python"].startswith(f"{case.python}.")
    if tool == "apptainer":
        assert result["versions"]["apptainer"] == version("apptainer")
        if RECORD:
            record(Path(RECORD), Path(built.stdout.strip()), case, result)
    if case.plugin == "nemo" and not case.recipe:
        listed = json.loads(llmbx("image", "verify", "--format", "json", env=tool_env).stdout)
        assert [row["state"] for row in listed] == ["ok"]

        def profile() -> subprocess.CompletedProcess[str]:
            shutil.rmtree(only_run().parents[2])
            env = {**tool_env, "LLMBX_NSYS": str(nsys)}
            return llmbx("profile", *chosen, "--steps", "5-8", "--max-steps", "12", env=env)

        done = until_nsys_stays(profile)
        assert done.returncode == 0, done.stdout + done.stderr
        assert_profiled(only_run(), read_result)


def assert_profiled(folder: Path, read_result: Result) -> None:
    """The lent nsys recorded the asked steps and no others, and its report was finished outside."""
    result = read_result(folder)
    assert (result["status"], result["profiled"], result["steps_seen"]) == ("completed", True, 12)
    assert len(list((folder / "nsys_profile").glob("*.nsys-rep"))) == 1
    analysis = json.loads((folder / "nsys_profile/analysis.json").read_text())
    assert [step["step"] for step in analysis["steps"]] == [5, 6, 7]


def record(file: Path, image: Path, case: Case, result: dict[str, Any]) -> None:
    """Replace the line of this environment in the file of the last results."""
    labels = Apptainer("apptainer").labels(image)
    lines = [line for line in file.read_text().splitlines() if line[:1] != "#"] if file.exists() else []
    fields = (
        labels["org.llmbx.environment"], f"lock {labels['org.llmbx.lock']}", f"Debian {case.suite}",
        f"Python {result['versions']['python']}", f"Apptainer {result['versions']['apptainer']}",
        f"{datetime.date.today()}", result["image"]["digest"],
    )  # fmt: skip
    kept = [line for line in lines if line.split(",")[0] != fields[0]]
    file.write_text(HEAD + "\n".join(sorted([*kept, ", ".join(fields)])) + "\n")
