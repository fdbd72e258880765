"""Preparing images on a machine without the container tool, for runs on nodes that have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmbx.errors import InfraError
from llmbx.model import ImageRequest
from llmbx.runtimes.base import Runtime
from llmbx_environments.containers.runtimes.apptainer import ApptainerRuntime
from llmbx_environments.containers.runtimes.enroot import EnrootRuntime
from llmbx_environments.containers.runtimes.pyxis import PyxisRuntime

REQUEST = ImageRequest(reference="127.0.0.1:9/team/app:1")
SQUASHFS = b"hsqs" + b"\0" * 24 + b"\4\0\0\0" + b"\0" * 4096


@pytest.fixture(autouse=True)
def no_tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Put only srun on PATH."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "srun").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bin" / "srun").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


@pytest.mark.parametrize("runtime", [ApptainerRuntime(), EnrootRuntime(), PyxisRuntime()])
def test_an_image_that_is_not_here_is_to_be_imported_on_a_node(runtime: Runtime, tmp_path: Path) -> None:
    with pytest.raises(InfraError, match=f"runtime {runtime.name}: .* is on PATH|not on PATH") as error:
        runtime.prepare(REQUEST, tmp_path / "install", lambda line: None)
    assert "import it on a compute node with `llmbx image prepare … --launcher slurm`" in str(error.value)
    assert not (tmp_path / "install" / "images").exists()


@pytest.mark.parametrize("runtime", [EnrootRuntime(), PyxisRuntime()])
def test_an_image_that_a_node_imported_is_taken(runtime: Runtime, tmp_path: Path) -> None:
    install = tmp_path / "install"
    path = Path(str(runtime.plan(REQUEST, install).path))
    path.parent.mkdir(parents=True)
    path.write_bytes(SQUASHFS)
    assert runtime.prepare(REQUEST, install, lambda line: None).path == str(path)
