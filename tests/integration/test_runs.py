"""Whole runs of a third party's framework, from the command to the result, and everything that can go wrong in them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import junitparser
import psutil
import pytest

from ..patience import PATIENCE_S, wait_until

Llmbx = Callable[..., subprocess.CompletedProcess[str]]
Result = Callable[[Path], dict[str, Any]]


def ranks_of(folder: Path) -> list[psutil.Process]:
    """Processes that still work in a run folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(folder):
                found.append(process)
        except psutil.Error:
            continue
    return found


def one_line(text: str) -> str:
    """The last line of stderr, which must be a plain `llmbx: …` line without a traceback."""
    assert "Traceback" not in text, text
    return text.strip().splitlines()[-1]


def test_a_run_leaves_a_whole_record(llmbx: Llmbx, only_run: Callable[[], Path], read_result: Result) -> None:
    done = llmbx("run", "--plugin", "toy", "line")
    assert done.returncode == 0, done.stderr
    folder = only_run()
    result = read_result(folder)
    name = "fit_line_mini_fp32_1_tp1_pp1_cp1_vp1_mbs1_gbs4"
    assert folder.name == name and folder.parent.name.startswith(f"{name}_")
    assert (folder / f"log-{name}.out").is_file()
    assert (result["status"], result["data_valid"], result["exit_code"]) == ("completed", True, 0)
    assert result["window"]["first"] == 11 and result["window"]["last"] == 18 and result["steps_measured"] == 8
    assert result["steps_seen"] == 20 and result["loss"]["last"] < result["loss"]["first"]
    assert result["comparable"] is False and result["not_comparable_because"]
    assert result["mfu"]["value"] is None
    steps = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
    assert [step["number"] for step in steps] == list(range(1, 21))
    mean = sum(step["time_s"] for step in steps[10:18]) / 8
    assert result["step_time_s"]["mean"] == pytest.approx(mean)
    assert result["tokens_per_s"] == pytest.approx(64 * 4 / mean)
    assert 0 < result["timing"]["first_step_s"] <= result["timing"]["total_s"]
    record = json.loads((folder / "run.json").read_text())
    assert record["spec"]["origins"]["gpu_type"] == "no GPU on this machine"
    assert "completed" in done.stdout and record["id"] in done.stdout
    (files,) = (line.split()[1] for line in done.stdout.splitlines() if line.startswith("  files "))
    assert [*Path("/").glob(files.lstrip("/"))] == [folder]


def test_a_run_whose_output_nobody_takes_has_its_result(
    llmbx: Llmbx, install: Path, only_run: Callable[[], Path], read_result: Result
) -> None:
    command = f"{sys.executable} -m llmbx run --plugin toy line --launcher local --runtime host"
    environ = {**os.environ, "LLMB_INSTALL": str(install), "LLMBX_CONFIG": os.devnull}

    def shell(line: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["bash", "-c", line], env=environ, capture_output=True, check=False)

    full = shell(f"{command} >/dev/full")
    assert full.returncode == 4 and b"the output could not be written: No space left" in full.stderr
    assert read_result(only_run())["status"] == "completed"
    assert shell(f"{command} | true; exit ${{PIPESTATUS[0]}}").returncode == 0
    assert shell(f"{command} 2>&-").returncode == 0


