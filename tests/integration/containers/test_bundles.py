"""Without a network: what a bundle brought runs in a network namespace that has no route."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ..environments.toy import make_wheel
from .tools import TOOLS, Daemons

Llmbx = Callable[..., subprocess.CompletedProcess[str]]


def forget(daemons: Daemons, reference: str) -> None:
    daemons.docker("image", "rm", "--force", reference, check=False)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_bundle_brings_a_run_to_a_machine_without_a_network(
    tool: str, llmbx: Llmbx, tool_env: dict[str, str], images: dict[str, str], daemons: Daemons, install: Path,
    tmp_path: Path,
) -> None:  # fmt: skip
    reference, bundle, other = f"{daemons.registry}/ci/tiny:1", tmp_path / "all.bundle", tmp_path / "other"
    assert llmbx("image", "export", str(bundle), env=tool_env).returncode == 2, "there is nothing yet"
    assert llmbx("image", "prepare", reference, "--runtime", tool, env=tool_env).returncode == 0
    wheel = make_wheel(install / "wheels", "a")
    (install / ".cache/huggingface/hub").mkdir(parents=True)
    (install / ".cache/huggingface/hub/tokenizer.json").write_text("{}")
    exported = llmbx("image", "export", str(bundle), env=tool_env)
    assert exported.returncode == 0 and "3 files" in exported.stdout, exported.stderr
    forget(daemons, reference)

    command = Path(sys.executable).with_name("llmbx")
    env = {**tool_env, "LLMB_INSTALL": str(other), "LLMBX_CONFIG": "/dev/null"}

    def offline(*arguments: str) -> subprocess.CompletedProcess[str]:
        """The command in a network namespace with nothing in it, not even loopback."""
        argv = ["unshare", "--net", str(command), *arguments]
        return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)

    run = ("run", "line", "--image", reference, "--runtime", tool, "--offline")
    missing = offline(*run)
    assert missing.returncode == 4 and "llmbx image import BUNDLE" in missing.stderr.splitlines()[-1]
    taken = offline("image", "import", str(bundle))
    assert taken.returncode == 0 and images["ci/tiny:1"] in taken.stdout, taken.stderr
    assert (other / "wheels/a-1.0-py3-none-any.whl").read_bytes() == wheel.read_bytes()
    done = offline(*run)
    assert done.returncode == 0, done.stderr
    results = [json.loads(path.read_text()) for path in other.glob("workloads/*/experiments/*/*/*/result.json")]
    assert sorted(result["status"] for result in results) == ["completed", "failed"]
    (completed,) = (result for result in results if result["status"] == "completed")
    assert completed["image"]["digest"] == images["ci/tiny:1"]
    script = next(path for path in other.glob("workloads/*/experiments/*/*/*/run.sh")).read_text()
    cache = f"{other}/.cache/huggingface"
    assert f"{cache}:{cache}" in script and "export HF_HUB_OFFLINE=1" in script, "ranks see the cache and ask nobody"
    forget(daemons, reference)


PLUGIN = """\
import msgspec
from llmbx import hookimpl
from llmbx.model import Environment, ImageRequest
from llmbx_toy import plugin as toy
from llmbx_toy.plugin import build_command, check_spec, compute_flops, parse_log


@hookimpl
def register_workloads():
    return [msgspec.structs.replace(toy.register_workloads()[0], name="pinned", folder="pinned", plugin="airgap")]


@hookimpl
def prepare_image(spec):
    steps = (("alpha==1.0",), ("beta==1.0",))
    check = "import alpha, beta"
    return ImageRequest(environment=Environment(name="pinned", pythons=(PYTHON,), steps=steps, check=check))
"""
"""A framework whose environment has packages."""


@pytest.fixture
def airgap(tmp_path: Path) -> dict[str, str]:
    """Variables with which llmbx finds that framework, and pip its two packages and nothing else."""
    site, python = tmp_path / "site", f"{sys.version_info[0]}.{sys.version_info[1]}"
    (site / "airgap-1.0.dist-info").mkdir(parents=True)
    (site / "airgap.py").write_text(PLUGIN.replace("PYTHON", repr(python)))
    (site / "airgap-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: airgap\nVersion: 1.0\n")
    (site / "airgap-1.0.dist-info/entry_points.txt").write_text("[llmbx]\nairgap = airgap\n")
    for name in ("alpha", "beta"):
        make_wheel(tmp_path / "index", name)
    return {"PYTHONPATH": str(site), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "index")}


def test_a_bundle_brings_an_environments_wheels(llmbx: Llmbx, airgap: dict[str, str], tmp_path: Path) -> None:
    bundle, other = tmp_path / "wheels.bundle", tmp_path / "other"
    exported = llmbx("image", "export", str(bundle), "--environment", "pinned", env=airgap)
    assert exported.returncode == 0 and "2 files" in exported.stdout, exported.stderr
    assert [path.name for path in tmp_path.glob(".*")] == []
    shutil.rmtree(tmp_path / "index")
    command = Path(sys.executable).with_name("llmbx")
    found = {"PYTHONPATH": airgap["PYTHONPATH"], "LLMB_INSTALL": str(other), "LLMBX_CONFIG": "/dev/null"}
    env = {**os.environ, **found}

    def offline(*arguments: str) -> subprocess.CompletedProcess[str]:
        argv = ["unshare", "--net", str(command), *arguments]
        return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)

    missing = offline("run", "pinned", "--offline", "--steps", "4")
    assert missing.returncode == 4 and "alpha==1.0 is not in" in missing.stderr.splitlines()[-1], missing.stderr
    taken = offline("image", "import", str(bundle))
    assert taken.returncode == 0, taken.stderr
    assert sorted(path.name[:5] for path in other.glob("wheels/*")) == ["alpha", "beta-"]
    done = offline("run", "pinned", "--offline", "--steps", "4")
    assert done.returncode == 0, done.stderr
    records = [json.loads(path.read_text()) for path in other.glob("workloads/*/experiments/*/*/*/run.json")]
    assert [record["versions"].get("alpha") for record in records].count("1.0") == 1
    results = [json.loads(path.read_text()) for path in other.glob("workloads/*/experiments/*/*/*/result.json")]
    assert sorted(result["status"] for result in results) == ["completed", "failed"]


def test_a_damaged_bundle_brings_nothing_that_looks_whole(
    llmbx: Llmbx, tool_env: dict[str, str], images: dict[str, str], daemons: Daemons, tmp_path: Path
) -> None:
    reference, bundle, other = f"{daemons.registry}/ci/tiny:1", tmp_path / "all.bundle", tmp_path / "other"
    assert llmbx("image", "prepare", reference, "--runtime", "apptainer", env=tool_env).returncode == 0
    assert llmbx("image", "export", str(bundle), env=tool_env).returncode == 0
    whole = bundle.read_bytes()
    middle = len(whole) // 2
    for content, words in (
        (whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :], "is damaged"),
        (whole[:middle], "is not a complete bundle"),
        (b"something else", "is not a complete bundle"),
    ):
        bundle.write_bytes(content)
        done = llmbx("image", "import", str(bundle), env=tool_env, install=other)
        assert done.returncode == 4 and words in done.stderr.splitlines()[-1], done.stderr
        assert list(other.glob("images/*.sif")) == [] and list(other.glob("images/.*.partial*")) == []
