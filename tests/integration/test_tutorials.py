"""The tutorials, command by command."""

from __future__ import annotations

from pathlib import Path

import pytest

from .reader import HOW_TO, TUTORIALS, Reader

PAGES = {
    "first-result": ("repeat", "export", "published-figure", "profile-steps", "containers", "cluster-profile"),
    "find-a-regression": (),
    "add-a-framework": (),
}
"""The tutorials, and the how-to pages that somebody reads who has done one."""


@pytest.mark.parametrize(("name", "more"), PAGES.items(), ids=PAGES)
def test_the_commands_of_a_tutorial_print_what_it_shows(
    name: str, more: tuple[str, ...], shared_install: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    update = bool(request.config.getoption("--update-golden"))
    reader = Reader(tmp_path, shared_install)
    reader.follow(TUTORIALS / f"{name}.md", update)
    for page in more:
        reader.follow(HOW_TO / f"{page}.md", update)


H100 = "NVIDIA H100 80GB HBM3, 81559, 570.86.15, Disabled, 9.0"


def test_the_tutorial_for_a_box_with_gpus_shows_what_is_printed_there(
    shared_install: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The GPUs are those of a stand-in for the driver's tool; what needs real ones is left out."""
    programs = tmp_path / "programs"
    programs.mkdir()
    stand_in = programs / "nvidia-smi"
    stand_in.write_text("#!/bin/sh\ncat <<'END'\n" + f"{H100}\n" * 8 + "END\n")
    stand_in.chmod(0o755)
    reader = Reader(tmp_path, shared_install)
    del reader.environ["CUDA_VISIBLE_DEVICES"]
    reader.environ["PATH"] = f"{programs}:{reader.environ['PATH']}"
    reader.follow(TUTORIALS / "one-box.md", bool(request.config.getoption("--update-golden")))
