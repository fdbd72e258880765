"""Jobs on a real Slurm: what the rendered script does there, and what llmbx makes of its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmbx.errors import InfraError, Unreachable
from llmbx.launchers.nodes import read_nodes
from llmbx.model import Phase, Wrapping
from llmbx_slurm.launcher import SlurmLauncher

from ...patience import wait_until
from .conftest import SlurmRun, make_launch, make_spec, shell_phase
from .lossy_network import ALLOCATION_LOOKUP, STEP_CREATION, Lost, lossy_network

Submit = Callable[..., SlurmRun]

AWKWARD = {
    "SPACES": "  two  words ",
    "QUOTES": """it's "quoted" `date` $(date)""",
    "DOLLAR": "$HOME ${HOME} \\$HOME !! %s %j",
    "SEMICOLON": "a; b & c | d > e < f # g",
    "NEWLINES": "one\ntwo\n\nEND_OF_FILE\n",
    "DASH": "--leading=dash",
    "COMMAS": "a,b=c,d",
    "UNICODE": "\u00e4\u4e2d\u03c0 \t",
    "EMPTY": "",
}

READ_BACK = (
    "import json, os, sys\n"
    "json.dump({'argv': sys.argv[1:], 'env': dict(os.environ)}, open(f\"seen-{os.environ['LLMBX_RANK']}.json\", 'w'))\n"
)


FIRST_NODES = {"nodelist": "n1,n2"}
"""So that a test can name them: a job that is just ending may still hold them."""


def exit_json(run: SlurmRun) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((run.folder / "exit.json").read_text())
    return loaded


def test_nothing_that_a_job_writes_is_writable_by_the_group(submit: Submit) -> None:
    launch = make_launch("touch made-$LLMBX_RANK; umask")
    before = os.umask(0o002)
    try:
        run = submit(launch, make_spec(preflight=True))
        assert run.end().exit_code == 0, run.batch
        batch, log = f"sbatch_{run.spec.experiment}.out", f"log-{run.spec.experiment}.out"
        modes = {path.name: path.stat().st_mode & 0o777 for path in run.folder.iterdir() if path != run.script}
        assert {batch, log, "made-3", "node-1.txt", "preflight-1.txt", "exit.json"} <= modes.keys()
        assert {*modes.values()} == {0o644}, modes
        for name in modes:
            (run.folder / name).unlink()
        subprocess.run(["sbatch", "--wait", run.script], cwd=run.folder, check=True, capture_output=True)
    finally:
        os.umask(before)
    again = {path.name: path.stat().st_mode & 0o777 for path in run.folder.iterdir() if path != run.script}
    assert again.keys() == modes.keys(), "a script that was written in advance"
    assert {again[name] for name in again if name != batch} == {0o644}, again
    assert run.log.count("0022") == 4, run.log


def test_three_phases_on_two_nodes(submit: Submit) -> None:
    place = (
        '"$LLMBX_RANK $LLMBX_LOCAL_RANK $LLMBX_WORLD_SIZE $LLMBX_LOCAL_WORLD_SIZE $LLMBX_NODE_RANK $SLURMD_NODENAME"'
    )
    collect = shell_phase(
        f"echo collect {place}; touch part-$LLMBX_RANK", "collect", makes=("part-*",), skip_if="profile"
    )
    convert = shell_phase(
        f"echo convert {place}; cat part-* > profile", "convert", ranks="first", needs=("part-0", "part-3"),
        makes=("profile",), skip_if="profile",
    )  # fmt: skip
    train = shell_phase(f'echo train {place}; echo "meet $LLMBX_MASTER_ADDR $LLMBX_MASTER_PORT"', needs=("profile",))
    run = submit(make_launch(collect, convert, train), make_spec(sbatch=FIRST_NODES))
    status = run.end()
    assert (status.exit_code, status.verdict, status.rank, status.phase) == (0, None, None, None), run.batch
    lines = run.log.splitlines()
    places = [f"{rank} {rank % 2} 4 2 {rank // 2} n{rank // 2 + 1}" for rank in range(4)]
    assert sorted(lines[:4]) == [f"{rank}: collect {places[rank]}" for rank in range(4)]
    assert lines[4] == "convert 0 0 1 1 0 n1"
    assert {f"{rank}: train {places[rank]}" for rank in range(4)} <= set(lines[5:])
    meetings = {line.partition("meet ")[2] for line in lines if "meet" in line}
    assert len(meetings) == 1 and meetings.pop().startswith("127.0.0.1 1")
    said = exit_json(run)
    assert [(phase["role"], phase["skipped"]) for phase in said["phases"]] == [
        ("collect", False), ("convert", False), ("train", False),
    ]  # fmt: skip
    assert said["job_id"] == run.job.job_id and said["exit_code"] == 0
    assert status.started is not None and run.job.submitted - 2 < status.started < time.time()
    assert [node.host for node in read_nodes(run.folder)] == ["n1", "n2"]


