"""Environments are built once, whole, resumable and locked; every fault is one clear line with its exit code."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from llmbx.catalog.environments import load_environment
from llmbx.errors import UsageError
from llmbx.model import Image, ImageRequest
from llmbx_environments.venv.runtime import VenvRuntime
from llmbx_environments.venv.store import MARKER

from ...patience import PATIENCE_S, wait_until
from .toy import Index, make_wheel, pip_settings, prepare, start

MINOR = f"{sys.version_info[0]}.{sys.version_info[1]}"
LABEL = f"toy-py{MINOR.replace('.', '')}"


def write_lock(tmp_path: Path, steps: list[list[str]], more: str = "", name: str = "lock.toml") -> Path:
    path = tmp_path / name
    path.write_text(f'name = "toy"\npythons = ["{MINOR}"]\nsteps = {json.dumps(steps)}\n{more}')
    return path


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheelhouse"
    for name in ("alpha", "beta"):
        make_wheel(folder, name)
    return folder


@pytest.fixture
def env(tmp_path: Path, wheels: Path) -> dict[str, str]:
    return pip_settings(tmp_path, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(wheels))


def run_in(python: str, code: str) -> str:
    done = subprocess.run([python.strip(), "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def finished(install: Path) -> list[Path]:
    return sorted((install / "venvs").glob(f"*/{MARKER}"))


def of(lock: Path, install: Path) -> Image:
    return VenvRuntime().plan(ImageRequest(environment=load_environment(lock)), install)


def pips_of(install: Path) -> list[int]:
    found = {p.pid: " ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])}
    return [pid for pid, line in found.items() if "pip" in line and f"{install}/venvs" in line]


def test_it_is_built_from_the_lock_and_found_again_without_a_subprocess(
    tmp_path: Path, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = 'check = "import alpha, beta"\ndownload_mb = 3\ndisk_mb = 9'
    lock = write_lock(tmp_path, [["alpha==1.0"], ["beta==1.0"]], facts)
    code, out, err = prepare(lock, tmp_path / "install", env)
    assert code == 0, err
    assert run_in(out, "import alpha, beta; print(alpha.version, beta.version)") == "1.0 1.0"
    assert f"{LABEL}: 2 pinned packages" in err
    assert "3 MB to download" in err and "9 MB on disk" in err
    assert (tmp_path / "install" / "venvs" / LABEL / MARKER).is_file()

    def forbidden(*args: object, **kwargs: object) -> None:
        raise AssertionError("a finished environment must be found without a subprocess")

    monkeypatch.setattr(subprocess, "Popen", forbidden)
    request = ImageRequest(environment=load_environment(lock))
    image = VenvRuntime().prepare(request, tmp_path / "install", forbidden)
    assert image.python == out.strip()
    assert image.versions == {"python": sys.version.split()[0], "alpha": "1.0", "beta": "1.0"}
    assert image.digest == "sha256:" + hashlib.sha256(b"alpha==1.0\nbeta==1.0\n").hexdigest()


def test_only_the_main_packages_are_shown_when_the_lock_names_them(tmp_path: Path, env: dict[str, str]) -> None:
    lock = write_lock(tmp_path, [["alpha==1.0", "beta==1.0"]], 'main = ["beta"]')
    assert prepare(lock, tmp_path / "install", env)[0] == 0
    assert of(lock, tmp_path / "install").versions == {"python": sys.version.split()[0], "beta": "1.0"}


def test_a_plan_touches_nothing_and_names_the_place(tmp_path: Path) -> None:
    image = of(write_lock(tmp_path, [["alpha==1.0"]]), tmp_path / "install")
    assert image.path == str(tmp_path / "install" / "venvs" / LABEL)
    assert image.digest is None
    assert not (tmp_path / "install").exists()


def test_a_workload_without_an_environment_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no environment for the runtime venv"):
        VenvRuntime().plan(ImageRequest(reference="docker.io#library/x:1"), tmp_path)


def test_another_lock_is_built_beside_and_the_name_follows(tmp_path: Path, wheels: Path, env: dict[str, str]) -> None:
    make_wheel(wheels, "alpha", "2.0")
    old, new = (write_lock(tmp_path, [[f"alpha=={v}.0"]], name=f"{v}.toml") for v in (1, 2))
    install = tmp_path / "install"
    first = prepare(old, install, env)[1]
    second = prepare(new, install, env)[1]
    assert run_in(str(install / "venvs" / LABEL / "bin" / "python"), "import alpha; print(alpha.version)") == "2.0"
    assert run_in(first, "import alpha; print(alpha.version)") == "1.0", "a run that goes on keeps its environment"
    assert first != second
    assert prepare(old, install, env)[1] == first
    assert run_in(str(install / "venvs" / LABEL / "bin" / "python"), "import alpha; print(alpha.version)") == "1.0"


def test_the_first_build_that_can_be_had_is_taken(tmp_path: Path, wheels: Path, env: dict[str, str]) -> None:
    variants = '[variants]\n"alpha==1.0" = [["alpha==1.0+fast", ""], ["alpha==1.0", ""]]\n'
    sizes = '[variant_mb]\n"alpha==1.0+fast" = [7, 8]\n'
    lock = write_lock(tmp_path, [["alpha==1.0"]], variants + sizes)
    err = prepare(lock, tmp_path / "plain", env)[2]
    assert "with alpha==1.0: an unknown amount to download" in err
    make_wheel(wheels, "alpha", "1.0+fast")
    _, out, err = prepare(lock, tmp_path / "fast", env)
    assert "with alpha==1.0+fast: 7 MB to download" in err
    assert run_in(out, "import alpha; print(alpha.version)") == "1.0+fast"


def test_a_variant_is_fetched_from_its_extra_index(tmp_path: Path, env: dict[str, str]) -> None:
    elsewhere = tmp_path / "elsewhere"
    make_wheel(elsewhere, "alpha", "1.0+fast")
    index = Index(elsewhere)
    pip = {**env, "PIP_INDEX_URL": f"{index.url}/none"}
    pip.pop("PIP_NO_INDEX")
    builds = f'["alpha==1.0+fast", ""], ["alpha==1.0+fast", "{index.url}"], ["alpha==1.0", ""]'
    variants = f'[variants]\n"alpha==1.0" = [{builds}]'
    _, out, err = prepare(write_lock(tmp_path, [["alpha==1.0"]], variants), tmp_path / "install", pip)
    assert run_in(out, "import alpha; print(alpha.version)") == "1.0+fast", err
    index.shutdown()


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_stopped_in_the_middle_it_goes_on_without_fetching_again(tmp_path: Path, wheels: Path, sign: int) -> None:
    make_wheel(wheels, "slow")
    index = Index(wheels)
    env = pip_settings(tmp_path, PIP_INDEX_URL=index.url)
    lock = write_lock(tmp_path, [["alpha==1.0"], ["slow==1.0"]])
    install = tmp_path / "install"
    process = start(lock, install, env)
    assert index.waiting.wait(PATIENCE_S)
    process.send_signal(sign)
    assert process.wait(PATIENCE_S) == (130 if sign == signal.SIGINT else -signal.SIGKILL)
    orphans = pips_of(install)
    assert bool(orphans) == (sign == signal.SIGKILL), "Ctrl-C ends uv too"
    assert finished(install) == []
    assert not (install / "venvs" / LABEL).exists()
    slow, alpha = (f"/files/{name}-1.0-py3-none-any.whl" for name in ("slow", "alpha"))
    fetched = index.asked.count(alpha)
    again = start(lock, install, env)
    wait_until(lambda: index.asked.count(slow) == 2)
    assert not set(orphans) & set(pips_of(install)), "a leftover would write beside the new one"
    index.release.set()
    out, err = again.communicate(timeout=PATIENCE_S)
    assert again.returncode == 0, err
    assert "resuming an interrupted build" in err
    assert run_in(out, "import alpha, slow; print(slow.version)") == "1.0"
    assert index.asked.count(alpha) == fetched, "it is not fetched again"
    assert pips_of(install) == []
    index.shutdown()


def test_a_package_cut_off_while_it_was_unpacked_is_installed_again(tmp_path: Path, env: dict[str, str]) -> None:
    lock = write_lock(tmp_path, [["alpha==1.0", "beta==1.0"]])
    python = prepare(lock, tmp_path / "install", env)[1].strip()
    venv = Path(python).parents[1]
    site = venv / "lib" / f"python{MINOR}" / "site-packages"
    (venv / MARKER).unlink()
    (site / "alpha.py").unlink()
    (site / "alpha-1.0.dist-info" / "INSTALLER").unlink()
    assert prepare(lock, tmp_path / "install", env)[0] == 0
    assert run_in(python, "import alpha; print(alpha.version)") == "1.0"


def test_two_processes_build_once_and_the_second_says_who_builds(tmp_path: Path, wheels: Path) -> None:
    make_wheel(wheels, "slow")
    index = Index(wheels)
    env = pip_settings(tmp_path, PIP_INDEX_URL=index.url)
    lock = write_lock(tmp_path, [["slow==1.0"]])
    first = start(lock, tmp_path / "install", env)
    assert index.waiting.wait(PATIENCE_S)
    second = start(lock, tmp_path / "install", env)
    assert second.stderr is not None
    said = second.stderr.readline()
    assert f"process {first.pid} on {socket.gethostname()} has the lock" in said
    index.release.set()
    python, _ = first.communicate(timeout=PATIENCE_S)
    found, said = second.communicate(timeout=PATIENCE_S)
    assert found == python
    assert "pinned packages" not in said, "what the first has built is not built again"
    assert (first.returncode, second.returncode) == (0, 0)
    assert (tmp_path / "install" / "venvs" / f"{LABEL}.log").read_text().count("$ uv pip install") == 1
    index.shutdown()


def one_line(err: str) -> str:
    lines = [line for line in err.splitlines() if line.startswith("llmbx: ")]
    assert len(lines) == 1, err
    assert "Traceback" not in err
    return lines[0]


def test_no_network_names_the_package_the_options_and_the_way_out(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://user:hunter2@127.0.0.1:{closed.getsockname()[1]}/simple"
    env = pip_settings(tmp_path, PIP_INDEX_URL=url, PIP_EXTRA_INDEX_URL=url)
    code, _, err = prepare(write_lock(tmp_path, [["alpha==1.0"]]), tmp_path / "install", env)
    said = one_line(err)
    assert code == 4
    assert "alpha could not be downloaded: Connection refused" in said
    assert "searched: index-url, extra-index-url, according to pip's configuration" in said
    assert "--offline" in said and f"{tmp_path}/install/wheels" in said and f"{LABEL}.log" in said
    assert "127.0.0.1" not in said and "hunter2" not in said
    assert finished(tmp_path / "install") == []


def test_offline_uses_the_wheelhouse_of_the_install_and_asks_no_index(tmp_path: Path, wheels: Path) -> None:
    index = Index(wheels)
    env = pip_settings(tmp_path, PIP_INDEX_URL=index.url, PIP_FIND_LINKS=f"{index.url}/alpha")
    lock, install = write_lock(tmp_path, [["alpha==1.0"]]), tmp_path / "install"
    code, _, err = prepare(lock, install, env, "--offline")
    assert code == 4
    assert f"alpha==1.0 is not in {install}/wheels" in one_line(err)
    make_wheel(install / "wheels", "alpha")
    assert prepare(lock, install, env, "--offline")[0] == 0
    assert index.asked == []
    index.shutdown()


def test_a_package_that_nobody_has_is_named(tmp_path: Path, env: dict[str, str]) -> None:
    code, _, err = prepare(write_lock(tmp_path, [["gamma==1.0"]]), tmp_path / "install", env)
    assert code == 4
    assert "gamma==1.0 was not found (searched: find-links" in one_line(err)


def test_a_finished_environment_is_used_from_an_install_that_became_read_only(
    tmp_path: Path, env: dict[str, str]
) -> None:
    lock, install = write_lock(tmp_path, [["alpha==1.0"]]), tmp_path / "install"
    assert prepare(lock, install, env)[0] == 0
    code, out, err = prepare(lock, install, env, inside=f"mount -o bind,ro {install} {install}")
    assert code == 0, err
    assert Path(out.strip()).exists()


def test_an_environment_that_fails_its_check_is_not_finished(tmp_path: Path, env: dict[str, str]) -> None:
    lock = write_lock(tmp_path, [["alpha==1.0"]], 'check = "import alpha; alpha.nothing"')
    code, _, err = prepare(lock, tmp_path / "install", env)
    assert code == 4
    assert "its check failed: AttributeError: module 'alpha' has no attribute 'nothing'" in one_line(err)
    assert finished(tmp_path / "install") == []


def test_a_disk_that_fills_up_is_said_and_nothing_is_marked(tmp_path: Path, wheels: Path, env: dict[str, str]) -> None:
    make_wheel(wheels, "large", padding=8_000_000)
    install = tmp_path / "install"
    install.mkdir()
    inside = f"mount -t tmpfs -o size=4m none {install}"
    code, _, err = prepare(write_lock(tmp_path, [["large==1.0"]]), install, env, inside=inside)
    assert code == 4, err
    assert "the disk is full" in one_line(err)


def test_a_disk_that_is_too_small_is_refused_before_anything_is_fetched(tmp_path: Path, env: dict[str, str]) -> None:
    install = tmp_path / "install"
    install.mkdir()
    lock = write_lock(tmp_path, [["alpha==1.0"]], "disk_mb = 50")
    code, _, err = prepare(lock, install, env, inside=f"mount -t tmpfs -o size=4m none {install}")
    assert code == 4
    assert "needs 50 MB more" in one_line(err) and "4 MB are free" in err


@pytest.mark.parametrize("how", ["read-only", "read-only later", "a file in the way"])
def test_an_install_that_cannot_be_written_is_a_usage_error(tmp_path: Path, env: dict[str, str], how: str) -> None:
    install = tmp_path / "install"
    inside = ""
    if how.startswith("read-only"):
        install.mkdir()
        first = f"mount -t tmpfs none {install} && mkdir {install}/venvs && " if how.endswith("later") else ""
        inside = f"{first}mount -t tmpfs -o {'remount,ro' if first else 'ro'} none {install}"
    else:
        install.write_text("")
    code, _, err = prepare(write_lock(tmp_path, [["alpha==1.0"]]), install, env, inside=inside)
    assert code == 2
    assert f"cannot write to {install}/venvs" in one_line(err) and "LLMB_INSTALL" in err


def test_the_users_own_settings_do_not_send_packages_elsewhere(tmp_path: Path, env: dict[str, str]) -> None:
    away = tmp_path / "away"
    stray = make_wheel(tmp_path / "stray", "alpha", "1.0")
    hostile = {**env, "PIP_USER": "1", "PIP_TARGET": str(away), "PYTHONPATH": f"{env['PYTHONPATH']}{os.pathsep}{stray}"}
    code, out, err = prepare(write_lock(tmp_path, [["alpha==1.0"]]), tmp_path / "install", hostile)
    assert code == 0, err
    assert run_in(out, "import alpha; print(alpha.__file__)").startswith(str(tmp_path / "install"))
    assert not away.exists()


def test_doctor_really_starts_an_environment(tmp_path: Path) -> None:
    assert VenvRuntime().check(tmp_path) is None
