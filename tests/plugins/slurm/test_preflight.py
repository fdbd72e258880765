"""Node checks of a job: the step that runs the programs of other plugins on each node, and reads what they print."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.errors import UsageError
from llmbx.model import JobStatus, Launch, Result
from llmbx.run.collect import Log
from llmbx.run.verdict import infrastructure_cause, judge
from llmbx_slurm import preflight

from ...core.launchers.conftest import make_launch, make_spec, shell_phase

Check = Callable[..., list[str]]


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """`check("REPOSITORY", program="echo bad=x")`: the lines that the check writes, with a program of a plugin."""

    def run(*repositories: str, shell: str = "sh", program: str = "", **variables: str) -> list[str]:
        looks = (Launch.Companion(name="look", argv=("sh", "-c", program), before=True),) if program else ()
        launch = make_launch("x").replace(companions=looks)
        script = preflight.with_preflight(make_spec(), launch).files["preflight.sh"]
        (tmp_path / "preflight.sh").write_bytes(script)
        env = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "LLMBX_NODE_RANK": "3", **variables}
        subprocess.run([shell, "preflight.sh", *repositories], cwd=tmp_path, env=env, check=True)
        return (tmp_path / "preflight-3.txt").read_text().splitlines()

    return run


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_what_a_program_prints_is_kept_and_its_failure_is_a_note(check: Check, shell: str) -> None:
    assert check(program="echo bad=no; echo same.driver=5", shell=shell) == ["bad=no", "same.driver=5"]
    assert check(program="echo why >&2; exit 3", shell=shell) == ["note=not checked: sh failed: why"]


def test_a_repository_must_lie_in_the_cache_when_there_is_no_network(check: Check, tmp_path: Path) -> None:
    here = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    (line,) = check("meta-llama/Llama-3.1-8B", **here)
    assert line.startswith(f"bad=meta-llama/Llama-3.1-8B is not readable in {tmp_path}/hf/hub")
    snapshot = tmp_path / "hf" / "hub" / "models--meta-llama--Llama-3.1-8B" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "tokenizer.json").write_text("{}")
    assert check("meta-llama/Llama-3.1-8B", **here) == []
    assert check("another/one") == []  # the ranks download it


def test_a_bad_node_is_the_infrastructures_failure() -> None:
    status = JobStatus(state="ended", exit_code=4, phase="preflight", node="n2", reason="node n2: 7 of 8 GPUs")
    verdict = judge(make_spec(), status, [], [])
    assert (verdict.status, verdict.data_valid, verdict.cause) == ("failed", False, "node n2: 7 of 8 GPUs")
    result = Result(run_id="r", status=verdict.status, data_valid=False, cause=verdict.cause)
    empty = Log(steps=[], events=[])
    assert infrastructure_cause(status, result, empty, []) == "node n2: 7 of 8 GPUs"


def test_no_phase_of_a_framework_may_have_its_name() -> None:
    spec = make_spec()
    with pytest.raises(UsageError, match="phase 'preflight'"):
        preflight.with_preflight(spec, make_launch(shell_phase("true", "preflight")))


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_folder_that_cannot_be_written_has_an_exit_code_of_its_own(check: Check, tmp_path: Path, shell: str) -> None:
    (tmp_path / "preflight-3.txt.part").mkdir()  # also blocks root
    with pytest.raises(subprocess.CalledProcessError) as caught:
        check(shell=shell)
    assert caught.value.returncode == 11
