"""Real local runs with small shell programs as ranks: start, stop and recovery."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from llmbx.errors import InfraError, UsageError
from llmbx.launchers import detached
from llmbx.launchers.local import LocalLauncher
from llmbx.launchers.processes import PLACE
from llmbx.model import Job, Launch, Prefix, Wrapping

from ...patience import PATIENCE_S, wait_until
from .conftest import LocalRun, make_launch, make_spec, shell_phase

Start = Callable[..., LocalRun]


@pytest.fixture(autouse=True)
def _nothing_ignored() -> Iterator[None]:
    """A script cannot trap signals that were ignored when it was started, for example SIGHUP under nohup."""
    known = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGHUP, signal.SIGTERM)}
    yield
    for number, handler in known.items():
        signal.signal(number, handler)


def exit_json(run: LocalRun) -> dict[str, object]:
    loaded: dict[str, object] = json.loads((run.folder / "exit.json").read_text())
    return loaded


def children(run: LocalRun) -> set[str]:
    """The living child processes of the script."""
    return set(Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split())


def test_one_rank_writes_straight_into_the_main_log(start: Start) -> None:
    run = start(make_launch("echo out; echo err >&2"))
    status = run.end()
    assert (status.state, status.exit_code, status.rank, status.phase) == ("ended", 0, None, None)
    assert run.log == "out\nerr\n"
    assert status.started is not None and status.ended is not None and 0 <= status.ended - status.started < 20
    assert not list(run.folder.glob("rank-*.log"))
    assert "ended with exit code 0" in run.batch


def test_a_rank_knows_its_place(start: Start) -> None:
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR")
    say = " ".join(f"$LLMBX_{name}" for name in names)
    run = start(make_launch(f'echo "{say}"; echo "port $LLMBX_MASTER_PORT"', ranks=3))
    assert run.end().exit_code == 0
    for rank in range(3):
        place, port = (run.folder / f"rank-{rank}.log").read_text().splitlines()
        assert place == f"{rank} {rank} 3 3 0 127.0.0.1"
        assert 1024 < int(port.split()[1]) < 65536
    assert len(set(re.findall(r"port (\d+)", run.log))) == 1


@pytest.mark.parametrize("code", [1, 3, 137])
def test_the_exit_code_of_a_rank_is_the_runs(start: Start, code: int) -> None:
    status = start(make_launch(f"exit {code}")).end()
    assert (status.exit_code, status.rank, status.phase, status.verdict) == (code, 0, "train", None)


def test_a_rank_killed_by_the_kernel_for_memory_is_out_of_memory(start: Start) -> None:
    run = start(make_launch("kill -9 $$"))
    status = run.end()
    assert (status.exit_code, status.verdict) == (137, None)
    killed = {**exit_json(run), "oom_kills": 1}
    (run.folder / "exit.json").write_text(json.dumps(killed))
    status = run.status()
    assert (status.verdict, status.reason) == ("out_of_memory", "the kernel killed 1 process(es) because of memory")


def test_a_rank_that_dies_takes_the_hanging_ones_with_it(start: Start) -> None:
    run = start(make_launch('[ "$LLMBX_RANK" = 2 ] && sleep 1 && exit 5; sleep 600', ranks=4))
    status = run.end()
    assert (status.exit_code, status.rank, status.phase) == (5, 2, "train")
    run.wait_until_gone()
    assert "rank 2 ended with exit code 5" in run.batch


def test_the_rank_that_failed_first_is_named_though_others_fail_soon_after(start: Start) -> None:
    dies = '[ "$LLMBX_RANK" = 3 ] && { touch gone; kill -9 $$; }; '
    notices = "until [ -e gone ]; do sleep 0.05; done; sleep 0.2; exit 1"
    status = start(make_launch(dies + notices, ranks=4)).end()
    assert (status.exit_code, status.rank) == (137, 3)


def test_a_rank_that_ignores_term_is_killed_after_the_grace(start: Start) -> None:
    run = start(
        make_launch(
            '[ "$LLMBX_RANK" = 0 ] && sleep 0.5 && exit 4; trap "" TERM; echo deaf; while :; do sleep 1; done', ranks=2
        )
    )
    status = run.end()
    assert (status.exit_code, status.rank) == (4, 0)
    run.wait_until_gone()


def test_output_of_ranks_while_they_are_stopped_reaches_the_log(start: Start) -> None:
    saves = 'trap "echo saved-$LLMBX_RANK; exit 0" TERM; '
    program = saves + '[ "$LLMBX_RANK" = 0 ] && sleep 0.7 && exit 9; while :; do sleep 0.1; done'
    run = start(make_launch(program, ranks=3))
    assert run.end().exit_code == 9
    assert sorted(line for line in run.log.splitlines() if "saved" in line) == ["saved-1", "saved-2"]


@pytest.mark.parametrize(("name", "code"), [("TERM", 143), ("INT", 130), ("HUP", 129)])
def test_a_signal_to_the_script_stops_all_ranks_and_is_recorded(start: Start, name: str, code: int) -> None:
    run = start(make_launch("echo up; sleep 600", ranks=2))
    run.wait_for("up\nup")
    os.kill(run.pid, signal.Signals[f"SIG{name}"])
    status = run.end()
    assert (status.exit_code, status.verdict, status.reason) == (code, "cancelled", f"stopped by SIG{name}")
    assert exit_json(run)["signal"] == name
    run.wait_until_gone()


def test_a_rank_whose_supervisor_is_killed_is_noticed(start: Start) -> None:
    run = start(make_launch("echo up; sleep 600", ranks=2))
    run.wait_for("up\nup")
    supervisors = [pid for pid in children(run) if "rank-1.log" in str(Path(f"/proc/{pid}/fd/1").readlink())]
    os.kill(int(supervisors[0]), signal.SIGKILL)
    status = run.end()
    assert (status.exit_code, status.rank) == (137, 1)
    run.wait_until_gone()


def test_cancel_stops_everything(start: Start) -> None:
    run = start(make_launch("echo up; sleep 600 & sleep 600"))
    run.wait_for("up")
    run.launcher.cancel(run.job, run.folder)
    status = run.status()
    assert (status.state, status.exit_code, status.verdict) == ("ended", 143, "cancelled")
    run.wait_until_gone()


def test_ranks_continue_when_their_script_is_killed_and_can_still_be_cancelled(start: Start) -> None:
    run = start(make_launch("echo up; while [ ! -e go ]; do sleep 0.05; done; echo late; sleep 600", ranks=2))
    run.wait_for("up\nup")
    os.kill(run.pid, signal.SIGKILL)
    wait_until(lambda: "its script was killed" in run.status().reason)
    assert run.status().state == "running"
    (run.folder / "go").touch()
    run.wait_for("late\nlate")
    run.launcher.cancel(run.job, run.folder)
    wait_until(lambda: run.status().state == "lost")
    status = run.status()
    assert status.exit_code is None
    assert "ended without writing exit.json" in status.reason


def test_usr1_reaches_every_rank_and_does_not_kill_ranks_without_a_handler(start: Start) -> None:
    lines = ("import faulthandler, signal, time", "faulthandler.register(signal.SIGUSR1)", "print('up', flush=True)")
    program = "\n".join([*lines, "time.sleep(600)"])
    knows = shell_phase('[ "$LLMBX_RANK" = 0 ] && exec "$0" -c "$1"; echo up; sleep 2; echo unharmed')
    knows = knows.replace(argv=(*knows.argv, sys.executable, program))
    run = start(make_launch(knows, ranks=2))
    run.wait_for("up\nup")
    before = children(run)
    run.launcher.dump_stacks(run.job, run.folder)
    run.wait_for('File "<string>", line 4 in <module>', "rank-0.log")
    assert children(run) == before
    run.wait_for("unharmed", "rank-1.log")
    assert run.status().state == "running"


def test_four_ranks_are_merged_without_losing_or_cutting_a_line(start: Start) -> None:
    program = (
        "import os, sys, random\n"
        "rank = os.environ['LLMBX_RANK']\n"
        "for n in range(2000):\n"
        "    line = f'<{rank} {n} ' + 'x' * (50_000 if n % 500 == 7 else random.randrange(200)) + f' {n} {rank}>'\n"
        "    half = random.randrange(len(line))\n"
        "    os.write(1, line[:half].encode()); os.write(1, line[half:].encode() + b'\\n')\n"
        "os.write(1, b'<last word without a line end>')\n"
    )
    run = start(make_launch(shell_phase("").replace(argv=(sys.executable, "-c", program)), ranks=4))
    assert run.end().exit_code == 0
    lines = run.log.splitlines()
    assert lines.count("<last word without a line end>") == 4
    whole = [re.fullmatch(r"<(\d) (\d+) x* (\d+) (\d)>", line) for line in lines if "last word" not in line]
    assert all(whole) and all(m and m[1] == m[4] and m[2] == m[3] for m in whole)
    for rank in range(4):
        assert [int(m[2]) for m in whole if m and m[1] == str(rank)] == list(range(2000))
        clean = (run.folder / f"rank-{rank}.log").read_text()
        assert len(clean.splitlines()) == 2001 and set(re.findall(r"<(\d) ", clean)) == {str(rank)}


def test_the_merged_log_grows_while_the_ranks_run(start: Start) -> None:
    run = start(make_launch("echo early; sleep 600", ranks=2))
    run.wait_for("early\nearly")
    assert run.status().state == "running"


def three_phases(skip: bool = True) -> tuple[object, ...]:
    collect = shell_phase(
        'echo collect $LLMBX_RANK; touch "p $LLMBX_RANK"', "collect", makes=("p *",), skip_if="cache/profile"
    )
    convert = shell_phase(
        'echo convert $LLMBX_RANK/$LLMBX_WORLD_SIZE; cat p* > profile', "convert", ranks="first", needs=("p 0", "p 1"),
        makes=("profile",), skip_if="cache/profile",
    )  # fmt: skip
    return collect, convert, shell_phase("echo train $LLMBX_RANK")


def test_a_companion_runs_once_beside_the_ranks_of_a_phase(start: Start) -> None:
    says = 'echo "$LLMBX_RANK $LLMBX_COMPANION_OF" >> seen; while kill -0 "$LLMBX_COMPANION_OF"; do sleep 0.1; done'
    beside = Launch.Companion(name="beside", argv=("/bin/sh", "-c", f"{{ {says}; echo ended >> seen; }} 2> /dev/null"))
    run = start(make_launch('echo "mine $$"; while [ ! -s seen ]; do sleep 0.1; done', ranks=3, companions=(beside,)))
    assert run.end().exit_code == 0
    (first,) = re.findall(r"mine (\d+)", (run.folder / "rank-0.log").read_text())
    assert (run.folder / "seen").read_text().split("\n")[0] == f"0 {first}"
    assert (run.folder / "seen").read_text().count("0 ") == 1


@pytest.mark.parametrize(
    ("program", "prints"), [("/nonexistent/python3", "/nonexistent/python3: not found"), ("exit 7", "")]
)
def test_a_companion_that_fails_does_not_matter(start: Start, program: str, prints: str) -> None:
    argv = (program,) if program.startswith("/") else ("/bin/sh", "-c", program)
    run = start(make_launch("echo trained", companions=(Launch.Companion(name="beside", argv=argv),)))
    assert run.end().exit_code == 0 and run.log == "trained\n"
    wait_until(lambda: prints in (run.folder / "beside" / "node-0.err").read_text())


def test_phases_run_in_order_with_a_barrier_between(start: Start) -> None:
    run = start(make_launch(*three_phases(), ranks=2))  # type: ignore[arg-type]
    assert run.end().exit_code == 0
    lines = run.log.splitlines()
    assert sorted(lines[:2]) == ["collect 0", "collect 1"] and sorted(lines[3:]) == ["train 0", "train 1"]
    assert lines[2] == "convert 0/1"
    assert [(p["role"], p["skipped"]) for p in exit_json(run)["phases"]] == [  # type: ignore[attr-defined]
        ("collect", False), ("convert", False), ("train", False),
    ]  # fmt: skip


def test_a_phase_whose_output_exists_is_skipped(start: Start) -> None:
    run = start(make_launch(*three_phases(), ranks=2, files={"cache/profile": b"known\n"}))  # type: ignore[arg-type]
    assert run.end().exit_code == 0
    assert sorted(run.log.splitlines()) == ["train 0", "train 1"]
    assert [p["skipped"] for p in exit_json(run)["phases"]] == [True, True, False]  # type: ignore[attr-defined]


def test_a_phase_without_what_it_needs_does_not_start(start: Start) -> None:
    run = start(make_launch(shell_phase("echo started", needs=('no "such" file',))))
    status = run.end()
    assert (status.exit_code, status.phase, status.rank) == (1, "train", None)
    assert status.reason == 'phase train needs no "such" file, which does not exist'
    assert not (run.folder / f"log-{run.spec.experiment}.out").exists()


def test_a_phase_without_its_output_stops_the_run(start: Start) -> None:
    first = shell_phase("true", "collect", makes=("profile",))
    run = start(make_launch(first, shell_phase("echo trained"), files={"profile": b"from an earlier attempt\n"}))
    status = run.end()
    assert (status.exit_code, status.phase) == (1, "collect")
    assert status.reason == "phase collect ended with exit code 0 but did not make profile"
    assert "trained" not in (run.log if (run.folder / f"log-{run.spec.experiment}.out").exists() else "")


AWKWARD = {
    "SPACES": "  two  words ",
    "QUOTES": """it's "quoted" `date` $(date)""",
    "DOLLAR": "$HOME ${HOME} \\$HOME !! %s",
    "SEMICOLON": "a; b & c | d > e < f # g",
    "NEWLINES": "one\ntwo\n\nEND_OF_FILE\n",
    "DASH": "--leading=dash",
    "STARS": "* ? [a] {a,b} ~",
    "UNICODE": "\u00e4\u4e2d\u03c0 \t",
    "EMPTY": "",
}

