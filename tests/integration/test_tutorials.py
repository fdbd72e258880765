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
