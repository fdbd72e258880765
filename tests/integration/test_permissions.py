"""What llmbx writes under the umask 000, by each of its verbs and by the jobs that it starts."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..patience import PATIENCE_S
from .conftest import COMMAND, clean_environment


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home in which everything is written; the umask is that of this process, which its children inherit."""
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    before = os.umask(0)
    yield home
    os.umask(before)


def test_nothing_is_world_writable_and_the_index_is_private(home: Path) -> None:
    env = clean_environment(home / "install", HOME=str(home), TMPDIR=str(home))
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "LLMBX_CONFIG"):
        env.pop(name, None)

    def llmbx(*arguments: str) -> None:
        done = subprocess.run(
            [COMMAND, *arguments], env=env, cwd=home, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, (arguments, done.stderr)

    local = ("--launcher", "local")
    llmbx("run", "line", *local, "--runtime", "venv", "--set", "metrics=true", "--gpus", "2")
    llmbx("run", "line", *local, "--runtime", "host", "--with", "stopwatch", "--emit-script", "emitted/run.sh")
    subprocess.run(["bash", home / "emitted/run.sh"], env=env, cwd=home, check=True, capture_output=True)
    llmbx("sweep", "line", *local, "--runtime", "host", "--set", "rate=0.1,0.2", "--output", "elsewhere")
    llmbx("jobs")  # makes the index
    llmbx("jobs", "tag", "last", "good")
    llmbx("report", "last", "--html", "report.html")
    llmbx("export", "csv", "--output", "exported.csv")
    llmbx("init", "--output", "written/llmbx.toml")
    llmbx("plugins", "new", "mine")
    llmbx("plugins", "enable", "mine")
    written = {path: path.lstat() for path in home.rglob("*") if not path.is_symlink()}
    names = {path.name for path in written}
    assert {"run.json", "result.json", "exit.json", "rank-0.log", "sweep.json", "llmbx.toml", "run.sh"} <= names
    assert [str(path) for path, found in written.items() if found.st_mode & stat.S_IWOTH] == []
    runs = [path.parent.parent for path in written if path.name in ("exit.json", "run.json")]
    owned = {*runs, *(path.parent for path in written if path.name == "sweep.json")}
    assert len(owned) == 5, "a run, that of the emitted script, two of a sweep, and the sweep"
    inside = [path for path in written if not owned.isdisjoint((path, *path.parents))]
    inside.append(home / "emitted/run.sh")
    assert [str(path) for path in inside if written[path].st_mode & stat.S_IWGRP] == []
    for name in ("llmbx.toml", "plugins.txt"):  # else llmbx would not obey them
        (file,) = (path for path in written if path.name == name)
        assert not (written[file].st_mode | written[file.parent].st_mode) & stat.S_IWGRP, file
    indexes = {path: oct(stat.S_IMODE(found.st_mode)) for path, found in written.items() if ".sqlite" in path.name}
    assert indexes and set(indexes.values()) == {"0o600"}, indexes