def test_the_emitted_script_runs_without_llmbx(llmbx: Llmbx, only_run: Callable[[], Path], tmp_path: Path) -> None:
    """The script in the run folder is the run: started again by hand, it trains again."""
    assert llmbx("run", "line").returncode == 0
    folder = only_run()
    log = next(folder.glob("log-*.out"))
    before = log.read_text()
    log.unlink()
    (folder / "exit.json").unlink()
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(["bash", folder / "run.sh"], env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert log.read_text().count("toy step") == before.count("toy step") == 20


def test_several_ranks_have_logs_of_their_own(llmbx: Llmbx, only_run: Callable[[], Path], read_result: Result) -> None:
    assert llmbx("run", "line", "--gpus", "3", "--set", "gbs=12").returncode == 0
    folder = only_run()
    for rank in range(3):
        text = (folder / f"rank-{rank}.log").read_text()
        assert text.startswith(f"toy rank {rank} of 3")
    assert read_result(folder)["workload"]["gpus"] == 3


@pytest.mark.parametrize(
    ("fault", "status", "cause", "valid"),
    [
        ("nan", "failed", "the loss is not finite at step 10", False),
        ("oom", "out_of_memory", "out of memory", False),
        ("exit", "failed", "exit code 7", False),
        ("short", "failed", "after step 10", False),
        ("crash_at_end", "failed", "after the last step", True),
        ("frozen", "failed", "the loss is 1 in all of 20 steps (check loss-constant)", False),
        ("batch", "failed", "states 1 samples per step, not the 4 asked for (check stated-batch)", False),
        ("after", "failed", "after the last step: RuntimeError: the end is not the end (check crash-at-end)", True),
    ],
)
def test_a_failed_run_says_why(
    llmbx: Llmbx, only_run: Callable[[], Path], read_result: Result, fault: str, status: str, cause: str, valid: bool
) -> None:
    done = llmbx("run", "line", "--set", f"fault={fault}")
    assert done.returncode == 1, done.stderr
    result = read_result(only_run())
    assert (result["status"], result["data_valid"]) == (status, valid)
    assert cause in result["cause"]
    assert cause in " ".join(done.stdout.split())


def test_two_ranks_that_train_by_themselves_are_two_writers(
    llmbx: Llmbx, only_run: Callable[[], Path], read_result: Result
) -> None:
    done = llmbx("run", "line", "--gpus", "2", "--set", "fault=twice")
    result = read_result(only_run())
    assert (done.returncode, result["status"], result["data_valid"]) == (1, "failed", False)
    assert "two programs write into it (check two-writers)" in result["cause"]


def test_steps_that_claim_more_time_than_passed_are_invalid(
    llmbx: Llmbx, only_run: Callable[[], Path], read_result: Result
) -> None:
    done = llmbx("run", "line", "--set", "fault=lies", "--set", "pace=0.25")
    result = read_result(only_run())
    assert (done.returncode, result["data_valid"]) == (1, False)
    assert "passed between their lines (check clock-short)" in result["cause"]


def test_a_result_that_the_job_writes_is_not_taken(
    llmbx: Llmbx, only_run: Callable[[], Path], read_result: Result
) -> None:
    done = llmbx("run", "line", "--set", "fault=plants")
    folder = only_run()
    result = read_result(folder)
    assert (done.returncode, result["status"], result["steps_seen"]) == (0, "completed", 20)
    assert result["run_id"] == folder.parent.name
    assert "result.json that llmbx did not write" in result["warnings"][-1]
    assert json.loads((folder / "result.job.json").read_text())["run_id"] == "mine"


def test_a_rank_that_dies_takes_the_hanging_others_down(
    llmbx: Llmbx, only_run: Callable[[], Path], read_result: Result
) -> None:
    done = llmbx("run", "line", "--gpus", "2", "--set", "fault=die")
    assert done.returncode == 1
    folder = only_run()
    result = read_result(folder)
    assert (
        result["status"] in ("failed", "out_of_memory") and "rank 1" in result["cause"] and "SIGKILL" in result["cause"]
    )
    assert result["steps_seen"] == 10
    assert ranks_of(folder) == []


@pytest.mark.parametrize("fault", ["hang", "deaf"])
def test_ctrl_c_stops_the_ranks_and_keeps_the_steps(
    background: Callable[..., subprocess.Popen[str]], install: Path, only_run: Callable[[], Path], read_result: Result,
    fault: str,
) -> None:  # fmt: skip
    process = background("run", "line", "--set", f"fault={fault}")
    wait_until(lambda: any("toy step 10/" in log.read_text() for log in install.glob("workloads/**/log-*.out")))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    folder = only_run()
    result = read_result(folder)
    assert (result["status"], result["steps_seen"], result["exit_code"]) == ("cancelled", 10, 130)
    assert "Ctrl-C" in result["cause"]
    assert ranks_of(folder) == []


def test_ctrl_c_ends_the_repeats_too(background: Callable[..., subprocess.Popen[str]], install: Path) -> None:
    process = background("run", "line", "--repeat", "3", "--set", "fault=hang", "--format", "json")
    wait_until(lambda: any("toy step 10/" in log.read_text() for log in install.glob("workloads/**/log-*.out")))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    assert [result["status"] for result in json.loads(out)] == ["cancelled"]


CHILDREN = ("plain", "setsid", "daemon", "deaf", "stopped")
"""What the toy starts with `children=all`: also processes that leave their session, their parent, or ignore SIGTERM."""
END_S = 100.0
"""Ten times the 10 s in which everything that a run has started must have ended."""


@pytest.fixture
def with_children(
    background: Callable[..., subprocess.Popen[str]], install: Path
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """`with_children("run", "line")`: the command, with a run that has started every kind of child process."""

    def begin(*arguments: str) -> subprocess.Popen[str]:
        process = background(*arguments, "--set", "children=all", "--set", "hold=go")
        wait_until(lambda: names() >= {*CHILDREN, "train.py"})
        wait_until(lambda: any("toy step 5/" in log.read_text() for log in install.glob("workloads/**/log-*.out")))
        return process

    def names() -> set[str]:
        found = set()
        for process in living():
            with contextlib.suppress(psutil.Error, IndexError):
                found.add(process.cmdline()[-1])
        return found

    def living() -> list[psutil.Process]:
        folders = [record.parent for record in install.glob("workloads/*/experiments/*/*/*/run.json")]
        return [process for folder in folders for process in ranks_of(folder)]

    yield begin
    for process in living():
        process.kill()


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_to_llmbx_ends_the_run_and_all_that_it_started(
    with_children: Callable[..., subprocess.Popen[str]], only_run: Callable[[], Path], read_result: Result, name: str
) -> None:
    process = with_children("run", "line", "--repeat", "2")
    process.send_signal(signal.Signals[name])
    process.communicate(timeout=PATIENCE_S)
    folder = only_run()  # the second repeat was not started
    assert process.returncode == 130
    assert ranks_of(folder) == []
    result = read_result(folder)
    cause = "interrupted by " + ("Ctrl-C" if name == "SIGINT" else name)
    assert (result["status"], result["exit_code"], result["cause"]) == ("cancelled", 130, cause)


def test_killed_with_9_the_run_and_all_that_it_started_end_and_the_next_command_records_it(
    llmbx: Llmbx, with_children: Callable[..., subprocess.Popen[str]], only_run: Callable[[], Path],
    read_result: Result,
) -> None:  # fmt: skip
    process = with_children("run", "line")
    process.kill()
    process.wait()
    folder = only_run()
    wait_until(lambda: ranks_of(folder) == [], seconds=END_S)
    assert not (folder / "result.json").exists()
    (row,) = json.loads(llmbx("jobs", "--format", "json").stdout)
    assert row["status"] == "cancelled" and "llmbx that attended the run was killed" in row["cause"]
    assert 2 <= read_result(folder)["steps_seen"] < 20


def test_a_detached_run_ends_with_all_that_it_started_when_it_is_cancelled(
    llmbx: Llmbx, with_children: Callable[..., subprocess.Popen[str]], only_run: Callable[[], Path],
    read_result: Result,
) -> None:  # fmt: skip
    process = with_children("run", "line", "--detach")
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    folder = only_run()
    assert json.loads(llmbx("status", "--format", "json").stdout)["status"] == "running"
    assert llmbx("cancel", "last").returncode == 0
    assert ranks_of(folder) == [] and read_result(folder)["status"] == "cancelled"


def test_a_sweep_that_is_terminated_ends_its_run_and_can_be_resumed(
    with_children: Callable[..., subprocess.Popen[str]], only_run: Callable[[], Path], read_result: Result
) -> None:
    sweep = with_children("sweep", "line", "--repeats", "2", "--launcher", "local")
    sweep.terminate()
    _, err = sweep.communicate(timeout=PATIENCE_S)
    assert sweep.returncode == 130 and "llmbx sweep --resume" in err, err
    assert ranks_of(only_run()) == [] and read_result(only_run())["status"] == "cancelled"


def test_a_run_whose_processes_were_all_killed_is_lost(
    llmbx: Llmbx, install: Path, only_run: Callable[[], Path], read_result: Result
) -> None:
    assert llmbx("run", "line", "--set", "hold=go", "--detach").returncode == 0
    wait_until(lambda: any("toy step 2/" in log.read_text() for log in install.glob("workloads/**/log-*.out")))
    folder = only_run()
    for rank in ranks_of(folder):
        rank.kill()
    wait_until(lambda: ranks_of(folder) == [])
    (row,) = json.loads(llmbx("jobs", "--format", "json").stdout)
    assert row["status"] in ("lost", "failed")
    result = read_result(folder)
    assert result["data_valid"] is False and 2 <= result["steps_seen"] < 20


def test_a_silent_run_is_stopped_with_its_stacks(
    llmbx: Llmbx, only_run: Callable[[], Path], read_result: Result
) -> None:
    done = llmbx("run", "line", "--set", "fault=silent", "--stall-timeout", "5")
    assert done.returncode == 1, done.stderr
    folder = only_run()
    result = read_result(folder)
    assert result["status"] == "failed" and result["cause"].startswith("stalled")
    assert 'train.py", line' in next(folder.glob("log-*.out")).read_text()
    assert ranks_of(folder) == []


def test_two_runs_at_once_do_not_meet(
    background: Callable[..., subprocess.Popen[str]], install: Path, read_result: Result
) -> None:
    both = [background("run", "line") for _ in range(2)]
    for process in both:
        _, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, err
    folders = [record.parent for record in install.glob("workloads/*/experiments/*/*/*/run.json")]
    assert len(folders) == 2
    assert [read_result(folder)["status"] for folder in folders] == ["completed"] * 2


def test_repeats_are_joined(llmbx: Llmbx) -> None:
    done = llmbx("run", "line", "--repeat", "2")
    assert done.returncode == 0
    assert "2 of 2 repeats" in done.stdout


def test_repeats_are_one_json_array_and_the_sentence_is_for_people(llmbx: Llmbx) -> None:
    done = llmbx("run", "line", "--repeat", "2", "--format", "json")
    assert done.returncode == 0
    assert [result["status"] for result in json.loads(done.stdout)] == ["completed", "completed"]
    assert "2 of 2 repeats" in done.stderr


def test_what_was_started_and_left_is_an_object_too(llmbx: Llmbx) -> None:
    one = json.loads(llmbx("run", "line", "--detach", "--format", "json").stdout)
    assert set(one) == {"id", "run_id", "folder", "job_id"} and one["run_id"] in one["folder"] and one["job_id"]
    several = json.loads(llmbx("run", "line", "--detach", "--repeat", "2", "--format", "json").stdout)
    assert len({one["run_id"], *(each["run_id"] for each in several)}) == 3
    for run_id in (one["run_id"], *(each["run_id"] for each in several)):
        assert llmbx("logs", "--follow", run_id).returncode == 0


def test_from_repeats_a_run(llmbx: Llmbx) -> None:
    assert llmbx("run", "line", "--set", "rate=0.2").returncode == 0
    (first,) = json.loads(llmbx("jobs", "--format", "json").stdout)
    assert llmbx("run", "--from", first["run_id"]).returncode == 0
    second, _ = json.loads(llmbx("jobs", "--format", "json").stdout)
    old, new = (json.loads((Path(row["folder"]) / "run.json").read_text()) for row in (first, second))
    assert new["spec"]["settings"] == old["spec"]["settings"] and new["repeats"] == first["run_id"]


def test_a_broken_rule_stops_the_run_before_anything_starts(llmbx: Llmbx, install: Path) -> None:
    done = llmbx("run", "line", "--set", "rate=0", "--set", "gbs=6", "--gpus", "4")
    assert done.returncode == 2
    assert "a learning rate of 0 learns nothing; use --set rate=0.1" in done.stderr and "batch" in done.stderr.lower()
    assert not list(install.glob("workloads/**/run.json"))


def test_a_trace_reaches_every_rank_as_it_was_asked_for(llmbx: Llmbx) -> None:
    asked = ("--trace-subsystems", "init,coll,tuning", "--trace-file-per-rank")
    done = llmbx("run", "line", "--with", "nccltrace", *asked, "--emit-script", "-")
    assert done.returncode == 0, done.stderr
    assert "export NCCL_DEBUG_SUBSYS=INIT,COLL,TUNING" in done.stdout
    assert "nccl_trace/nccl.%h.%p.log" in done.stdout


def test_force_overrides_and_is_recorded(llmbx: Llmbx, only_run: Callable[[], Path], read_result: Result) -> None:
    """The run starts although a rule says that it cannot learn; what it does is judged as always."""
    assert llmbx("run", "line", "--set", "rate=0", "--force").returncode == 1
    result = read_result(only_run())
    assert any("--force" in reason for reason in result["not_comparable_because"])
    assert "(check loss-constant)" in result["cause"] and result["steps_seen"] == 20


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lime"], "did you mean 'line'"),
        (["line", "--size", "maxi"], "no size 'maxi'"),
        (["line", "--dtype", "fp9"], "fp9"),
        (["line", "--gpu-type", "hh100"], "did you mean 'h100'"),
        (["line", "--set", "rat=1"], "did you mean 'rate'"),
        (["line", "--window", "30-40"], "only 20 steps"),
        (["line", "--window", "soon"], "expected A-B"),
        (["line", "--env", "HF_TOKEN=hf_x"], "export HF_TOKEN instead"),
        (["line", "--runtime", "dockr"], "did you mean 'docker'"),
        (["line", "--launcher", "slrum"], "did you mean 'slurm'"),
        (["line", "--cluster", "eos"], "no cluster named 'eos'"),
        (["--plugin", "tyo", "line"], "did you mean 'toy'"),
        (["line", "--trace-subsystems", "COLL"], "--trace-subsystems is an option of nccltrace"),
        (["line", "--with", "nccltrace", "--trace-subsystems", "COL"], "did you mean 'COLL'?"),
        (["line", "--from", "x"], "--from cannot be combined with a workload"),
        ([], "no workload specified"),
    ],
)
def test_a_wrong_request_is_one_line_and_exit_2(llmbx: Llmbx, install: Path, arguments: list[str], said: str) -> None:
    done = llmbx("run", *arguments)
    assert done.returncode == 2
    assert said in one_line(done.stderr)
    assert done.stdout == "" and not list(install.glob("workloads/**/run.json"))


