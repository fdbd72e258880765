"""The commands that wrap a rank in a container: golden files, and tests that variables and mounts are passed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmbx.errors import UsageError
from llmbx.model import Image, ImageRequest, Launch, RunSpec, Wrapping
from llmbx.runtimes import container_env
from llmbx.runtimes.base import Runtime
from llmbx.runtimes.host import HostRuntime
from llmbx_environments.containers.runtimes.apptainer import ApptainerRuntime
from llmbx_environments.containers.runtimes.docker import DockerRuntime
from llmbx_environments.containers.runtimes.enroot import EnrootRuntime
from llmbx_environments.containers.runtimes.pyxis import _REMOVE, PyxisRuntime
from llmbx_environments.venv.runtime import VenvRuntime

from ....golden import Golden

RUN = Path("/install/workloads/pretrain_toy/experiments/x/x_1/x")
INSTALL = Path("/install")
REQUEST = ImageRequest(reference="nvcr.io#nvidia/nemo:25.04.01")
TOOLS: dict[str, Any] = {
    "docker": DockerRuntime(),
    "apptainer": ApptainerRuntime("apptainer"),
    "enroot": EnrootRuntime(),
    "pyxis": PyxisRuntime(),
}
MakeSpec = Callable[..., RunSpec]
MakeLaunch = Callable[..., Launch]


def text_of(wrapping: Wrapping) -> str:
    parts = [f"argv: {part}" for part in wrapping.argv] + [f"srun: {flag}" for flag in wrapping.launcher_flags]
    return "\n".join([*parts, *(f"host: {k}={v}" for k, v in wrapping.host_env.items())]) + "\n"


def wrap(tool: str, spec: RunSpec, launch: Launch) -> Wrapping:
    runtime = TOOLS[tool]
    wrapping = runtime.wrap(spec, launch, launch.phases[0], runtime.plan(REQUEST, INSTALL), RUN)
    assert isinstance(wrapping, Wrapping)
    return wrapping


@pytest.mark.parametrize("gpus", [0, 1])
@pytest.mark.parametrize("tool", TOOLS)
def test_the_command_of_a_rank(
    tool: str,
    gpus: int,
    make_spec: MakeSpec,
    make_launch: MakeLaunch,
    golden: Golden,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(os, "getgid", lambda: 1001)
    texts = {
        f"wrap-{tool}-{count}gpu.txt": text_of(wrap(tool, make_spec(), make_launch(count, HF_HOME="/cache/hf")))
        for count in (0, 1)
    }
    whole, name = f"wrap-{tool}-0gpu.txt", f"wrap-{tool}-{gpus}gpu.txt"
    golden(name, texts[name], like={} if name == whole else {whole: texts[whole]})


@pytest.mark.parametrize("tool", TOOLS)
def test_no_value_of_a_variable_is_ever_in_the_command(
    tool: str, make_spec: MakeSpec, make_launch: MakeLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_very_secret")
    rendered = text_of(wrap(tool, make_spec(env={"API_KEY": "key_very_secret"}), make_launch(1)))
    assert "very_secret" not in rendered
    assert "HF_TOKEN" in rendered and "API_KEY" in rendered


@pytest.mark.parametrize("runtime", [VenvRuntime(), HostRuntime()], ids=lambda runtime: runtime.name)
def test_without_a_container_nothing_goes_in_front(
    runtime: Runtime, make_spec: MakeSpec, make_launch: MakeLaunch
) -> None:
    launch = make_launch()
    found = runtime.wrap(make_spec(), launch, launch.phases[0], Image(kind="host", reference="", python=""), RUN)
    assert found == Wrapping(host_env={"PYTHONDONTWRITEBYTECODE": ""} if runtime.name == "venv" else {})


def test_the_users_own_word_on_bytecode_stands(make_spec: MakeSpec, make_launch: MakeLaunch) -> None:
    launch = make_launch()
    spec = make_spec(env={"PYTHONDONTWRITEBYTECODE": "1"})
    image = Image(kind="venv", reference="", python="")
    assert VenvRuntime().wrap(spec, launch, launch.phases[0], image, RUN) == Wrapping()


FAKE = """#!/bin/sh
printf '%s\\n' "$@"
echo =====
env
"""


@pytest.mark.parametrize("tool", ["apptainer", "enroot"])
def test_variables_are_handed_over_by_name_and_only_those_that_are_set(
    tool: str, tmp_path: Path, make_spec: MakeSpec, make_launch: MakeLaunch
) -> None:
    (tmp_path / tool).write_text(FAKE)
    (tmp_path / tool).chmod(0o755)
    odd = "a 'b' \"c\" $HOME `x` \\ *"
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "TOY_MODE": odd, "HF_TOKEN": "t", "SLURM_PROCID": "3", "EMPTY": ""}
    wrapping = wrap(tool, make_spec(env={"EMPTY": ""}), make_launch())
    argv = [*wrapping.argv, "/bin/sh", "x.sh", "a b"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    arguments, _, seen = done.stdout.partition("=====\n")
    assert arguments.splitlines()[-3:] == ["/bin/sh", "x.sh", "a b"]
    if tool == "apptainer":
        assert f"APPTAINERENV_TOY_MODE={odd}\n" in seen
        assert "APPTAINERENV_SLURM_PROCID=3\n" in seen and "APPTAINERENV_EMPTY=\n" in seen
        assert "APPTAINERENV_CUDA_VISIBLE_DEVICES" not in seen
    else:
        assert "--env\nTOY_MODE\n" in arguments and "--env\nEMPTY\n" in arguments
        assert "CUDA_VISIBLE_DEVICES" not in arguments, "an empty one would hide every GPU"


FAKE_ENROOT = """#!{python}
# emulates how enroot 4.1.2 passes variables: a file with one variable per line, from which quotes are stripped
import os, re, sys
arguments, kept = sys.argv[2:], {{"PATH": "/usr/bin:/bin"}}
while arguments[0].startswith("--"):
    flag = arguments.pop(0)
    if flag == "--env":
        name = arguments.pop(0)
        for line in f"{{name}}={{os.environ[name]}}".splitlines():
            if found := re.fullmatch(r"([A-Za-z_]\\w*)=(.*)", line):
                kept[found[1]] = re.sub(r"^[\\x22\\x27](.*)[\\x22\\x27]\\s*$", r"\\1", found[2])
    elif flag == "--mount":
        arguments.pop(0)
