"""GPU runs without a container: which environment, and when it is used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from llmbx.api import ImageRequest, RunSpec, UsageError, load_environment
from llmbx.config.install import Install
from llmbx.errors import InfraError
from llmbx.launchers.local import LocalLauncher
from llmbx.plugins.manager import load
from llmbx.run.context import RunContext
from llmbx.runtimes.select import choose_runtime
from llmbx.testing import resolve_spec
from llmbx_environments.lock_file import Pin
from llmbx_environments.venv import cuda
from llmbx_environments.venv.runtime import VenvRuntime

GPU = {"gpu_type": "h100", "gpus": 8, "launcher": "local", "size": "mini"}


def spec_of(workload: str = "grok1", **asked: Any) -> RunSpec:
    return resolve_spec(workload, **{**GPU, **asked})


def planned(spec: RunSpec, install: Path) -> str:
    spec, context = RunContext.enter(spec, load(), Install(root=str(install), origin="test"), preview=True)
    return str(context.runtime.plan(context.wanted_image(spec), install).reference)


@pytest.mark.parametrize(
    ("workload", "asked", "name"),
    [
        ("grok1", {}, "megatron-bridge-cu13"),
        ("grok1", {"plugin_settings": {"venv": {"cuda": "12"}}}, "megatron-bridge-cu12"),
        ("llama3.1", {"recipe": "bridge-0.6-mini"}, "megatron-bridge-0.6-cu13"),
        ("llama2", {"plugin_settings": {"venv": {"cuda": "12"}}}, "maxtext-cu12"),
        ("llama3.1", {"size": "8b-1gpu", "gpu_type": "h200", "gpus": 1}, "megatron-bridge-cu13"),
        ("grok1", {"gpu_type": "cpu", "gpus": 1}, "megatron-bridge-cpu"),
    ],
)
def test_the_environment_is_that_of_the_recipe_for_the_chosen_cuda(
    tmp_path: Path, workload: str, asked: dict[str, Any], name: str
) -> None:
    assert planned(spec_of(workload, runtime="venv", **asked), tmp_path) == name


@pytest.mark.parametrize("asked", [{}, {"size": "314b-1gpu", "gpu_type": "h200", "gpus": 1}])
def test_a_mini_or_a_part_of_a_model_uses_it_where_no_container_tool_works(asked: dict[str, Any]) -> None:
    """They are not comparable with published figures; most machines with one GPU have no container tool."""
    spec = spec_of(**asked)
    request = load().framework(spec.plugin).prepare_image(spec)
    chosen = choose_runtime(spec, request, LocalLauncher(), {"venv": VenvRuntime()})
    assert chosen == ("venv", "auto: no container tool is available")


def test_a_benchmark_uses_it_only_if_asked_for() -> None:
    spec = spec_of().replace(mini=False)
    request = load().framework(spec.plugin).prepare_image(spec)
    assert request.reference and request.environment and request.environment.cuda == 13
    with pytest.raises(InfraError, match="no runtime works here"):
        choose_runtime(spec, request, LocalLauncher(), {"venv": VenvRuntime()})


def test_a_version_of_cuda_that_the_recipe_does_not_have_is_refused(tmp_path: Path) -> None:
    spec = spec_of(runtime="venv")
    request = load().framework(spec.plugin).prepare_image(spec)
    one = ImageRequest(environment=request.environment, plugin_settings={"venv": {"cuda": "12"}})
    with pytest.raises(UsageError, match=r"venv\.cuda=12: the recipe has environments for CUDA 13 only"):
        VenvRuntime().plan(one, tmp_path)


def test_the_shipped_cuda_environments_are_for_one_version_of_cuda_and_name_the_needs_of_builds() -> None:
    found = sorted(Path(__file__).parents[4].glob("plugins/*/llmbx_*/environments/*-cu1?.toml"))
    assert len(found) == 6
    for path in found:
        lock = load_environment(path, whole=True)
        pins = [pin for step in (*lock.steps, *lock.platforms.values()) for pin in step]
        assert list(cuda.majors(Pin.of(pin) for pin in pins)) == [lock.cuda], path.name
        assert path.stem.endswith(f"-cu{lock.cuda}") and lock.name == path.stem
        archives = {Pin.in_file(name)[0] for name in lock.files if not name.endswith(".whl")}
        assert archives == {Pin.of(pin)[0] for step in lock.steps[1:] for pin in step}
        compiled = {Pin.of(pin)[0] for pin in lock.needs}
        assert compiled == archives - {"antlr4-python3-runtime"}, "the other one is pure Python"
        forced = {"NVTE_PYTORCH_FORCE_BUILD": "TRUE"} if compiled else {}
        assert forced.items() <= lock.build_env.items(), "the build would download a wheel without a digest"