def test_awkward_values_arrive_intact(submit: Submit) -> None:
    phase = Phase(role="train", argv=(sys.executable, "see it.py", *AWKWARD.values()), env=AWKWARD)
    wrapping = Wrapping(argv=("env", f"WRAPPED={AWKWARD['NEWLINES']}"), host_env={"HOSTED": AWKWARD["DOLLAR"]})
    spec = make_spec(env={"RUN": AWKWARD["SEMICOLON"]}, sbatch={"comment": """it's "a" $HOME \\ # & ; b"""})
    run = submit(make_launch(phase, files={"see it.py": READ_BACK.encode()}), spec, (wrapping,))
    assert run.end().exit_code == 0, run.batch + run.log
    for rank in range(4):
        seen = json.loads((run.folder / f"seen-{rank}.json").read_text())
        assert seen["argv"] == list(AWKWARD.values())
        expected = {
            **AWKWARD, "RUN": AWKWARD["SEMICOLON"], "WRAPPED": AWKWARD["NEWLINES"], "HOSTED": AWKWARD["DOLLAR"],
        }  # fmt: skip
        assert {name: seen["env"].get(name) for name in expected} == expected


def test_options_reach_the_job_as_they_were_given(submit: Submit, slurm: Any) -> None:
    comment = """it's "a" $HOME \\ # & ; b"""
    options = {"comment": comment, "gpus-per-node": "3", "nodelist": "n2,n3", "time": "5", "job-name": "a b"}
    run = submit(make_launch("echo gpus $CUDA_VISIBLE_DEVICES"), make_spec(sbatch=options))
    assert run.end().exit_code == 0, run.batch
    shown = slurm.call("scontrol", "--oneliner", "show", "job", run.job.job_id)
    for text in (f"Comment={comment}", "NodeList=n[2-3]", "TimeLimit=00:05:00", "JobName=a b ", "Requeue=0"):
        assert text in shown
    assert sorted(run.log.splitlines()) == [f"{rank}: gpus 0,1,2" for rank in range(4)]