def test_an_install_that_cannot_be_made_is_exit_2(llmbx: Llmbx, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = llmbx("run", "line", install=tmp_path / "file" / "install")
    assert done.returncode == 2 and "LLMB_INSTALL" in one_line(done.stderr)


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    """A file system of 640 KiB; needs root, as the tests' own set-up has on a machine of CI."""
    folder = tmp_path / "small"
    folder.mkdir()
    if os.geteuid() != 0:
        assert not os.environ.get("CI"), "CI runs as root: this test must not be left out there"
        pytest.skip("mounting a small file system needs root")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=640k", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_is_said_in_one_line(llmbx: Llmbx, small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(b"x" * 500_000)
    done = llmbx("run", "line", "--set", "fault=chatty", install=small_disk)
    assert done.returncode in (1, 4)
    assert "disk is full" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_read_only_install_is_exit_2(llmbx: Llmbx, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    done = llmbx("run", "line", install=small_disk)
    assert done.returncode == 2
    assert "Read-only file system" in one_line(done.stderr) and "LLMB_INSTALL" in done.stderr


def test_no_secret_is_kept_anywhere(llmbx: Llmbx, install: Path) -> None:
    token = "hf_plantedTokenThatMustNotBeKept"
    done = llmbx("run", "line", env={"HF_TOKEN": token, "MY_API_KEY": token})
    assert done.returncode == 0
    preview = llmbx("run", "line", "--dry-run", env={"HF_TOKEN": token})
    assert token not in done.stdout + done.stderr + preview.stdout + preview.stderr
    holders = [p for p in install.rglob("*") if p.is_file() and token.encode() in p.read_bytes()]
    assert holders == []


def test_a_run_in_the_background_is_seen_followed_and_cancelled_from_another_shell(
    llmbx: Llmbx, only_run: Callable[[], Path], read_result: Result
) -> None:
    started = llmbx("run", "line", "--set", "hold=go", "--detach")
    assert started.returncode == 0, started.stderr
    run_id = started.stdout.strip()
    wait_until(lambda: any("toy step 2/" in log.read_text() for log in only_run().glob("log-*.out")))
    status = json.loads(llmbx("status", run_id, "--format", "json").stdout)
    assert status["status"] == "running" and status["step"] >= 2 and status["job_id"]
    assert "toy step 1/20" in llmbx("logs", run_id[:-1]).stdout
    cancelled = llmbx("cancel", "last")
    assert cancelled.returncode == 0 and "cancelled after" in cancelled.stdout, cancelled.stderr
    assert read_result(only_run())["status"] == "cancelled" and ranks_of(only_run()) == []
    again = llmbx("cancel", run_id)
    assert again.returncode == 2 and "has already ended" in again.stderr


def test_following_a_detached_run_ends_with_its_result(llmbx: Llmbx, only_run: Callable[[], Path]) -> None:
    run_id = llmbx("run", "line", "--set", "pace=0.05", "--detach").stdout.strip()
    followed = llmbx("logs", "--follow", run_id)
    assert followed.returncode == 0 and "completed" in followed.stdout and "step 20/20" in followed.stderr
    (log,) = only_run().glob("log-*.out")
    log.unlink()
    gone = llmbx("logs", run_id)
    assert gone.returncode == 2 and gone.stderr == f"llmbx: {log}: no such file\n"


def test_a_clusters_launch_is_previewed_on_a_machine_that_has_none_of_its_tools(llmbx: Llmbx, tmp_path: Path) -> None:
    bare = {"PATH": str(tmp_path)}
    done = llmbx("run", "grok1", "--gpu-type", "gb200", "--gpus", "128", "--dtype", "fp8", "--dry-run", env=bare)
    assert done.returncode == 0, done.stderr
    assert "pyxis (assumed: no suitable runtime works on this machine)" in done.stdout
    assert "srun --export=ALL --nodes=32 --ntasks=128" in done.stdout
    script = tmp_path / "job.sh"
    done = llmbx(
        "run", "grok1", "--gpu-type", "gb200", "--gpus", "128", "--dtype", "fp8", "--emit-script", str(script), env=bare
    )
    assert done.returncode == 0 and os.access(script, os.X_OK)
    assert "#SBATCH --nodes=32" in script.read_text()
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0
    started = llmbx("run", "grok1", "--gpu-type", "gb200", "--gpus", "128", "--dtype", "fp8", env=bare)
    assert started.returncode == 4 and "no runtime works here" in one_line(started.stderr)


def test_show_gives_every_member_of_its_json_object(llmbx: Llmbx) -> None:
    done = llmbx(
        "show", "nemo", "llama3.1", "--size", "405b", "--gpu-type", "h100", "--gpus", "1024", "--format", "json"
    )
    facts = json.loads(done.stdout)
    assert {
        "workload", "size", "dtype", "gpu_type", "gpus", "recipe", "sequence_length", "layers", "hidden_size",
        "global_batch_size", "micro_batch_size", "gradient_accumulation", "parallelism", "cuda_graphs",
        "recompute_layers", "offload_layers", "flops_per_sample", "peak_tflops", "image", "reference", "origins",
    } <= facts.keys()  # fmt: skip
    assert {"tp", "pp", "cp", "ep", "etp", "dp", "vp", "fsdp"} == facts["parallelism"].keys()
    assert facts["parallelism"]["tp"] == 8 and facts["layers"] == 126 and facts["peak_tflops"]["value"] == 1979
    assert f"{facts['flops_per_sample']['causal']:.4g}" == "2.068e+16"


def test_a_network_that_could_not_be_initialised_is_tried_again(
    llmbx: Llmbx, only_run: Callable[..., Path], read_result: Result
) -> None:
    done = llmbx("run", "line", "--set", "fault=network", "--retries", "2")
    result = read_result(only_run())
    assert (done.returncode, result["status"], result["attempt"]) == (0, "completed", 1), done.stderr
    assert "attempt 0 failed: " in done.stderr and "NCCL error" in done.stderr
    (earlier,) = json.loads((only_run() / "run.json").read_text())["attempts"]
    assert (earlier["number"], earlier["status"], earlier["exit_code"]) == (0, "failed", 1)
    kept = only_run() / "attempts" / "0"
    assert "NCCL error" in next(kept.glob("log-*.out")).read_text()
    assert json.loads((kept / "result.json").read_text())["status"] == "failed"


def test_the_last_attempt_decides(llmbx: Llmbx, only_run: Callable[..., Path], read_result: Result) -> None:
    done = llmbx("run", "line", "--set", "fault=exit", "--retries", "2")
    result = read_result(only_run())
    assert (done.returncode, result["status"], result["attempt"]) == (1, "failed", 0)
    assert not (only_run() / "attempts").exists()


def test_a_sweep_that_lives_with_its_user_goes_on_where_ctrl_c_ended_it(
    llmbx: Llmbx, background: Callable[..., subprocess.Popen[str]], install: Path
) -> None:
    def results() -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in install.glob("workloads/*/experiments/*/*/*/result.json")]

    def second_trains() -> bool:
        logs = [log.read_text() for log in install.glob("workloads/**/log-*.out")]
        return len(logs) == 2 and all("toy step 5/" in log for log in logs)

    sweep = background("sweep", "line", "--set", "pace=0.2", "--repeats", "3", "--launcher", "local")
    wait_until(second_trains)
    sweep.send_signal(signal.SIGINT)
    _, err = sweep.communicate(timeout=PATIENCE_S)
    assert sweep.returncode == 130 and "llmbx sweep --resume" in err, err
    assert sorted(result["status"] for result in results()) == ["cancelled", "completed"]
    (shown,) = json.loads(llmbx("sweep", "--show", "--format", "json").stdout)
    assert shown["n"] == 1 and len(shown["runs"]) == 2
    done = llmbx("sweep", "--resume", "--format", "json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert (row["n"], row["status"]) == (3, "completed")
    assert sorted(result["status"] for result in results()) == ["cancelled"] + ["completed"] * 3


def test_a_resumed_sweep_runs_the_cell_again_whose_llmbx_was_killed_with_9(
    llmbx: Llmbx, background: Callable[..., subprocess.Popen[str]], install: Path, tmp_path: Path
) -> None:
    def trains() -> bool:
        return any("toy step 5/" in log.read_text() for log in install.glob("workloads/**/log-*.out"))

    go = tmp_path / "go"
    sweep = background("sweep", "line", "--set", "rate=0.1,0.2", "--set", f"hold={go}", "--launcher", "local")
    wait_until(trains)
    sweep.kill()
    sweep.wait()
    go.touch()
    done = llmbx("sweep", "--resume", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert [(row["n"], row["status"]) for row in json.loads(done.stdout)] == [(1, "completed")] * 2
    results = [json.loads(path.read_text()) for path in install.glob("workloads/*/experiments/*/*/*/result.json")]
    assert sorted(result["status"] for result in results) == ["cancelled", "completed", "completed"]


def test_a_ci_server_gets_a_test_case_for_each_run(llmbx: Llmbx) -> None:
    done = llmbx("run", "line", "--repeat", "2", "--format", "junit")
    assert done.returncode == 0, done.stderr
    (suite,) = junitparser.JUnitXml.fromroot(junitparser.junitparser.etree.fromstring(done.stdout.encode()))
    assert [case.is_passed for case in suite] == [True, True] and suite.tests == 2
    failed = llmbx("run", "line", "--set", "fault=exit", "--format", "junit")
    assert failed.returncode == 1
    (suite,) = junitparser.JUnitXml.fromroot(junitparser.junitparser.etree.fromstring(failed.stdout.encode()))
    assert suite.failures == 1
    for other in ("--dry-run", "--detach"):
        refused = llmbx("run", "line", "--format", "junit", other)
        assert refused.returncode == 2 and not refused.stdout
        assert "there is no result to report" in one_line(refused.stderr)
