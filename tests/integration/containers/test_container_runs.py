"""Whole runs inside containers, from the command to the result; and nothing of them stays when they are stopped."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from ...patience import PATIENCE_S, wait_until
from .tools import TOOLS, Daemons, trainers

Llmbx = Callable[..., subprocess.CompletedProcess[str]]
Background = Callable[..., subprocess.Popen[str]]
Result = Callable[[Path], dict[str, Any]]


def stepped(install: Path) -> bool:
    return any("toy step 10/" in log.read_text() for log in install.glob("workloads/**/log-*.out"))


def no_container(daemons: Daemons) -> bool:
    return daemons.docker("ps", "--all", "--quiet").stdout == ""


@pytest.mark.parametrize("tool", TOOLS)
def test_a_run_inside_a_container_is_measured_and_says_in_which_image(
    tool: str, llmbx: Llmbx, tool_env: dict[str, str], images: dict[str, str], daemons: Daemons, install: Path,
    only_run: Callable[..., Path], read_result: Result,
) -> None:  # fmt: skip
    reference = f"{daemons.registry}/ci/tiny:1"
    done = llmbx("run", "line", "--image", reference, "--runtime", tool, "--gpus", "2", env=tool_env)
    assert done.returncode == 0, done.stderr
    folder = only_run()
    result = read_result(folder)
    assert (result["status"], result["runtime"]) == ("completed", tool)
    assert result["image"]["digest"] == images["ci/tiny:1"]
    record = json.loads((folder / "run.json").read_text())
    assert record["image"]["digest"] == images["ci/tiny:1"] and record["versions"]["python"].startswith("3.")
    assert no_container(daemons)
    again = llmbx("run", "line", "--image", reference, "--runtime", tool, "--offline", env=tool_env)
    assert again.returncode == 0, again.stderr


def test_an_image_on_the_command_line_means_a_container(
    llmbx: Llmbx, tool_env: dict[str, str], images: dict[str, str], daemons: Daemons
) -> None:
    done = llmbx("run", "line", "--image", f"{daemons.registry}/ci/tiny:1", "--dry-run", env=tool_env)
    assert done.returncode == 0, done.stderr
    assert "is the first available container tool" in " ".join(done.stdout.split())


@pytest.mark.parametrize("fault", ["hang", "deaf"])
@pytest.mark.parametrize("tool", TOOLS)
def test_ctrl_c_stops_the_container_even_if_it_ignores_sigterm(
    tool: str, fault: str, background: Background, tool_env: dict[str, str], images: dict[str, str],
    daemons: Daemons, install: Path, only_run: Callable[..., Path], read_result: Result,
) -> None:  # fmt: skip
    image = f"{daemons.registry}/ci/tiny:1"
    env = {**tool_env, "LLMBX_STOP_GRACE_S": "1"}
    process = background("run", "line", "--image", image, "--runtime", tool, "--set", f"fault={fault}", env=env)
    wait_until(lambda: stepped(install) or process.poll() is not None)
    assert trainers(install)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    assert read_result(only_run())["status"] == "cancelled"
    wait_until(lambda: no_container(daemons) and not trainers(install))
    assert str(install) not in Path("/proc/self/mounts").read_text()


@pytest.mark.parametrize("tool", TOOLS)
def test_no_container_outlives_an_llmbx_that_was_killed(
    tool: str, background: Background, tool_env: dict[str, str], images: dict[str, str], daemons: Daemons, install: Path
) -> None:
    image = f"{daemons.registry}/ci/tiny:1"
    process = background("run", "line", "--image", image, "--runtime", tool, "--set", "fault=deaf", env=tool_env)
    wait_until(lambda: stepped(install) or process.poll() is not None)
    assert trainers(install)
    process.kill()
    process.wait()
    wait_until(lambda: no_container(daemons) and not trainers(install))


def test_no_container_outlives_a_run_whose_script_was_killed(
    background: Background, tool_env: dict[str, str], images: dict[str, str], daemons: Daemons, install: Path
) -> None:
    image = f"{daemons.registry}/ci/tiny:1"
    arguments = ("--image", image, "--runtime", "docker", "--set", "fault=deaf", "--detach")
    process = background("run", "line", *arguments, env=tool_env)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    wait_until(lambda: stepped(install))
    assert trainers(install)
    clients = [p for p in psutil.process_iter(["cmdline"]) if "docker" in (p.info["cmdline"] or [])[:1]]
    mine = [p for p in clients if any(str(install) in part for part in p.info["cmdline"])]
    assert mine
    for client in mine:
        client.kill()
    wait_until(lambda: no_container(daemons) and not trainers(install))


@pytest.mark.parametrize("tool", TOOLS)
def test_an_image_without_python_is_no_run(
    tool: str, llmbx: Llmbx, tool_env: dict[str, str], images: dict[str, str], daemons: Daemons
) -> None:
    for verb in (("sweep", "line", "--repeats", "2", "--launcher", "local"), ("run", "line")):
        done = llmbx(*verb, "--image", f"{daemons.registry}/ci/bare:1", "--runtime", tool, env=tool_env)
        assert done.returncode == 2 and "has no python3 on its PATH" in done.stderr.strip().splitlines()[-1]


def test_the_doctor_starts_a_container_in_every_runtime_that_is_here(
    llmbx: Llmbx, tool_env: dict[str, str], tmp_path: Path
) -> None:
    done = llmbx("doctor", "--format", "json", env=tool_env)
    rows = {(row["what"], row["name"]): row for row in json.loads(done.stdout)}
    for tool in ("venv", "host", "docker", "apptainer"):
        assert rows["runtime", tool]["state"] == "ok", rows["runtime", tool]
    broken = llmbx("doctor", "--format", "json", env={**tool_env, "DOCKER_HOST": f"unix://{tmp_path}/none.sock"})
    assert broken.returncode == 4
    row = next(row for row in json.loads(broken.stdout) if row["name"] == "docker")
    assert row["state"] == "broken" and "not running" in row["detail"] and row["fix"]
    (tmp_path / "apptainer").write_text("#!/bin/sh\necho 'FATAL: no user namespaces' >&2; exit 255\n")
    (tmp_path / "apptainer").chmod(0o755)
    broken = llmbx("doctor", "--format", "json", env={**tool_env, "PATH": f"{tmp_path}:{tool_env['PATH']}"})
    row = next(row for row in json.loads(broken.stdout) if row["name"] == "apptainer")
    assert row["state"] == "broken" and "FATAL: no user namespaces" in row["detail"]