os.execve(arguments[1], arguments[1:], kept)
"""


def test_values_that_enroot_would_cut_arrive_whole(
    tmp_path: Path, make_spec: MakeSpec, make_launch: MakeLaunch
) -> None:
    (tmp_path / "enroot").write_text(FAKE_ENROOT.format(python=sys.executable))
    (tmp_path / "enroot").chmod(0o755)
    values = {
        "LINES": "one\nPLAIN=2 50% \\n #\n", "QUOTED": '"it"', "PLAIN": "1", "ONE": "'", "UML": "\n\u00fc", "EMPTY": "",
    }  # fmt: skip
    wrapping = wrap("enroot", make_spec(env=dict.fromkeys(values, "")), make_launch())
    argv = [*wrapping.argv, "/bin/sh", "-c", "env -0"]
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", **values}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    seen = dict(line.split("=", 1) for line in done.stdout.split("\0") if line)
    assert {name: seen.get(name) for name in values} == values
    assert not [name for name in seen if name.startswith("LLMBX_ENCODED")]


@pytest.mark.parametrize(("tool", "flag"), [("docker", "--gpus"), ("apptainer", "--nv")])
def test_cpu_runs_do_not_request_gpus(tool: str, flag: str, make_spec: MakeSpec, make_launch: MakeLaunch) -> None:
    assert flag in wrap(tool, make_spec(), make_launch(1)).argv
    assert flag not in wrap(tool, make_spec(gpu_type="cpu"), make_launch(1)).argv


def test_singularity_gets_its_own_prefix(make_spec: MakeSpec, make_launch: MakeLaunch) -> None:
    launch = make_launch()
    runtime = ApptainerRuntime("singularity")
    wrapping = runtime.wrap(make_spec(), launch, launch.phases[0], runtime.plan(REQUEST, INSTALL), RUN)
    assert "SINGULARITYENV_$n" in wrapping.argv[2]
    assert wrapping.argv[4] == "singularity"


@pytest.mark.parametrize(
    ("text", "source", "target", "read_only"),
    [
        ("/a", "/a", None, False),
        ("/a:/b", "/a", "/b", False),
        ("/a:ro", "/a", None, True),
        ("/a:/b:rw", "/a", "/b", False),
    ],
)
def test_a_users_mount_is_read(text: str, source: str, target: str | None, read_only: bool) -> None:
    mount = container_env.parse_mount(text)
    assert (mount.source, mount.target, mount.read_only) == (source, target, read_only)


@pytest.mark.parametrize("text", ["a:/b", "/a:/b:/c", "/a:/b:x", "", "/a:b:ro"])
def test_an_invalid_mount_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected SOURCE"):
        container_env.parse_mount(text)


@pytest.mark.parametrize(("tool", "folder"), [("apptainer", "/a,b"), ("docker", "/a:b"), ("enroot", "/a b")])
def test_a_folder_that_the_tool_cannot_name_is_refused(
    tool: str, folder: str, make_spec: MakeSpec, make_launch: MakeLaunch
) -> None:
    runtime, launch = TOOLS[tool], make_launch()
    with pytest.raises(UsageError, match="cannot be mounted: its path contains"):
        runtime.wrap(make_spec(), launch, launch.phases[0], runtime.plan(REQUEST, INSTALL), Path(folder))


def test_without_an_image_a_container_runtime_says_so() -> None:
    for runtime in TOOLS.values():
        with pytest.raises(UsageError, match="has no container image"):
            runtime.plan(ImageRequest(), INSTALL)


def test_containers_of_ended_jobs_are_removed_and_those_of_others_are_not(tmp_path: Path) -> None:
    """A job that is cancelled leaves its container; the next one of llmbx on that node removes it."""
    names = ("pyxis_llmbx-7-0", "pyxis_llmbx-8-0", "pyxis_llmbx-9-0", "pyxis_llmbx-10-0", "pyxis_mine")
    squeue = 'case $* in *jobs=8\\ *) echo 8;; *jobs=9\\ *) echo "Invalid job id specified" >&2; exit 1;;'
    squeue += ' *jobs=10\\ *) echo "Unable to contact slurm controller" >&2; exit 1;; esac\n'
    enroot = 'case $1 in list) cat "$PLACE/list";; remove) echo "$3" >> "$PLACE/removed";; esac\n'
    (tmp_path / "list").write_text("\n".join(names) + "\n")
    for name, body in (("squeue", squeue), ("enroot", enroot)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}")
        (tmp_path / name).chmod(0o755)
    argv = (*_REMOVE[:-1], "pyxis_llmbx-11-0")
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PLACE": str(tmp_path)}
    subprocess.run(argv, env=environment, check=True, stdin=subprocess.DEVNULL)
    assert (tmp_path / "removed").read_text().split() == ["pyxis_llmbx-11-0", "pyxis_llmbx-7-0", "pyxis_llmbx-9-0"]
