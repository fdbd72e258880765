"""Golden files of the commands that import images, for tools that are not installed on every machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.api import ImageRequest
from llmbx_environments.containers.images.on_node import import_command
from llmbx_environments.containers.images.tool import Command
from llmbx_environments.containers.naming import parse_reference
from llmbx_environments.containers.runtimes.apptainer_tool import Apptainer
from llmbx_environments.containers.runtimes.enroot_tool import Enroot
from llmbx_environments.containers.settings import ContainerSettings
from llmbx_slurm.launcher import SlurmLauncher

SHA = "sha256:" + "ab" * 32
REFERENCES = ("nvcr.io#nvidia/nemo:25.04.01", f"ghcr.io#nvidia/jax@{SHA}", "127.0.0.1:5000#team/app:1", "python:3.12")


def text_of(command: Command) -> str:
    return "".join(f"{name}={value} " for name, value in sorted(command.env.items())) + " ".join(command.argv) + "\n"


def test_the_commands_that_import(
    golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    for name in ("ENROOT_ALLOW_HTTP", "APPTAINER_TMPDIR", "APPTAINER_CACHEDIR", "ENROOT_CONFIG_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    lines = []
    for tool in (Enroot(), Apptainer("apptainer")):
        scratch = Path("/images/.x.partial")
        for reference in REFERENCES:
            digested = parse_reference(reference).replace(digest=SHA)
            plain = ContainerSettings().plain_http(digested.registry)
            lines.append(text_of(tool.import_command(digested, scratch / f"image{tool.suffix}", scratch, plain)))
        if isinstance(tool, Apptainer):
            lines.append(text_of(tool.convert_command(Path("/my/app.tar"), scratch / f"image{tool.suffix}", scratch)))
        lines.append(text_of(tool.start_command(Path(f"/images/x{tool.suffix}"))))
    golden("import-commands.txt", "".join(lines))


def test_a_users_own_folders_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPTAINER_TMPDIR", "/fast")
    tool = Apptainer("apptainer")
    command = tool.import_command(parse_reference("a.b/c:1"), Path("/o"), Path("/s"), False)
    assert "APPTAINER_TMPDIR" not in command.env and command.env["APPTAINER_CACHEDIR"] == "/s/cache"


def test_the_command_that_imports_on_a_compute_node(
    golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    options = {"account": "bench", "partition": "batch", "gres": "gpu:8", "exclusive": "", "time": "02:00:00"}
    plain = ImageRequest(reference="nvcr.io#nvidia/nemo:25.04.01")
    pinned = plain.replace(digest=SHA, accept_change=True)

    def on_node(request: ImageRequest, timeout_s: float | None) -> str:
        command = import_command("/venv/bin/llmbx", request, "pyxis", timeout_s)
        return " ".join(SlurmLauncher().run_on_node(command, "llmbx-image", {"sbatch": options})) + "\n"

    golden("on-node.txt", on_node(plain, None) + on_node(pinned, 3600.0))