READ_BACK = (
    "import json, os, sys\n"
    "json.dump({'argv': sys.argv[1:], 'env': dict(os.environ)}, open(f\"seen-{os.environ['LLMBX_RANK']}.json\", 'w'))\n"
)


def test_awkward_values_arrive_intact(start: Start) -> None:
    phase = shell_phase("").replace(
        argv=(sys.executable, "see it.py", *AWKWARD.values()),
        env=AWKWARD,
        prefixes=(Prefix(argv=("env", f"PREFIXED={AWKWARD['QUOTES']}")), Prefix(argv=("env", "ONLY=1"), ranks="last")),
    )
    wrapping = Wrapping(argv=("env", f"WRAPPED={AWKWARD['NEWLINES']}"), host_env={"HOSTED": AWKWARD["DOLLAR"]})
    launch = make_launch(phase, ranks=2, files={"see it.py": READ_BACK.encode()})
    run = start(launch, make_spec(gpus=2, env={"RUN": AWKWARD["SEMICOLON"]}), (wrapping,))
    assert run.end().exit_code == 0, run.batch
    for rank in range(2):
        seen = json.loads((run.folder / f"seen-{rank}.json").read_text())
        assert seen["argv"] == list(AWKWARD.values())
        expected = {
            **AWKWARD, "RUN": AWKWARD["SEMICOLON"], "WRAPPED": AWKWARD["NEWLINES"], "HOSTED": AWKWARD["DOLLAR"],
            "PREFIXED": AWKWARD["QUOTES"],
        }  # fmt: skip
        assert {name: seen["env"].get(name) for name in expected} == expected
        assert ("ONLY" in seen["env"]) == (rank == 1)