def test_secrets_come_from_the_submitting_shell(submit: Submit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_very_secret")
    monkeypatch.setenv("OTHER", "carried")
    phase = shell_phase("echo ${#HF_TOKEN} ${#MY_API_KEY} ${OTHER:-dropped}", forward=("HF_TOKEN",))
    for options, other in (({}, "carried"), ({"export": "NONE"}, "dropped")):
        spec = make_spec(gpus=1, env={"MY_API_KEY": "key_very_secret"}, sbatch=options)
        run = submit(make_launch(phase, nodes=1, ranks=1), spec)
        assert run.end().exit_code == 0, run.batch
        assert run.log == f"14 15 {other}\n"
        assert "very_secret" not in run.script.read_text()


def test_the_submitting_job_does_not_leak_into_the_new_one(submit: Submit, monkeypatch: pytest.MonkeyPatch) -> None:
    surrounding = {"SLURM_JOB_ID": "1", "SLURM_NTASKS": "99", "SBATCH_PARTITION": "nowhere", "LLMBX_RANK": "7"}
    for name, value in {**surrounding, "SLURM_CPU_BIND": "mask_cpu:0x1", "LLMBX_MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    run = submit(make_launch('echo "$LLMBX_RANK $LLMBX_WORLD_SIZE ${SLURM_CPU_BIND:-free} $LLMBX_MASTER_PORT"'))
    assert run.end().exit_code == 0, run.batch
    seen = [line.split(": ")[1].split() for line in sorted(run.log.splitlines())]
    assert [line[:3] for line in seen] == [[str(rank), "4", "free"] for rank in range(4)]
    assert seen[0][3] != "1"


def test_a_failing_rank_ends_the_job_and_is_named(submit: Submit) -> None:
    launch = make_launch('[ "$LLMBX_RANK" = 2 ] && sleep 1 && exit 7; sleep 600')
    run = submit(launch, make_spec(sbatch=FIRST_NODES))
    status = run.end()
    assert (status.exit_code, status.rank, status.phase, status.verdict) == (7, 2, "train", None)
    assert status.reason == "node n2: Exited with exit code 7"
    assert (exit_json(run)["rank"], exit_json(run)["node"]) == (2, "n2")


def test_a_killed_rank_is_named(submit: Submit) -> None:
    launch = make_launch('[ "$LLMBX_RANK" = 1 ] && sleep 1 && kill -9 $$; sleep 600')
    status = submit(launch, make_spec(sbatch=FIRST_NODES)).end()
    assert (status.exit_code, status.rank, status.verdict) == (137, 1, None)
    assert status.reason == "node n1: Killed"


def test_cancel(submit: Submit) -> None:
    run = submit(make_launch("echo up; sleep 600"))
    run.wait_for("3: up")
    assert run.status().state == "running"
    run.launcher.cancel(run.job, run.folder)
    status = run.end()
    assert (status.exit_code, status.verdict, status.reason) == (143, "cancelled", "CANCELLED")
    assert exit_json(run)["signal"] == "TERM"


def test_a_job_cancelled_in_the_queue_never_started(submit: Submit) -> None:
    run = submit(make_launch("true"), make_spec(sbatch={"hold": ""}))
    status = run.status()
    assert (status.state, status.reason, status.started) == ("pending", "pending: JobHeldUser", None)
    run.launcher.cancel(run.job, run.folder)
    status = run.end()
    assert (status.state, status.verdict) == ("ended", "cancelled")
    assert run.log == ""


def test_the_time_limit(submit: Submit, slurm: Any) -> None:
    run = submit(make_launch("echo up; sleep 600"), make_spec(sbatch={"time": "60"}))
    run.wait_for("3: up")
    slurm.call("scontrol", "update", f"jobid={run.job.job_id}", "EndTime=now+5")
    status = run.end()
    assert (status.verdict, status.exit_code) == ("timeout", 143)
    assert status.reason.startswith("TIMEOUT")


def test_a_node_that_fails_is_named(submit: Submit, slurm: Any) -> None:
    run = submit(make_launch("echo up; sleep 600"), make_spec(sbatch={"nodelist": "n3,n4"}))
    run.wait_for("3: up")
    slurm.call("scontrol", "update", "nodename=n4", "state=down", "reason=test")
    status = run.end()
    assert (status.state, status.verdict, status.rank) == ("ended", "node_fail", None)
    assert status.reason == "NODE_FAIL; node n4: the node failed"
    slurm.wait_idle()


def test_usr1_reaches_the_ranks_and_harms_nobody(submit: Submit) -> None:
    lines = ("import faulthandler, signal, time", "faulthandler.register(signal.SIGUSR1)", "print('up', flush=True)")
    program = "\n".join([*lines, "time.sleep(600)"])
    knows = Phase(role="train", argv=(sys.executable, "-c", program))
    run = submit(make_launch(knows))
    for rank in range(4):  # each must know the signal before it is sent
        run.wait_for(f"{rank}: up")
    run.launcher.dump_stacks(run.job, run.folder)
    for rank in range(4):
        run.wait_for(f'{rank}:   File "<string>", line 4 in <module>')
    assert run.status().state == "running"


def test_usr1_does_not_kill_a_program_that_does_not_know_it(submit: Submit) -> None:
    run = submit(make_launch("echo up; until [ -e go ]; do sleep 0.1; done; echo unharmed"))
    for rank in range(4):
        run.wait_for(f"{rank}: up")
    run.launcher.dump_stacks(run.job, run.folder)
    time.sleep(1)  # the signal comes on its own way, and leaves no trace where it does no harm
    (run.folder / "go").touch()
    assert run.end().exit_code == 0
    assert run.log.count("unharmed") == 4


def test_status_while_the_controller_is_away(submit: Submit, slurm: Any) -> None:
    run = submit(make_launch("echo up; while [ ! -e go ]; do sleep 0.1; done; exit 3"))
    run.wait_for("3: up")
    assert run.status().state == "running"
    slurm.stop_daemon("slurmctld.pid")
    try:
        run.launcher._queue._refreshed_at = 0.0  # the answer that it has is old
        for launcher in (run.launcher, SlurmLauncher()):
            with pytest.raises(Unreachable, match="the controller cannot be reached"):
                launcher.status(run.job, run.folder)
    finally:
        slurm.start_controller()
    (run.folder / "go").touch()
    status = run.end()
    assert (status.exit_code, status.phase) == (3, "train")
    slurm.wait_idle()


def test_a_controller_that_is_away_at_the_start_of_a_phase_is_waited_for(submit: Submit, slurm: Any) -> None:
    wait = "touch here; while [ ! -e go ]; do sleep 0.1; done"
    run = submit(make_launch("echo up"), make_spec(setup=(wait,)))
    wait_until((run.folder / "here").exists)
    slurm.stop_daemon("slurmctld.pid")
    try:
        (run.folder / "go").touch()
        wait_until(lambda: "the Slurm controller is unreachable: starting phase train again" in run.batch)
        assert run.log == ""
    finally:
        slurm.start_controller()
    assert run.end().exit_code == 0, run.batch
    assert sorted(run.log.splitlines()) == [f"{rank}: up" for rank in range(4)]
    slurm.wait_idle()


@pytest.mark.parametrize("type", [ALLOCATION_LOOKUP, STEP_CREATION])
@pytest.mark.parametrize("what", ["request", "answer"])
def test_a_step_is_started_again_if_the_network_loses_a_message_of_the_controller(
    submit: Submit, slurm: Any, tmp_path: Path, what: str, type: int
) -> None:
    """A step that the controller created, and whose creator does not know it, keeps its CPUs, memory and GPUs."""
    with lossy_network(slurm, tmp_path, Lost(what, type)) as (network, config):
        lines = (f"export SLURM_CONF={config}",)
        run = submit(make_launch("echo up"), make_spec(setup=lines, sbatch={"gres": "gpu:8"}))
        assert run.end().exit_code == 0, run.batch
        assert not network.left
    assert run.batch.count("the Slurm controller is unreachable: starting phase train again") == 1
    assert sorted(run.log.splitlines()) == [f"{rank}: up" for rank in range(4)]
    slurm.wait_idle()


def test_a_forgotten_job_is_judged_by_its_files(submit: Submit) -> None:
    run = submit(make_launch("exit 5"))
    assert run.end().exit_code == 5
    said = exit_json(run)
    forgotten = run.job.replace(job_id="999999", submitted=1.0)
    (run.folder / "exit.json").write_text(json.dumps({**said, "job_id": "999999"}))
    assert SlurmLauncher().status(forgotten, run.folder).exit_code == 5
    (run.folder / "exit.json").unlink()
    assert SlurmLauncher().status(forgotten, run.folder).state == "running"  # its files may still come
    for path in run.folder.glob("*.out"):
        os.utime(path, (1.0, 1.0))
    assert SlurmLauncher().status(forgotten, run.folder).state == "lost"


def test_the_script_runs_without_llmbx(submit: Submit, slurm: Any, tmp_path: Path) -> None:
    launch = make_launch("echo by hand $LLMBX_RANK")
    script = tmp_path / "by-hand.sh"
    script.write_text(SlurmLauncher().render(make_spec(), launch, (Wrapping(),), tmp_path / "made by the script"))
    slurm.call("sbatch", "--wait", f"--chdir={tmp_path}", str(script))
    log = tmp_path / "made by the script" / f"log-{make_spec().experiment}.out"
    assert sorted(log.read_text().splitlines()) == [f"{rank}: by hand {rank}" for rank in range(4)]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"partition": "nope"}, "invalid partition specified: nope; Invalid partition name specified; see `sinfo -s`"),
        ({"gres": "tpu:1"}, "Invalid generic resource (gres) specification; the cluster has no such GRES"),
        ({"gpus-per-node": "9"}, "Requested node configuration is not available; no node has all requested resources"),
        ({"constraint": "fast"}, "Invalid feature specification; no node has this feature"),
        ({"reservation": "mine"}, "Requested reservation is invalid; see `scontrol show reservation`"),
        ({"nodelist": "x1"}, "Invalid node name specified; see `sinfo -N`"),
        ({"frobnicate": "1"}, "unrecognized option '--frobnicate=1'; this cluster's Slurm does not support the option"),
    ],
)
def test_what_sbatch_refuses_is_explained(submit: Submit, options: dict[str, str], says: str) -> None:
    with pytest.raises(InfraError) as caught:
        submit(make_launch("true"), make_spec(sbatch=options))
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_a_job_whose_script_is_killed_is_ended(submit: Submit, slurm: Any) -> None:
    run = submit(make_launch("echo up; sleep 600"))
    run.wait_for("3: up")
    running = [path for path in Path("/proc").glob("[0-9]*/cmdline") if b"slurm_script" in path.read_bytes()]
    script = [int(path.parent.name) for path in running if f"job{int(run.job.job_id):05}".encode() in path.read_bytes()]
    for pid in script:
        os.kill(pid, signal.SIGKILL)
    status = run.end()
    assert script and (status.exit_code, status.phase) == (137, None)
