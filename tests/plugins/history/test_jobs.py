"""`llmbx jobs` as a user sees it: filters, order, columns, formats, tags."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmbx.config.install import Install
from llmbx.errors import UsageError
from llmbx.record.folder import RESULT
from llmbx_history.index import index_path

from ...run_factory import CREATED, RunFactory, noise
from .conftest import Jobs

Listed = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def several(run_factory: RunFactory) -> list[str]:
    """Six runs (oldest first): a plain, b fp8, c of 16 GPUs, d failed, e tagged, f the fastest, its MFU unknown."""
    made = [
        run_factory.put(noise(1, 1.0)),
        run_factory.put(noise(2, 1.1), dtype="fp8"),
        run_factory.put(noise(3, 1.2), gpus=16),
        run_factory.put(noise(4, 1.3), valid=False),
        run_factory.put(noise(5, 1.4), tags=("accepted", "night")),
        run_factory.put(noise(6, 0.9), peak=None),
    ]
    return [run.record.run_id for run in made]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", "fedcba"),
        ("--workload line", "fedcba"),
        ("--dtype fp8", "b"),
        ("--dtype FP8 --dtype bf16 --gpus 8 --gpus 16", "fedcba"),
        ("--scale 16", "c"),
        ("--gpus 8 --status completed", "feba"),
        ("--status failed", "d"),
        ("--size 1b --gpu-type h100 --status completed --status failed", "fedcba"),
        ("--tag accepted", "e"),
        ("--tag accepted --tag night", "e"),
        ("--tag accepted --tag day", ""),
        ("--tag accept", ""),
        (f"--since {time.strftime('%Y-%m-%dT%H:%M:%S', time.localtime(CREATED + 4))}", "fed"),
        (f"--until {time.strftime('%Y-%m-%dT%H:%M:%S', time.localtime(CREATED + 4))}", "cba"),
        (f"--until {time.strftime('%Y-%m-%d', time.localtime(CREATED))}", "fedcba"),
        ("--since 1h", ""),
        ("--where step_time_s.mean<1.05", "fa"),
        ("--where step_time_s.mean>1.05\tand\tgpus>=16", "c"),
        ("--where mfu.value==None", "f"),
        ("--where 'accepted'\tin\ttags\tor\tdtype=='fp8'", "eb"),
        ("--sort step_time_s", "fabcde"),
        ("--sort -step_time_s", "edcbaf"),
        ("--sort mfu", "cedbaf"),
        ("--sort -mfu", "abdecf"),
        ("--sort dtype,-step_time_s", "edcafb"),
        ("--sort -step_time_s --limit 2", "ed"),
        ("--limit 0", "fedcba"),
    ],
)
def test_filters_and_order(several: list[str], listed: Listed, options: str, expected: str) -> None:
    words = [word.replace("\t", " ") for word in options.split(" ") if word]
    names = dict(zip(several, "abcdef", strict=True))
    assert "".join(names[row["run_id"]] for row in listed(*words)) == expected


def test_json_has_whole_runs_and_csv_the_columns(
    several: list[str], jobs: Jobs, listed: Listed, run_factory: RunFactory
) -> None:
    row = next(row for row in listed() if row["run_id"] == several[4])
    folder = next(run_factory.install.path.glob(f"workloads/*/experiments/*/{several[4]}/*"))
    result = json.loads((folder / RESULT).read_text())
    assert row["folder"] == str(folder)
    assert (row["step_time_s"], row["mfu"]) == (result["step_time_s"]["mean"], result["mfu"]["value"])
    assert (row["tags"], row["status"], row["gpus"], row["data_valid"]) == (["accepted", "night"], "completed", 8, True)
    assert next(row for row in listed() if row["run_id"] == several[5])["mfu"] is None
    text = jobs("--format", "csv", "--columns", "run_id,mfu.value,tags,folder,data_valid").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["run_id"] for row in rows] == several[::-1]
    assert (rows[0]["mfu.value"], rows[1]["tags"], rows[1]["folder"]) == ("", "accepted, night", str(folder))
    assert float(rows[1]["mfu.value"]) == result["mfu"]["value"]
    chosen = json.loads(jobs("--format", "json", "--columns", "run_id,steps_seen,data_valid").stdout)
    assert chosen[2] == {"run_id": several[3], "steps_seen": 50, "data_valid": False}


def test_a_table_names_its_columns_and_says_what_it_leaves_out(several: list[str], jobs: Jobs) -> None:
    done = jobs("--columns", "+tags,gbs", "--limit", "2")
    head, *lines = done.stdout.splitlines()
    assert head.split()[:3] == ["id", "workload", "size"] and head.split()[-3:] == ["age", "tags", "gbs"]
    assert len(lines) == 2 and "accepted, night" in lines[1]
    assert done.stderr == "2 of 6 runs shown; use --limit 0 to list all\n"
    assert jobs("--status", "cancelled").stderr.startswith("none of the 6 runs in ")
    assert jobs("--status", "cancelled", "--format", "json").stdout == "[]\n"


def test_json_lines_are_the_objects_of_json(several: list[str], run_factory: RunFactory, jobs: Jobs) -> None:
    run_factory.put(noise(7, 1.0), result={"cause": "two\nlines and \x9b a control character"})
    for more in ((), ("--columns", "run_id,mfu,data_valid"), ("--status", "cancelled")):
        lines = jobs("--format", "jsonl", *more).stdout.splitlines()
        assert [json.loads(line) for line in lines] == json.loads(jobs("--format", "json", *more).stdout)
        assert "\x9b" not in "".join(lines)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("--limit", "9" * 20), 6),
        (("--gpus", "1" + "0" * 400), 0),
        (("--where", f"gpus < {10**30} and gpus > {-(10**30)}"), 6),
    ],
)
def test_a_number_beyond_64_bits_is_a_question_like_any_other(
    several: list[str], jobs: Jobs, install: Install, arguments: tuple[str, ...], found: int
) -> None:
    jobs()
    index = index_path(install, os.environ)
    before = index.stat().st_ino
    assert len(json.loads(jobs(*arguments, "--format", "json").stdout)) == found
    assert index.stat().st_ino == before, "the index is not at fault"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--status", "faild"), "--status faild: unknown status (did you mean 'failed'?)"),
        (("--sort", "step_tme_s"), "--sort: no column named 'step_tme_s' (did you mean 'step_time_s'?)"),
        (("--columns", "run_id,mfux"), "--columns: no column named 'mfux' (did you mean 'mfu'?)"),
        (("--columns", ","), "--columns: expected column names"),
        (("--since", "lately"), "--since 'lately': expected a date (2026-11-20)"),
        (("--where", "gpuss > 3"), "no column named 'gpuss' (did you mean 'gpus'?)"),
        (("--where", "abs(steps_seen - 51 - 9223372036854775807) > 1"), "--where: integer overflow"),
        (("--workload", "lien"), "no workload named 'lien' (did you mean 'line'?)"),
        (("tag", "last", "two words"), "tag 'two words': expected one word"),
        (("tag", "last", "-x"), "No such option"),
        (("untag", "last", "accepte"), "has no tag 'accepte'"),
        (("--limit", "3", "rebuild"), "--limit cannot be combined with `jobs rebuild`"),
    ],
)
def test_mistakes_are_told_in_one_line(several: list[str], jobs: Jobs, arguments: tuple[str, ...], why: str) -> None:
    try:
        done = jobs(*arguments)
        assert done.exit_code == 2
        text = done.stderr
    except UsageError as error:
        text = str(error)
        assert error.exit_code == 2
        assert "\n" not in text
    assert why in text


def test_tags_come_and_go(several: list[str], jobs: Jobs, listed: Listed) -> None:
    assert jobs("tag", several[0], "accepted", "v1.2").stdout == f"{several[0]}: accepted, v1.2\n"
    assert [row["run_id"] for row in listed("--tag", "accepted")] == [several[4], several[0]]
    assert jobs("untag", several[4], "accepted").stdout == f"{several[4]}: night\n"
    assert [row["run_id"] for row in listed("--tag", "accepted")] == [several[0]]
    assert jobs("untag", "tag:v1.2", "accepted", "v1.2").stdout == f"{several[0]}: no tags\n"
    assert listed("--tag", "accepted") == []


def test_rebuild_says_how_many(several: list[str], jobs: Jobs) -> None:
    assert jobs("rebuild").stdout.startswith("6 runs of ")


def test_the_real_command_lists_without_loading_plugins(
    several: list[str], run_factory: RunFactory, cache_home: Path
) -> None:
    """Plugins take most of the start-up; with nothing to finalise no listing pays for them."""
    code = "import sys; sys.argv = ['llmbx', 'jobs', '--workload', 'line', '--format', 'json']\n" \
           "from llmbx.cli.main import cli\n" \
           "cli.main(standalone_mode=False)\n" \
           "print({m.partition('.')[0] for m in sys.modules if m.startswith('llmbx_')}, file=sys.stderr)"  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={"LLMB_INSTALL": run_factory.install.root, "XDG_CACHE_HOME": str(cache_home), "LLMBX_CONFIG": "/dev/null"},
    )  # fmt: skip
    assert len(json.loads(done.stdout)) == 6
    assert done.stderr == "{'llmbx_history'}\n"


def test_an_empty_user_is_a_usage_error(jobs: Jobs) -> None:
    with pytest.raises(UsageError, match="--user: expected a user's name, or all"):
        jobs("--user", "")


def test_options_of_the_listing_are_refused_before_a_command_below_it(jobs: Jobs) -> None:
    with pytest.raises(UsageError, match="--limit cannot be combined with `jobs rebuild`"):
        jobs("-n", "3", "rebuild")
