"""Selection of the runtime, and the reported reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from llmbx.errors import InfraError, UsageError
from llmbx.launchers.local import LocalLauncher
from llmbx.model import Environment, ImageRequest, ImageSource, RunSpec
from llmbx.runtimes.host import HostRuntime
from llmbx.runtimes.select import choose_runtime
from llmbx_environments.containers.runtimes.apptainer import ApptainerRuntime
from llmbx_environments.containers.runtimes.docker import DockerRuntime
from llmbx_environments.containers.runtimes.enroot import EnrootRuntime
from llmbx_environments.containers.runtimes.pyxis import PyxisRuntime
from llmbx_environments.venv.runtime import VenvRuntime
from llmbx_slurm.launcher import SlurmLauncher

LOCAL, SLURM = LocalLauncher(), SlurmLauncher()
ENVIRONMENT = Environment(name="toy", pythons=("3.11",), steps=())
BOTH = ImageRequest(environment=ENVIRONMENT, reference="nvcr.io#nvidia/nemo:1")
MakeSpec = Callable[..., RunSpec]


def runtimes(*working: str) -> Any:
    """All runtimes, of which only those in `working` are available."""
    tools: list[Any] = [VenvRuntime(), HostRuntime(), DockerRuntime(), ApptainerRuntime(), EnrootRuntime()]
    found = {tool.name: tool for tool in [*tools, PyxisRuntime()]}
    for name, tool in found.items():
        tool.available = lambda name=name: None if name in working else "not here"
    return found


@pytest.fixture(autouse=True)
def outside_an_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLMBX_PYTHON", raising=False)


@pytest.mark.parametrize(
    ("gpu_type", "launcher", "request_", "working", "name", "why"),
    [
        ("cpu", LOCAL, BOTH, ("venv", "docker"), "venv", "auto: a run without GPUs needs no container"),
        ("h100", LOCAL, BOTH, ("venv", "docker"), "docker", "auto: docker is the first available container tool"),
        ("h100", LOCAL, BOTH, ("venv", "docker", "apptainer"), "apptainer", "auto: apptainer is the first"),
        ("h100", SLURM, BOTH, ("venv", "enroot", "pyxis"), "pyxis", "auto: pyxis is the first"),
        ("h100", LOCAL, BOTH, ("venv", "enroot", "pyxis"), "enroot", "auto: enroot is the first"),
        ("h100", LOCAL, BOTH, ("venv",), "venv", "auto: no container tool is available"),
        ("cpu", LOCAL, ImageRequest(reference="x"), ("venv", "docker"), "docker", "auto: docker is the first"),
    ],
)
def test_auto_takes_what_works_here_and_says_why(
    gpu_type: str,
    launcher: Any,
    request_: ImageRequest,
    working: tuple[str, ...],
    name: str,
    why: str,
    make_spec: MakeSpec,
) -> None:
    chosen, reason = choose_runtime(make_spec(gpu_type=gpu_type), request_, launcher, runtimes(*working))
    assert chosen == name
    assert reason.startswith(why)


def test_a_named_one_is_taken_even_where_it_does_not_work_here(make_spec: MakeSpec) -> None:
    spec = make_spec(runtime="pyxis", origins={"runtime": "cluster profile alps"})
    assert choose_runtime(spec, BOTH, SLURM, runtimes("venv")) == ("pyxis", "cluster profile alps")


def test_the_host_is_taken_where_its_python_is_named(make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMBX_PYTHON", "/opt/venv/bin/python")
    assert choose_runtime(make_spec(), BOTH, LOCAL, runtimes("host", "venv", "docker"))[0] == "host"


def test_an_image_that_was_asked_for_is_never_ignored(make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMBX_PYTHON", "/opt/venv/bin/python")
    image = ImageSource(reference="my/app:1", source="--image")
    spec, everything = make_spec(gpu_type="cpu", image=image), ("host", "venv", "docker")
    assert choose_runtime(spec, BOTH, LOCAL, runtimes(*everything))[0] == "docker"
    with pytest.raises(InfraError, match=r"no container tool works here for --image my/app:1 \(enroot: not here; appt"):
        choose_runtime(spec, BOTH, LOCAL, runtimes("host", "venv"))
    assert choose_runtime(spec, BOTH, LOCAL, runtimes("host", "venv"), preview=True)[0] == "enroot"
    with pytest.raises(
        UsageError, match=r"runtime venv \(--runtime\) does not use images: use --runtime enroot or apptainer or d"
    ):
        choose_runtime(spec.replace(runtime="venv"), BOTH, LOCAL, runtimes(*everything))


@pytest.mark.parametrize(("file", "tool"), [("my.sif", "apptainer"), ("my.sqsh", "pyxis"), ("my.tar", "pyxis")])
def test_an_image_file_is_for_the_tools_that_take_it(file: str, tool: str, make_spec: MakeSpec) -> None:
    spec = make_spec(image=ImageSource(reference=f"/images/{file}", source="--image"))
    request = ImageRequest(reference=f"/images/{file}")
    assert choose_runtime(spec, request, SLURM, runtimes("docker", "apptainer", "enroot", "pyxis"))[0] == tool
    if tool == "apptainer":
        with pytest.raises(InfraError, match=r"\(apptainer: not here\)"):
            choose_runtime(spec, request, SLURM, runtimes("docker", "enroot"))


def test_an_unknown_one_is_refused_with_a_suggestion(make_spec: MakeSpec) -> None:
    with pytest.raises(UsageError, match="did you mean 'docker'"):
        choose_runtime(make_spec(runtime="dokcer"), BOTH, LOCAL, runtimes())


def test_pyxis_needs_a_launcher_with_srun(make_spec: MakeSpec) -> None:
    with pytest.raises(UsageError, match="use --launcher slurm"):
        choose_runtime(make_spec(runtime="pyxis"), BOTH, LOCAL, runtimes("pyxis"))


def test_when_nothing_works_every_reason_is_named(make_spec: MakeSpec) -> None:
    with pytest.raises(InfraError, match=r"enroot: not here; apptainer: not here; docker: not here"):
        choose_runtime(make_spec(), ImageRequest(reference="x"), LOCAL, runtimes())


def test_a_named_runtime_must_work_where_the_ranks_will_run(make_spec: MakeSpec) -> None:
    spec = make_spec(gpu_type="h100", runtime="apptainer")
    with pytest.raises(InfraError, match="runtime apptainer: not here"):
        choose_runtime(spec, BOTH, LOCAL, runtimes("venv"))
    assert choose_runtime(spec, BOTH, LOCAL, runtimes("venv"), preview=True)[0] == "apptainer"
    assert choose_runtime(spec, BOTH, SLURM, runtimes("venv"))[0] == "apptainer", "the nodes may have it"
