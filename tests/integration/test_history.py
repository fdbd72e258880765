"""From a real run to a tag, a baseline, another window, and back: each by the command, in processes of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llmbx.launchers.nodes import read_nodes

from .conftest import Llmbx

Result = Callable[[Path], dict[str, Any]]


def test_a_tagged_run_becomes_a_baseline_and_is_measured_anew(
    llmbx: Llmbx, install: Path, tmp_path: Path, read_result: Result
) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    for tags in (("--tag", "night"), ()):
        assert llmbx("run", "line", "--set", "pace=0.02", *tags, env=env).returncode == 0
    second, first = json.loads(llmbx("jobs", "--format", "json", env=env).stdout)
    assert (first["tags"], second["tags"], first["status"]) == (["night"], [], "completed")
    (node,) = read_nodes(Path(first["folder"]))
    assert node.host and node.cores and node.kernel

    assert llmbx("jobs", "tag", first["run_id"], "accepted", env=env).returncode == 0
    found = llmbx("compare", "--baseline", "accepted", "--tolerance", "900%", "--format", "json", env=env)
    assert found.returncode in (0, 5), found.stderr  # 5: this machine's steps were not steady
    compared = json.loads(found.stdout)
    assert (compared["a"]["runs"], compared["b"]["runs"]) == ([first["run_id"]], [second["run_id"]])

    stored = read_result(Path(first["folder"]))
    again = llmbx("parse", "tag:accepted", "--window", "5-9", "--format", "json", env=env)
    (row,) = json.loads(again.stdout)
    assert (row["window"], row["steps_measured"]) == ("5-9", 5)
    assert read_result(Path(first["folder"])) == stored
    assert llmbx("parse", first["run_id"], "--window", "5-9", "--save", env=env).returncode == 0
    assert read_result(Path(first["folder"]))["step_time_s"]["mean"] == row["step_time_mean_s"]

    where = ("jobs", "--where", "window.first == 5 and 'accepted' in tags", "--format", "json")
    assert [run["run_id"] for run in json.loads(llmbx(*where, env=env).stdout)] == [first["run_id"]]
    bad = llmbx("jobs", "--where", "gpuss > 1", env=env)
    assert (bad.returncode, bad.stderr) == (2, "llmbx: --where: no column named 'gpuss' (did you mean 'gpus'?); a "
                                               "string needs quotes: 'gpuss'\n")  # fmt: skip


def test_where_no_cache_can_be_written_the_listing_says_so_once(llmbx: Llmbx, install: Path) -> None:
    assert llmbx("run", "line", "--set", "fault=exit").returncode == 1
    done = llmbx("jobs", "--workload", "line", "--format", "json", env={"XDG_CACHE_HOME": "/proc/none"})
    assert [run["status"] for run in json.loads(done.stdout)] == ["failed"]
    assert done.stderr.count("cannot use the history index") == 1 and done.stderr.count("\n") == 1
