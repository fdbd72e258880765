"""A machine without GPUs, or with those that a test asks for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

NVIDIA_SMI = """#!/bin/sh
# A stand-in for nvidia-smi: it prints the product names of the machine.
{answer}
"""


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """`machine(shell)` installs an nvidia-smi with these lines of shell; without it the machine has none."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def install(shell: str) -> None:
        program = programs / "nvidia-smi"
        program.write_text(NVIDIA_SMI.format(answer=shell))
        program.chmod(0o755)

    return install
