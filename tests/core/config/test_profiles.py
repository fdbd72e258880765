"""Configuration files and the installation folder: precedence, paths and invalid values."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from llmbx.cli.workspace import install_and_plugins
from llmbx.config.install import Install, find_install
from llmbx.config.profiles import load_config
from llmbx.errors import UsageError


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


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("walltime_minutes = { grok1 = -60 }", "at clusters.c.walltime_minutes.grok1: expected an integer >= 1"),
        ("retries = -3", "at clusters.c.retries: expected an integer >= 0"),
        ("gpus_per_node = 0", "at clusters.c.gpus_per_node: expected an integer >= 1"),
    ],
)
def test_an_invalid_number_is_rejected(line: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "llmbx.toml").write_text(f"[clusters.c]\n{line}\n")
    with pytest.raises(UsageError, match=re.escape(f"{tmp_path}/llmbx.toml: {said}")):
        load_config({}, tmp_path)


def test_the_commands_use_this_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "llmbx.toml").write_text('install = "bench"\n')
    monkeypatch.setenv("LLMBX_CONFIG", str(tmp_path / "llmbx.toml"))
    monkeypatch.delenv("LLMB_INSTALL", raising=False)
    assert install_and_plugins()[0].root == f"{tmp_path}/bench"
    monkeypatch.setenv("LLMB_INSTALL", "/mine")
    assert install_and_plugins()[0].root == "/mine"


HERE = {"LLMB_INSTALL": "/install"}


@pytest.mark.parametrize("variable", ["LLMB_INSTALL", "LLMB_WORKLOAD"])
def test_relative_folders_and_those_of_a_user_are_made_absolute(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    member = {"LLMB_INSTALL": "root", "LLMB_WORKLOAD": "workload_root"}[variable]
    assert getattr(find_install({**HERE, variable: "w/here"}), member) == f"{tmp_path}/w/here"
    assert getattr(find_install({**HERE, variable: "~/w"}), member) == "/home/me/w"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("~nobody-at-all/w", "Could not determine home directory"),
        (os.fsdecode(b"/tmp/b\xff"), "the path must be UTF-8"),
    ],
)
@pytest.mark.parametrize("variable", ["LLMB_INSTALL", "LLMB_WORKLOAD"])
def test_an_invalid_folder_is_rejected(variable: str, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=f"{variable} .*{says}"):
        find_install({**HERE, variable: text})


def test_the_workload_folder_must_be_writable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    there = Install(root=str(tmp_path / "i"), origin="test", workload_root=str(tmp_path / "w"))
    there.ensure()
    assert Path(there.workload_root or "").is_dir()
    blocked = there.replace(workload_root=str(tmp_path / "file" / "w"))
    with pytest.raises(
        UsageError, match=r"cannot create .*file/w \(LLMB_WORKLOAD\): .*; set LLMB_WORKLOAD to a writable folder"
    ):
        blocked.ensure()


def test_a_deleted_current_folder_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    here.rmdir()
    with pytest.raises(UsageError, match="the current folder does not exist any more: change to another one"):
        load_config({})


def test_a_cluster_of_the_project_replaces_the_users_of_the_same_name(tmp_path: Path) -> None:
    user, project = tmp_path / "config" / "llmbx" / "llmbx.toml", tmp_path / "project" / "llmbx.toml"
    for file, text in (
        (user, '[clusters.gpus]\ngpu_type = "h100"\nretries = 2\n[clusters.cpus]\n'),
        (project, '[clusters.gpus]\ngpu_type = "b200"\n'),
    ):
        file.parent.mkdir(parents=True)
        file.write_text(text)
    config, origins = load_config({"XDG_CONFIG_HOME": str(tmp_path / "config")}, project.parent)
    assert (config.clusters["gpus"].gpu_type, config.clusters["gpus"].retries) == ("b200", None)
    assert origins == {"gpus": str(project), "cpus": str(user)}
