"""Finding logs of llmbx and of its predecessor, and ignoring other files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from llmbx.errors import UsageError
from llmbx.logs.parser import SNIFF, LogFormat, LogParser
from llmbx.model import Step
from llmbx_parse.find import experiment_name, find_logs


class Nothing(LogParser):
    def feed(self, line: str) -> list[Step]:
        return []


FORMATS = [
    LogFormat("dots", "Dots", lambda text: text.count(". step"), Nothing),
    LogFormat("bars", "Bars", lambda text: text.count("| step"), Nothing),
]


def touch(path: Path, text: str = "x\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_predecessors_folder(tmp_path: Path) -> None:
    wanted = [
        touch(tmp_path / "b/b_1/b/log-team.pretrain_b_4711_0.out"),
        touch(tmp_path / "a/log-a.out"),
        touch(tmp_path / "results/64/log-maxtext-64_70b_1407993.out"),
    ]
    for name in (
        "a/sbatch_a.out",
        "a/log-a_nccltrace.out",
        "a_nccltrace/log-a.out",
        "a/nsys_analysis_1.out",
        "a/x_prepare_squad_dataset_exp/log-x.out",
        "a/log-import_ckpt_exp_1.out",
        "a/notes.txt",
    ):
        touch(tmp_path / name)
    assert sorted(log.path for log in find_logs([tmp_path])) == sorted(str(path) for path in wanted)
    assert all(log.run_dir is None for log in find_logs([tmp_path]))


def test_a_run_folder_of_llmbx_has_one_log_beside_its_record(tmp_path: Path) -> None:
    run = tmp_path / "grok_1" / "grok"
    touch(run / "run.json", "{}")
    log = touch(run / "log-grok.out")
    for other in ("attempts/0/log-grok.out", "ranks/log-grok_1.out", "log-another.out", "sbatch_grok.out"):
        touch(run / other)
    found = find_logs([tmp_path])
    assert [(f.path, f.experiment, f.run_dir) for f in found] == [(str(log), "grok", str(run))]
    assert find_logs([log])[0].run_dir == str(run)
    assert find_logs([run / "attempts/0/log-grok.out"])[0].run_dir is None


def test_a_run_that_never_logged_is_still_a_run(tmp_path: Path) -> None:
    touch(tmp_path / "grok/run.json", "{}")
    assert [Path(f.path).name for f in find_logs([tmp_path])] == ["log-grok.out"]


def test_a_named_file_is_taken_whatever_its_name_and_only_once(tmp_path: Path) -> None:
    odd = touch(tmp_path / "sbatch_x.txt")
    usual = touch(tmp_path / "log-y.out")
    assert [f.path for f in find_logs([odd, usual, tmp_path])] == [str(odd), str(usual)]


def test_a_path_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere: no such file or folder"):
        find_logs([tmp_path / "nowhere"])


@pytest.mark.parametrize(
    ("name", "experiment"),
    [
        ("log-team-bench.pretrain_grok1_314b_bf16_256_388660_0.out", "pretrain_grok1_314b_bf16_256_388660"),
        ("log-pretrain_llama3.1_8b_fp8_8.out", "pretrain_llama3.1_8b_fp8_8"),
        ("log-maxtext-64_70b_1407993.out", "maxtext-64_70b_1407993"),
        ("log-x_tp2_pp1_4711_1.out", "x_tp2_pp1_4711"),
        ("slurm-4711.out", "slurm-4711"),
        ("train.txt", "train.txt"),
    ],
)
def test_an_experiments_name(name: str, experiment: str) -> None:
    assert experiment_name(Path(name)) == experiment


def test_the_format_that_sees_most_lines_wins(tmp_path: Path) -> None:
    log = touch(tmp_path / "log.out", ". step\n| step\n| step\n")
    assert (found := LogFormat.recognize(log, FORMATS)) is not None and found.name == "bars"
    tie = touch(tmp_path / "tie.out", ". step\n| step\n")
    assert (found := LogFormat.recognize(tie, FORMATS)) is not None and found.name == "dots"
    assert LogFormat.recognize(touch(tmp_path / "none.out"), FORMATS) is None
    assert LogFormat.recognize(touch(tmp_path / "empty.out", ""), FORMATS) is None
    assert LogFormat.recognize(log, []) is None


def test_only_the_ends_of_a_large_log_are_looked_at(tmp_path: Path) -> None:
    quiet = "quiet\n" * (SNIFF // 6 + 2)
    middle = touch(tmp_path / "middle.out", quiet + "| step\n" + quiet)
    assert LogFormat.recognize(middle, FORMATS) is None
    end = touch(tmp_path / "end.out", quiet + quiet + "| step\n")
    assert (found := LogFormat.recognize(end, FORMATS)) is not None and found.name == "bars"


def test_devices_and_names_that_are_too_long_are_refused(tmp_path: Path) -> None:
    for path, says in (
        (Path("/dev/zero"), "expected a file, a pipe or a folder"),
        (Path("a" * 300), "File name too long"),
        (tmp_path / "none", "no such file or folder"),
    ):
        with pytest.raises(UsageError, match=says):
            find_logs([path])


def test_a_pipe_is_read_once_and_one_without_a_writer_is_not_waited_for(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, b"| step\n" * 3)
    os.close(write)
    (log,) = find_logs([Path(f"/dev/fd/{read}")])
    os.close(read)
    for _ in range(2):
        assert (found := LogFormat.recognize(log.file, FORMATS)) is not None and found.name == "bars"
    os.mkfifo(tmp_path / "pipe")
    (empty,) = find_logs([tmp_path / "pipe"])
    assert LogFormat.recognize(empty.file, FORMATS) is None


def test_a_log_in_a_run_folder_is_not_followed_and_one_that_the_user_names_is(tmp_path: Path) -> None:
    run, private = tmp_path / "run", touch(tmp_path / "private", "| step\n")
    touch(run / "run.json", "{}")
    (run / "log-run.out").symlink_to(private)
    (found,) = find_logs([run])
    with pytest.raises(OSError, match="it is a link"):
        LogFormat.recognize(found.file, FORMATS)
    (named,) = find_logs([run / "log-run.out"])
    assert named.run_dir is None and LogFormat.recognize(named.file, FORMATS) is not None


def test_the_name_of_an_experiment_is_one_line() -> None:
    assert experiment_name(Path("log-a\nb\r.out")) == "a\\nb\\r"
