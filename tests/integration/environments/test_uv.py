"""uv installs with the settings of the user's pip."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from llmbx.errors import UsageError
from llmbx_environments.venv.uv_tool import UvProgress, require_program, uv_environment

from .test_venv import LABEL, finished, run_in, wheels, write_lock
from .toy import Index, pip_settings, prepare

__all__ = ["wheels"]


def test_an_environment_is_built_from_the_index_of_pips_settings(tmp_path: Path, wheels: Path) -> None:
    index = Index(wheels)
    env = pip_settings(tmp_path, PIP_INDEX_URL=index.url)
    lock = write_lock(tmp_path, [["alpha==1.0"], ["beta==1.0"]])
    code, out, err = prepare(lock, tmp_path / "install", env)
    assert code == 0, err
    assert run_in(out, "import alpha, beta; print(alpha.version, beta.version)") == "1.0 1.0"
    assert "$ uv pip install" in (tmp_path / "install" / "venvs" / f"{LABEL}.log").read_text()
    assert len(finished(tmp_path / "install")) == 2, "the folder, and the link to it"
    index.shutdown()


def test_an_extra_index_that_is_down_does_not_matter_to_packages_of_the_main_one(tmp_path: Path, wheels: Path) -> None:
    index = Index(wheels)
    env = pip_settings(tmp_path, PIP_INDEX_URL=index.url, PIP_EXTRA_INDEX_URL="http://127.0.0.1:9/simple")
    code, out, err = prepare(write_lock(tmp_path, [["alpha==1.0"]]), tmp_path / "install", env)
    assert code == 0, err
    assert run_in(out, "import alpha; print(alpha.version)") == "1.0"
    code, _, err = prepare(write_lock(tmp_path, [["gamma==1.0"]]), tmp_path / "install", env)
    assert code == 4 and "gamma could not be downloaded: Connection refused" in err.splitlines()[-1]
    index.shutdown()


def test_without_uv_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uv", None)
    with pytest.raises(UsageError, match=r"^uv, which builds environments, is not on PATH .*`pip install uv`"):
        require_program({"PATH": "/nowhere"})


def test_a_uv_that_is_too_old_is_named_with_the_release_that_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "uv"
    program.write_text("#!/bin/sh\necho 'uv 0.9.4 (1234567 2025-10-17)'\n")
    program.chmod(0o755)
    monkeypatch.setitem(sys.modules, "uv", None)
    with pytest.raises(UsageError, match=r"uv is uv 0\.9\.4, and building environments needs 0\.12\.11 or newer"):
        require_program({"PATH": str(tmp_path)})


def test_pips_settings_are_uvs_and_folders_that_are_gone_are_left_out(tmp_path: Path) -> None:
    places = {
        "index-url": "https://user:secret@mirror.example/simple",
        "extra-index-url": f"file://{tmp_path} file:///nowhere/simple https://more.example/simple",
        "find-links": f"{tmp_path} /nowhere",
        "trusted-host": "mirror.example",
        "cert": "/etc/ca.pem",
    }
    env = uv_environment({"PATH": "/bin", "UV_INDEX_STRATEGY": "first-index"}, places)
    assert env["UV_DEFAULT_INDEX"] == "https://user:secret@mirror.example/simple"
    assert env["UV_INDEX"] == f"file://{tmp_path} https://more.example/simple"
    assert env["UV_FIND_LINKS"] == str(tmp_path) and env["UV_INSECURE_HOST"] == "mirror.example"
    assert (env["SSL_CERT_FILE"], env["PATH"]) == ("/etc/ca.pem", "/bin")
    assert env["UV_INDEX_STRATEGY"] == "first-index", "the user's own word on uv stands"
    assert "UV_DEFAULT_INDEX" not in uv_environment({}, {})


def test_offline_keeps_only_local_links(tmp_path: Path) -> None:
    env = uv_environment({"UV_OFFLINE": "0"}, {"find-links": f"{tmp_path} https://wheels.example/x"}, offline=True)
    assert (env["UV_FIND_LINKS"], env["UV_OFFLINE"]) == (str(tmp_path), "1")


def test_progress_names_what_is_fetched_with_its_size() -> None:
    said: list[str] = []
    now = [0.0]
    shown = UvProgress("step 1 of 2", said.append, lambda: now[0])
    for seconds, line in (
        (0, "Using Python 3.11.7 environment at: /venvs/x"),
        (2, "Resolved 46 packages in 1.20s"),
        (4, "Downloading torch (181.2MiB)"),
        (6, "Downloading transformers (11.4MiB)"),
        (8, " Downloaded transformers"),
        (20, ""),
        (22, " Downloaded torch"),
        (24, "Prepared 46 packages in 20s"),
    ):
        now[0] = seconds
        shown.line(line)
    assert said == [
        "step 1 of 2: resolving packages, 0 s",
        "step 1 of 2: downloading packages, 2 s",
        "step 1 of 2: downloading torch (181.2MiB), 4 s",
        "step 1 of 2: downloading torch (181.2MiB), downloading transformers (11.4MiB), 6 s",
        "step 1 of 2: downloading torch (181.2MiB), 8 s",
        "step 1 of 2: downloading torch (181.2MiB), 20 s",
        "step 1 of 2: downloading packages, 22 s",
        "step 1 of 2: linking packages, 24 s",
    ]
