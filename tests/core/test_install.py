"""Where everything is kept: the environment says so before the configuration, and the origin names who did."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmbx.cli.options import place
from llmbx.config import load_config
from llmbx.install import Install, find_install


def found(environ: dict[str, str], cwd: Path) -> Install:
    config, _ = load_config(environ, cwd)
    return find_install(environ, config.install, config.install_file)


def test_the_environment_wins_over_the_configuration_and_that_over_the_default(tmp_path: Path) -> None:
    user, project = tmp_path / "config" / "llmbx" / "llmbx.toml", tmp_path / "project" / "llmbx.toml"
    for file, text in ((user, 'install = "/lustre/all"'), (project, 'default_cluster = "x"')):
        file.parent.mkdir(parents=True)
        file.write_text(text + "\n")
    environ, inner = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_DATA_HOME": "/data"}, project.parent / "a"
    assert found(environ, inner) == Install(root="/lustre/all", origin=f"install in {user}")
    project.write_text('install = "bench"\n')
    assert found(environ, inner) == Install(root=f"{project.parent}/bench", origin=f"install in {project}")
    environ |= {"LLMB_INSTALL": "/mine", "LLMB_WORKLOAD": "/w"}
    assert found(environ, inner) == Install(root="/mine", origin="LLMB_INSTALL", workload_root="/w")
    assert find_install({"XDG_DATA_HOME": "/data"}) == Install(root="/data/llmbx", origin="default")


def test_the_commands_ask_in_this_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "llmbx.toml").write_text('install = "bench"\n')
    monkeypatch.setenv("LLMBX_CONFIG", str(tmp_path / "llmbx.toml"))
    monkeypatch.delenv("LLMB_INSTALL", raising=False)
    assert place()[0].root == f"{tmp_path}/bench"
    monkeypatch.setenv("LLMB_INSTALL", "/mine")
    assert place()[0].root == "/mine"
