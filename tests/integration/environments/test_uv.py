"""uv installs in pip's place, with pip's settings; what it cannot do, pip does or explains."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from llmbx.errors import UsageError
from llmbx_venv.uv_tool import UvProgress, uv_command, uv_environment

from ...patience import PATIENCE_S, wait_until
from .test_venv import LABEL, finished, pips_of, run_in, wheels, write_lock
from .toy import Index, make_wheel, pip_settings, prepare, start

__all__ = ["wheels"]


def log_of(install: Path) -> str:
    return (install / "venvs" / f"{LABEL}.log").read_text()


def test_an_environment_is_built_with_uv_from_the_index_that_pip_is_told_of(tmp_path: Path, wheels: Path) -> None:
    index = Index(wheels)
    env = pip_settings(tmp_path, PIP_INDEX_URL=index.url, LLMBX_INSTALLER="uv")
    lock = write_lock(tmp_path, [["alpha==1.0"], ["beta==1.0"]])
    code, out, err = prepare(lock, tmp_path / "install", env)
    assert code == 0, err
    assert run_in(out, "import alpha, beta; print(alpha.version, beta.version)") == "1.0 1.0"
    said = log_of(tmp_path / "install")
    assert "$ uv pip install" in said and " -m pip" not in said
    assert len(finished(tmp_path / "install")) == 2, "the folder, and the link to it"
    index.shutdown()


def test_offline_it_takes_the_wheels_of_the_install_and_asks_no_index(tmp_path: Path, wheels: Path) -> None:
    index = Index(wheels)
    env = pip_settings(tmp_path, PIP_INDEX_URL=index.url, LLMBX_INSTALLER="uv")
    install = tmp_path / "install"
    make_wheel(install / "wheels", "alpha")
    code, out, err = prepare(write_lock(tmp_path, [["alpha==1.0"]]), install, env, "--offline")
    assert (code, index.asked) == (0, []), err
    assert run_in(out, "import alpha; print(alpha.version)") == "1.0"
    index.shutdown()


def test_a_variant_is_chosen_by_what_can_be_had(tmp_path: Path, wheels: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    make_wheel(elsewhere, "alpha", "1.0+fast")
    index = Index(elsewhere)
    env = pip_settings(tmp_path, PIP_INDEX_URL=f"{index.url}/none", LLMBX_INSTALLER="uv")
    builds = f'["alpha==1.0+fast", ""], ["alpha==1.0+fast", "{index.url}"], ["alpha==1.0", ""]'
    lock = write_lock(tmp_path, [["alpha==1.0"]], f'[variants]\n"alpha==1.0" = [{builds}]')
    _, out, err = prepare(lock, tmp_path / "install", env)
    assert run_in(out, "import alpha; print(alpha.version)") == "1.0+fast", err
    index.shutdown()


def test_what_uv_cannot_do_is_done_by_pip(tmp_path: Path, wheels: Path) -> None:
    broken = tmp_path / "bin"
    broken.mkdir()
    (broken / "uv").write_text("#!/bin/sh\necho error: no uv today; exit 2\n")
    (broken / "uv").chmod(0o755)
    env = pip_settings(tmp_path, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(wheels), LLMBX_INSTALLER="auto")
    env = {**env, "PATH": f"{broken}:{env['PATH']}"}
    hidden = "import sys; sys.modules['uv'] = None"
    (tmp_path / "sitecustomize.py").write_text(hidden)
    env["PYTHONPATH"] = f"{tmp_path}:{env['PYTHONPATH']}"
    code, out, err = prepare(write_lock(tmp_path, [["alpha==1.0"]]), tmp_path / "install", env)
    assert code == 0, err
    assert run_in(out, "import alpha; print(alpha.version)") == "1.0"
    assert "no uv today" in log_of(tmp_path / "install")


def test_a_package_that_cannot_be_had_is_explained_in_pips_words(tmp_path: Path, wheels: Path) -> None:
    env = pip_settings(tmp_path, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(wheels), LLMBX_INSTALLER="uv")
    code, _, err = prepare(write_lock(tmp_path, [["gamma==1.0"]]), tmp_path / "install", env)
    last = err.splitlines()[-1]
    assert code == 4 and "gamma==1.0 was not found" in last and "Traceback" not in err
    assert finished(tmp_path / "install") == []


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_stopped_in_the_middle_it_goes_on(tmp_path: Path, wheels: Path, sign: int) -> None:
    make_wheel(wheels, "slow")
    index = Index(wheels)
    env = pip_settings(tmp_path, PIP_INDEX_URL=index.url, LLMBX_INSTALLER="uv")
    lock, install = write_lock(tmp_path, [["alpha==1.0"], ["slow==1.0"]]), tmp_path / "install"
    process = start(lock, install, env)
    assert index.waiting.wait(PATIENCE_S)
    alpha = "/files/alpha-1.0-py3-none-any.whl"
    asked = index.asked.count(alpha)
    process.send_signal(sign)
    assert process.wait(PATIENCE_S) == (130 if sign == signal.SIGINT else -signal.SIGKILL)
    assert finished(install) == []
    orphans = pips_of(install)
    assert bool(orphans) == (sign == signal.SIGKILL), "Ctrl-C ends uv too"
    index.release.set()
    again = start(lock, install, env)
    out, err = again.communicate(timeout=PATIENCE_S)
    assert again.returncode == 0, err
    assert "resuming an interrupted build" in err
    wait_until(lambda: pips_of(install) == [])
    assert run_in(out, "import alpha, slow; print(slow.version)") == "1.0"
    assert index.asked.count(alpha) == asked, "it is not fetched again"
    index.shutdown()


def test_the_choice_of_the_installer() -> None:
    assert uv_command({"LLMBX_INSTALLER": "pip"}) is None
    found = uv_command({"LLMBX_INSTALLER": "uv"})
    assert found and subprocess.run([found, "--version"], capture_output=True, check=True).stdout.startswith(b"uv ")
    with pytest.raises(UsageError, match="LLMBX_INSTALLER=conda: expected auto, pip or uv"):
        uv_command({"LLMBX_INSTALLER": "conda"})


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
