"""Somebody who follows a page of the documentation in an empty folder, with an empty home."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from .. import pages
from .conftest import CUDA_BUILDS, ROOT, clean_environment

TUTORIALS, HOW_TO = ROOT / "docs/tutorials", ROOT / "docs/how-to"


class Reader:
    """Somebody who follows a page; environments that other tests built are not built again."""

    def __init__(self, folder: Path, shared_install: Path, **environ: str) -> None:
        self.folder, self.home = folder / "work", folder / "home"
        self.install = self.home / ".local/share/llmbx"
        self.install.mkdir(parents=True)
        self.folder.mkdir()
        (self.folder / "benchmarks").symlink_to(ROOT / "benchmarks")
        (self.install / "venvs").symlink_to(shared_install / "venvs")
        self.environ = clean_environment(
            self.install, HOME=str(self.home), PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            COLUMNS="80", CUDA_VISIBLE_DEVICES="", **environ,
        )  # fmt: skip
        unset = ("LLMB_INSTALL", "LLMBX_CONFIG", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")
        for name in (*unset, *CUDA_BUILDS):
            self.environ.pop(name, None)

    def follow(self, page: Path, update: bool, has: Sequence[str] = ()) -> None:
        """Run the page's commands and compare what they print with what the page shows, or write it to the page."""
        places = {str(self.install): "~/.local/share/llmbx", f"{self.folder}/": "", str(self.home): "~"}
        done = []
        text = page.read_text()
        for one in pages.follow(text, self.folder, self.environ, places, has):
            assert one.code == 0, f"$ {one.command.text}\n{one.output}"
            assert "Traceback" not in one.output, one.output
            done.append(one)
            assert update or one.missing(self.ids()) == [], f"$ {one.command.text}\n{one.output}"
        assert done
        if update:
            page.write_text(pages.updated(text, done, self.ids()))

    def ids(self) -> list[str]:
        """The short ids of all runs, the oldest first."""
        links = list((self.install / "ids").glob("*"))
        return [link.name for link in sorted(links, key=lambda link: link.lstat().st_mtime_ns)]
