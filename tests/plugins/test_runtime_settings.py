"""The settings of a runtime's plugin reach it with the image request."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from llmbx.api import settings_of
from llmbx.cli.workspace import load_workspace
from llmbx.config.install import Install
from llmbx.errors import PluginError, UsageError
from llmbx.model import ImageRequest, RunSpec
from llmbx.plugins.manager import load
from llmbx.run.context import RunContext
from llmbx.testing import resolve_spec
from llmbx_environments.containers.settings import ContainerSettings
from llmbx_environments.venv.runtime import VenvRuntime
from llmbx_environments.venv.settings import VenvSettings
from llmbx_site.final_configuration import build_final

TOML = """
default_cluster = "c"
[clusters.c.containers]
image_retries = 7
http_registries = "in.house:5000"
[clusters.c.venv]
allow_cuda_build = true
"""


@pytest.fixture
def config(tmp_path: Path) -> dict[str, str]:
    """The environment of a command whose cluster profile has settings of two runtimes."""
    (tmp_path / "llmbx.toml").write_text(TOML)
    return {"LLMBX_CONFIG": str(tmp_path / "llmbx.toml")}


def request_of(spec: RunSpec, tmp_path: Path) -> ImageRequest:
    install = Install(root=str(tmp_path), origin="test")
    spec, context = RunContext.enter(spec, load(), install, preview=True)
    return context.wanted_image(spec)


def test_profile_and_variables_reach_the_container_runtimes(
    config: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = resolve_spec("grok1", plugin="nemo", runtime="apptainer", size="mini", gpu_type="cpu", environ=config)
    request = request_of(spec, tmp_path)
    assert request.plugin_settings.keys() == {"containers"}
    settings = settings_of(request, ContainerSettings)
    assert (settings.image_retries, settings.image_timeout_s) == (7, 7200)
    assert settings.plain_http("in.house:5000") and not settings.plain_http("nvcr.io")
    monkeypatch.setenv("LLMBX_IMAGE_RETRIES", "1")
    repeated = settings_of(request_of(spec, tmp_path), ContainerSettings)
    assert (repeated.image_retries, repeated.http_registries) == (1, "in.house:5000")


def test_a_configuration_is_built_with_the_settings_of_the_profile(
    config: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stop(Exception):
        pass

    def prepare(self: VenvRuntime, request: ImageRequest, *_: object) -> None:
        chosen.append(settings_of(request, VenvSettings))
        raise Stop

    chosen: list[VenvSettings] = []
    monkeypatch.setattr(VenvRuntime, "prepare", prepare)
    row = {"size": "314b", "dtype": "bf16", "gpu_type": "gb200", "gpus": 256}
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path / "install"))
    for path in (config["LLMBX_CONFIG"], os.devnull):
        monkeypatch.setenv("LLMBX_CONFIG", path)
        with pytest.raises(PluginError):
            build_final(resolve_spec("grok1", plugin="nemo", **row), load_workspace())
    assert [settings.allow_cuda_build for settings in chosen] == [True, False]


@pytest.mark.parametrize("installer", ["pip", "conda"])
def test_another_installer_than_uv_is_refused_before_the_run(tmp_path: Path, installer: str) -> None:
    row = {"size": "mini", "gpu_type": "cpu"}
    removed = "uv installs all environments now, with pip's settings: remove this setting$"
    with pytest.raises(UsageError, match=f"^LLMBX_INSTALLER={installer}: {removed}"):
        resolve_spec("grok1", plugin="nemo", **row, environ={"LLMBX_INSTALLER": installer})
    (tmp_path / "llmbx.toml").write_text(f'default_cluster = "c"\n[clusters.c.venv]\ninstaller = "{installer}"\n')
    environ = {"LLMBX_CONFIG": str(tmp_path / "llmbx.toml")}
    with pytest.raises(UsageError, match=rf"^cluster 'c' in .*llmbx\.toml: venv\.installer: {removed}"):
        resolve_spec("grok1", plugin="nemo", **row, environ=environ)
    assert resolve_spec("grok1", plugin="nemo", **row, environ={"LLMBX_INSTALLER": "uv"})
