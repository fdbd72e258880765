"""Images for nodes with another processor than the login node: GB200 and GB300 have Arm, most login nodes x86."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from llmbx.plugins.manager import load
from llmbx.run.context import RunContext
from llmbx.testing import resolve_spec
from llmbx_environments.containers.images.registry import _of_machine
from llmbx_environments.containers.naming import parse_reference
from llmbx_environments.containers.runtimes.apptainer_tool import Apptainer
from llmbx_environments.containers.runtimes.enroot_tool import Enroot

MANIFESTS = [
    {"digest": "sha256:a", "platform": {"os": "linux", "architecture": "amd64"}},
    {"digest": "sha256:b", "platform": {"os": "linux", "architecture": "arm64"}},
]


@pytest.mark.parametrize(
    ("here", "machine", "enroot", "apptainer"),
    [
        ("x86_64", "aarch64", ("--arch", "aarch64"), ("--arch", "arm64")),
        ("aarch64", "aarch64", (), ()),
        ("x86_64", None, (), ()),
    ],
)
def test_the_import_is_for_the_processor_of_the_nodes(
    here: str, machine: str | None, enroot: tuple[str, ...], apptainer: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.setattr(platform, "machine", lambda: here)
    reference = parse_reference("nvcr.io#nvidia/nemo:26.08").replace(machine=machine)
    command = Enroot().import_command(reference, tmp_path / "o", tmp_path, False)
    assert command.argv[:-3] == ("enroot", "import", *enroot)
    command = Apptainer("apptainer").import_command(reference, tmp_path / "o", tmp_path, False)
    assert command.argv[:-2] == ("apptainer", "build", *apptainer)
    expected = "sha256:b" if "aarch64" in (machine, here) else "sha256:a"
    assert _of_machine(MANIFESTS, machine or here) == expected


@pytest.mark.parametrize(("gpu_type", "machine"), [("gb200", "aarch64"), ("gb300", "aarch64"), ("h100", None)])
def test_the_gpu_type_decides(gpu_type: str, machine: str | None, tmp_path: Path) -> None:
    from llmbx.config.install import Install

    plugins = load()
    spec = resolve_spec("llama3.1", size="8b", dtype="bf16", gpu_type=gpu_type, gpus=8, launcher="slurm")
    framework, runtime, launcher = plugins.framework("nemo"), plugins.runtime("enroot"), plugins.launcher("slurm")
    install = Install(root=str(tmp_path), origin="test")
    context = RunContext(plugins, framework, runtime, launcher, install)
    assert context.wanted_image(spec).machine == machine