def test_files_of_any_content_are_written_by_the_script(start: Start) -> None:
    contents = {
        "text": b"a\n",
        "no line end": b"a",
        "sub dir/-bytes": bytes(range(256)),
        "marker": b"END_OF_FILE\n$HOME `date`\n",
        "empty": b"",
    }
    run = start(make_launch("ls", files=contents))
    assert run.end().exit_code == 0, run.batch
    assert {name: (run.folder / name).read_bytes() for name in contents} == contents


def test_secrets_reach_the_ranks_but_not_the_script(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_very_secret")
    phase = shell_phase("echo ${#HF_TOKEN}", forward=("HF_TOKEN",), env={"MY_API_KEY": "key_very_secret"})
    run = start(make_launch(phase))
    assert run.end().exit_code == 0
    assert run.log == "14\n"
    assert "very_secret" not in run.script.read_text()


@pytest.mark.parametrize("grace", ["x", "-1", "1.5", "nan"])
def test_an_invalid_grace_period_is_rejected_before_the_start(
    grace: str, start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LLMBX_STOP_GRACE_S", grace)
    for action in (lambda: start(make_launch("true")), lambda: detached.stop("1", tmp_path)):
        with pytest.raises(UsageError, match=f"LLMBX_STOP_GRACE_S='{grace}': expected an integer number of seconds"):
            action()
    monkeypatch.setenv("LLMBX_STOP_GRACE_S", "")
    assert detached.stop_grace_s(os.environ) == 5


def test_setup_lines_run_first_and_their_failure_ends_the_run(start: Start) -> None:
    run = start(make_launch("echo $FROM_SETUP"), make_spec(setup=("export FROM_SETUP=here",)))
    assert run.end().exit_code == 0
    assert run.log == "here\n"
    run = start(make_launch("echo never"), make_spec(setup=("exit 3",)))
    status = run.end()
    assert (status.exit_code, status.phase) == (3, None)


def test_processes_that_a_phase_leaves_behind_are_stopped(start: Start) -> None:
    run = start(make_launch("sleep 600 & echo done"))
    assert run.end().exit_code == 0
    run.wait_until_gone()
    assert "left processes behind" in run.batch


def test_a_released_run_outlives_the_process_that_submitted_it(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    launcher, spec = LocalLauncher(), make_spec()
    script.write_text(launcher.render(spec, make_launch("echo up; sleep 1; exit 6"), (Wrapping(),), tmp_path))
    submit = (
        "import sys, msgspec, os, signal, pathlib\n"
        "from llmbx.launchers.local import LocalLauncher\nfrom llmbx.model import RunSpec\n"
        "spec = msgspec.json.decode(sys.stdin.read(), type=RunSpec)\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "job = LocalLauncher().submit(folder / 'run.sh', spec, folder)\n"
        "LocalLauncher().release(job, folder)\n"
        "print(msgspec.json.encode(job).decode(), flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", submit, str(tmp_path)],
        input=msgspec.json.encode(spec),
        capture_output=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    job = msgspec.json.decode(done.stdout, type=Job)
    assert launcher.status(job, tmp_path).state == "running"
    deadline = time.monotonic() + PATIENCE_S
    while (status := launcher.status(job, tmp_path)).state == "running":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert (status.state, status.exit_code) == ("ended", 6)


def test_a_recycled_process_id_is_not_the_job(start: Start) -> None:
    run = start(make_launch("true"))
    run.end()
    (run.folder / "exit.json").unlink()
    recycled = Job(launcher="local", job_id=f"{os.getpid()}-1", submitted=0.0)
    assert run.launcher.status(recycled, run.folder).state == "lost"
    run.launcher.cancel(recycled, run.folder)
    run.launcher.dump_stacks(recycled, run.folder)


@pytest.mark.parametrize(("place", "state"), [({"host": "elsewhere"}, "running"), ({"boot_id": "older"}, "lost")])
def test_process_ids_are_used_only_on_their_host_until_it_is_restarted(
    start: Start, place: dict[str, str], state: str
) -> None:
    run = start(make_launch("sleep 600"))
    known = (run.folder / PLACE).read_bytes()
    (run.folder / PLACE).write_text(json.dumps({**json.loads(known), **place}))
    assert run.status().state == state
    with contextlib.nullcontext() if state == "lost" else pytest.raises(InfraError, match="runs on elsewhere"):
        run.launcher.cancel(run.job, run.folder)
    (run.folder / PLACE).write_bytes(known)
    assert run.status().state == "running"


def test_an_older_exit_file_is_not_taken_for_the_new_jobs(start: Start) -> None:
    run = start(make_launch("sleep 600"))
    (run.folder / "exit.json").write_bytes(b'{"exit_code":0,"started":1,"ended":2,"job_id":"1","host":"h"}')
    run.launcher.cancel(run.job, run.folder)
    again = run.launcher.submit(run.script, run.spec, run.folder)
    assert run.launcher.status(again, run.folder).state == "running"
    run.launcher.cancel(again, run.folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="a disk of its own that can be filled takes root to mount")
def test_exit_json_is_written_on_a_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], check=True)
    try:
        fill = "head -c 1000000 /dev/zero > fill; echo nothing more fits here > more; exit 5"
        run = LocalRun(disk, make_launch(fill), make_spec(), None)
        status = run.end()
        assert (disk / "more").stat().st_size == 0
        assert (status.state, status.exit_code, status.rank) == ("ended", 5, 0)
        run.wait_until_gone()
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_run_without_a_recorded_job_id_is_found(start: Start) -> None:
    run = start(make_launch("echo up; while [ ! -e go ]; do sleep 0.05; done; exit 3"))
    run.wait_for("up")
    job = run.launcher.find({run.folder: run.spec})[run.folder]
    assert job.job_id == run.job.job_id and abs(job.submitted - run.job.submitted) < 5
    assert run.launcher.status(job, run.folder).state == "running"
    (run.folder / "go").touch()
    run.end()
    again = run.launcher.find({run.folder: run.spec})[run.folder]
    assert run.launcher.status(again, run.folder).exit_code == 3
    assert run.launcher.find({run.folder.parent: run.spec}) == {}


def test_an_abandoned_run_does_nothing(start: Start) -> None:
    run = start(make_launch("echo up"))
    run.end()
    (run.folder / "given-up").touch()
    for path in run.folder.glob("*.out"):
        path.unlink()
    again = run.launcher.submit(run.script, run.spec, run.folder)
    while run.launcher.status(again, run.folder).state == "running":
        time.sleep(0.05)
    assert "this run was abandoned before it started" in run.batch
    assert not (run.folder / f"log-{run.spec.experiment}.out").exists()


def test_a_companion_that_checks_its_node_before_the_ranks_does_not_run_beside_them(start: Start) -> None:
    check = Launch.Companion(name="check", argv=("/bin/sh", "-c", "echo ran > beside"), before=True)
    run = start(make_launch("sleep 1; ls", companions=(check,)))
    assert run.end().exit_code == 0 and "beside" not in run.log
