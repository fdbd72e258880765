"""Settings of nsys: where they come from, and runs that do not use nsys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmbx.config.request import Request
from llmbx.errors import UsageError
from llmbx.model import Launch, Phase, RunSpec
from llmbx.plugins.manager import load
from llmbx.resolve.profiled import again
from llmbx.testing import resolve_spec
from llmbx_profiling.plugin import wrap_command
from llmbx_profiling.settings import samples_gpus

METRICS = {"nsys": {"gpu_metrics": True}}
VARIABLE = {"ENABLE_GPU_METRICS": "true"}
ON_GPUS = {"size": "8b", "gpu_type": "h100", "gpus": 8, "plugin": "nemo"}


def resolved(environ: dict[str, str] | None = None, **options: Any) -> RunSpec:
    return resolve_spec("llama3.1", environ=environ, **{**ON_GPUS, **options})


@pytest.fixture
def config(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """`config(text)`: the environment in which `text` is the only `llmbx.toml`."""

    def write(text: str) -> dict[str, str]:
        (tmp_path / "llmbx.toml").write_text(f'default_cluster = "c"\n{text}')
        return {"LLMBX_CONFIG": str(tmp_path / "llmbx.toml")}

    return write


@pytest.mark.parametrize("key", ["[clusters.c]\ngpu_metrics = true", "[clusters.c.nsys]\ngpu_metrics = true"])
def test_gpu_metrics_by_option_variable_and_profile(key: str, config: Callable[[str], dict[str, str]]) -> None:
    assert not samples_gpus(resolved(profile=True))
    by_option = resolved(profile=True, plugin_settings=METRICS)
    assert samples_gpus(by_option) and by_option.origins["nsys.gpu_metrics"] == "--gpu-metrics"
    by_variable = resolved(VARIABLE, profile=True)
    assert samples_gpus(by_variable) and by_variable.origins["nsys.gpu_metrics"] == "ENABLE_GPU_METRICS"
    by_profile = resolved(config(key), profile=True)
    assert samples_gpus(by_profile) and by_profile.origins["nsys.gpu_metrics"].startswith("cluster 'c' in ")
    assert not samples_gpus(resolved({**config(key), "ENABLE_GPU_METRICS": "false"}, profile=True))


def test_an_option_of_nsys_needs_nsys() -> None:
    for options in ({}, {"profile": True, "profile_tool": "torch"}):
        with pytest.raises(
            UsageError, match=r"^--gpu-metrics is an option of nsys, which is not enabled: use `llmbx pro"
        ):
            resolved(plugin_settings=METRICS, **options)
    assert resolved(plugin_settings={"nsys": {"gpu_metrics": False}}).findings == ()


def test_a_variable_of_nsys_without_nsys_is_a_warning(config: Callable[[str], dict[str, str]]) -> None:
    (plain,) = resolved(VARIABLE).findings
    assert plain.warning and (plain.rule, plain.fix) == ("gpu_metrics", "add --profile, or unset it")
    assert plain.problem == "ENABLE_GPU_METRICS requests GPU metrics, but nothing is profiled with nsys"
    (other,) = resolved(VARIABLE, profile=True, profile_tool="torch").findings
    assert other.warning and other.fix == "use --tool nsys, or unset it"
    assert resolved(config("[clusters.c.nsys]\ngpu_metrics = true")).findings == ()
    assert resolved({"LLMBX_NSYS": "/opt/nsys"}).findings == ()


def test_the_command_of_nsys(config: Callable[[str], dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    def command(environ: dict[str, str]) -> str:
        spec = resolved(environ, profile=True, profile_ranks="0")
        phases = (Phase(role="train", argv=("true",)),)
        wrapped = wrap_command(spec, Launch(nodes=1, ranks_per_node=8, gpus_per_rank=1, phases=phases))
        (argv,) = (prefix.argv for prefix in wrapped.phases[0].prefixes if "profile" in prefix.argv)
        return argv[argv.index("profile") - 1]

    monkeypatch.delenv("LLMBX_NSYS", raising=False)
    of_cluster = config('[clusters.c.nsys]\ncommand = "/opt/site/nsys"')
    assert command({}) == "nsys" and command(of_cluster) == "/opt/site/nsys"
    assert command({**of_cluster, "LLMBX_NSYS": "/mine/nsys"}) == "/mine/nsys"


def test_a_repeated_run_gets_the_settings_of_this_command_and_of_its_cluster(
    config: Callable[[str], dict[str, str]],
) -> None:
    def profiled(spec: RunSpec, tool: str = "nsys", environ: dict[str, str] | None = None, **settings: Any) -> RunSpec:
        recipe = next(one for one in load().workload("llama3.1", "nemo").recipes if one.name == spec.recipe)
        request = Request(workload="llama3.1", profile=True, profile_steps="5-8", profile_tool=tool, **settings)
        return again(spec, recipe, request, environ or {}, load())

    plain, before = resolved(), resolved(profile=True, plugin_settings=METRICS)
    assert samples_gpus(profiled(plain, plugin_settings=METRICS))
    assert samples_gpus(profiled(plain, environ=VARIABLE)) and not samples_gpus(profiled(plain))
    once = profiled(before)
    assert not samples_gpus(once) and "nsys.gpu_metrics" not in once.origins, "an option counts for its command only"
    assert samples_gpus(profiled(resolved(config("[clusters.c]\ngpu_metrics = true"))))
    with pytest.raises(UsageError, match="--gpu-metrics is an option of nsys"):
        profiled(plain, "torch", plugin_settings=METRICS)
    assert "nsys" not in profiled(before, "torch").plugin_settings
    trace = {"nccltrace": {"trace_subsystems": "INIT"}}
    assert profiled(resolved(wrappers=("nccltrace",), plugin_settings=trace)).plugin_settings == {}
    (warning,) = profiled(plain, "torch", VARIABLE).findings
    assert warning.fix == "use --tool nsys, or unset it"
