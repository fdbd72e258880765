"""The image of a recipe with nsys, built by Docker and by Apptainer from one Dockerfile, on a small base.

The base has stand-ins of apt-get, dpkg and curl, which write down their calls: NVIDIA's repository cannot be reached
from every machine. All else is real.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx_environments.containers.runtimes.apptainer_tool import Apptainer

from . import tools

Llmbx = Callable[..., subprocess.CompletedProcess[str]]

WORKLOAD = ("grok1", "--gpu-type", "h100", "--gpus", "512")
IMAGE = "localhost/llmbx/nemo:25.04.00"
SIF = "llmbx+nemo+25.04.00.sif"
LIST = "/etc/apt/sources.list.d/nvidia-devtools.list"
REPOSITORY = "https://developer.download.nvidia.com/devtools/repos/ubuntu2404/arm64"
PROGRAMS = {
    "apt-get": f'echo "apt-get $* with $(cat {LIST} 2> /dev/null)" >> /calls\n'
    "case $* in *nsight-systems-cli) printf '#!/bin/sh\\n' > /bin/nsys; chmod 755 /bin/nsys ;; esac",
    "dpkg": "echo arm64",
    "curl": 'echo "curl $*" >> /calls; : > "$3"',
}


@pytest.fixture(scope="module")
def base(daemons: tools.Daemons, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An Ubuntu for aarch64 as far as the Dockerfile looks, without nsys, in the registry."""
    root = tools.make_root(tmp_path_factory.mktemp("base") / "root", python=False)
    (root / "etc/os-release").write_text('ID=ubuntu\nVERSION_ID="24.04"\n')
    for folder in (Path(LIST).parent, Path("/usr/share/keyrings")):
        (root / folder.relative_to("/")).mkdir(parents=True)
    (root / "bin/sh").unlink()  # busybox's shell runs its own dpkg
    shutil.copy("/bin/dash", root / "bin/sh")
    tools.add_libraries(root, Path("/bin/dash"))
    for name, script in PROGRAMS.items():
        (root / "bin" / name).unlink(missing_ok=True)
        (root / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (root / "bin" / name).chmod(0o755)
    daemons.push(root, "ci/apt:1")
    return f"{daemons.registry}/ci/apt:1"


@pytest.fixture
def capable(tool_env: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """The tools' variables, with an Apptainer that has every capability."""
    wrapper = tmp_path / "bin/apptainer"
    wrapper.parent.mkdir()
    real = shutil.which("apptainer", path=tool_env["PATH"])
    program = Path(__file__).with_name("every_capability.py")
    wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} {program} {real} "$@"\n')
    wrapper.chmod(0o755)
    return {**tool_env, "PATH": f"{wrapper.parent}:{tool_env['PATH']}"}


def inside(tool: str, install: Path, daemons: tools.Daemons) -> Callable[..., str]:
    """Runs a command in the built image, and returns what it prints."""
    start = (
        ("docker", "run", "--rm", "--network", "none", IMAGE)
        if tool == "docker"
        else ("apptainer", "--quiet", "exec", "--no-home", str(install / "images" / SIF))
    )
    return lambda *argv: tools.run(*start, *argv, env={**daemons.environment}).stdout


@pytest.mark.parametrize("tool", ["docker", "apptainer"])
def test_nsys_is_installed_from_its_repository_unless_the_image_has_it(
    tool: str, llmbx: Llmbx, capable: dict[str, str], base: str, install: Path, daemons: tools.Daemons
) -> None:
    build = ("image", "build", *WORKLOAD, "--runtime", tool)
    done = llmbx(*build, "--base", base, env=capable)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == (IMAGE if tool == "docker" else str(install / "images" / SIF))
    run = inside(tool, install, daemons)
    listed = f"deb [signed-by=/usr/share/keyrings/nvidia-devtools.asc] {REPOSITORY}/ /"
    calls = [
        "apt-get update with ",
        "apt-get install -y --no-install-recommends ca-certificates curl with ",
        f"curl -fsSL -o /usr/share/keyrings/nvidia-devtools.asc {REPOSITORY}/nvidia.pub",
        f"apt-get update with {listed}",
        f"apt-get install -y --no-install-recommends nsight-systems-cli with {listed}",
    ]
    assert run("cat", "/calls").splitlines() == calls
    assert labels(tool, install, daemons)["org.llmbx.base"] == base

    again = llmbx(*build, "--base", IMAGE if tool == "docker" else str(install / "images" / SIF), env=capable)
    assert again.returncode == 0, again.stderr
    assert run("cat", "/calls").splitlines() == calls, "it has nsys by now"
    for name in daemons.docker("images", "--quiet", "--filter", "label=org.llmbx.base").stdout.split():
        daemons.docker("image", "rm", "--force", name)


def labels(tool: str, install: Path, daemons: tools.Daemons) -> dict[str, str]:
    if tool == "apptainer":
        return Apptainer("apptainer").labels(install / "images" / SIF)
    found: dict[str, str] = json.loads(daemons.docker("inspect", "--format", "{{json .Config.Labels}}", IMAGE).stdout)
    return found


def test_a_build_that_fails_says_why(
    llmbx: Llmbx, capable: dict[str, str], daemons: tools.Daemons, install: Path
) -> None:
    build = ("image", "build", *WORKLOAD, "--runtime", "apptainer", "--base", f"{daemons.registry}/ci/nothing:1")
    done = llmbx(*build, env=capable)
    assert done.returncode == 4 and "manifest unknown" in done.stderr.strip().splitlines()[-1], done.stderr
    assert list((install / "images").glob("*")) == []


def test_a_copied_image_file_is_listed_with_the_image_that_it_was_made_from(
    llmbx: Llmbx, tool_env: dict[str, str], images: dict[str, str], daemons: tools.Daemons, install: Path
) -> None:
    (install / "images").mkdir(parents=True)
    source = f"{daemons.registry}/ci/bare:1"
    env = {**daemons.environment, "APPTAINER_CACHEDIR": str(install / "cache")}
    tools.run("apptainer", "build", "--no-https", str(install / "images/mine.sif"), f"docker://{source}", env=env)
    (row,) = json.loads(llmbx("image", "list", "--format", "json", env=tool_env).stdout)
    assert (row["name"], row["state"], row["reference"]) == ("mine.sif", "not verified", source)
