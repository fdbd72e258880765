"""What surrounds the ranks on a real Slurm: scripts written in advance, the boost slider, `--wait`, segments, names."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.errors import InfraError
from llmbx.model import JOB_NAME, Wrapping
from llmbx_slurm.launcher import SlurmLauncher

from ...patience import wait_until
from .conftest import SlurmRun, make_launch, make_spec, shell_phase

Submit = Callable[..., SlurmRun]


@pytest.mark.usefixtures("slurm")
def test_a_script_that_was_written_in_advance_can_be_submitted_twice(tmp_path: Path) -> None:
    base = tmp_path / "experiments" / "x.y"
    launch = make_launch(shell_phase('echo "here $PWD"'))
    spec = make_spec()
    planned = base / f"{spec.experiment}_TIMESTAMP" / spec.experiment
    script = tmp_path / "job.sh"
    script.write_text(SlurmLauncher().render(spec, launch, (Wrapping(argv=("env", f"FOLDER={planned}")),), planned))
    submitted = [
        subprocess.run(["sbatch", "--parsable", script], cwd=tmp_path, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    jobs = [done.stdout.strip() for done in submitted]
    wait_until(lambda: len(list(base.glob("*/*/exit.json"))) == 2)
    ends = {folder: json.loads((folder / "exit.json").read_text()) for folder in base.glob("*/*")}
    assert {end["job_id"] for end in ends.values()} == set(jobs)
    for folder, end in ends.items():
        assert end["exit_code"] == 0 and folder.parent.name.removeprefix(f"{spec.experiment}_").isdigit()
        log = (folder / f"log-{spec.experiment}.out").read_text()
        assert log.count(f"here {folder}\n") == 4 and "TIMESTAMP" not in log
        assert f"starts as {end['job_id']} on" in (folder / f"sbatch_{spec.experiment}.out").read_text()
        (told,) = tmp_path.glob(f"sbatch_*_{end['job_id']}.out")
        assert told.read_text() == f"run folder: {folder}\n"


def test_a_boost_slider_that_cannot_be_set_is_a_warning(submit: Submit) -> None:
    run = submit(make_launch("echo trained"), make_spec(vboost=1))
    assert run.end().exit_code == 0 and "trained" in run.log
    assert "warning: vboost 1 was set on 0 of 2 node(s): " in run.batch


def test_the_boost_slider_is_set_once_on_every_node(
    submit: Submit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in (
        ("nvidia-smi", f'echo "$SLURMD_NODENAME $*" >> {tmp_path}/called'),
        ("sudo", 'shift; exec "$@"'),
    ):
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    run = submit(make_launch("echo trained"), make_spec(vboost=2))
    assert run.end().exit_code == 0 and "warning" not in run.batch
    called = [line for line in (tmp_path / "called").read_text().splitlines() if "boost-slider" in line]
    nodes = {line.split()[0] for line in called}
    assert len(called) == len(nodes) == 2 and {line.partition(" ")[2] for line in called} == {"boost-slider --vboost 2"}


def test_srun_ends_the_ranks_that_do_not_end_with_the_others(submit: Submit) -> None:
    run = submit(make_launch('[ "$LLMBX_RANK" -eq 0 ] || sleep 300'), make_spec(srun={"wait": "2"}))
    end = run.end()
    assert end.exit_code and end.rank != 0
    assert end.reason.endswith(
        "srun ended the ranks that were still running 2 s after the first rank had ended (--wait)"
    )


def test_a_segment_that_slurm_does_not_take_is_one_clear_line(submit: Submit) -> None:
    with pytest.raises(InfraError, match=r"sbatch: .*--segment.*omit the option with --slurm-segment none"):
        submit(make_launch("true"), make_spec(sbatch={"segment": "2"}))


def test_a_runtime_gets_the_name_of_the_job_and_cleans_up_after_it(submit: Submit, tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    wrapping = Wrapping(
        argv=("env", f"NAMED={JOB_NAME}"),
        launcher_flags=(f"--comment={JOB_NAME}",),
        cleanup=("/bin/sh", "-c", 'echo "$SLURMD_NODENAME" >> "$1"', "clean", f"{made}/{JOB_NAME}"),
    )
    run = submit(make_launch('echo "named $NAMED"'), make_spec(), (wrapping,))
    assert run.end().exit_code == 0
    name = f"llmbx-{run.job.job_id}-0"
    assert run.log.count(f"named {name}") == 4
    wait_until(lambda: (made / name).is_file() and len((made / name).read_text().splitlines()) == 2)
