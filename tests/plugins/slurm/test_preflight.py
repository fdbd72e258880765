"""Node checks: results on healthy and on faulty nodes.

The test machines have no GPU, so `nvidia-smi` is a fake program with the output format of nvidia-smi(1).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.errors import UsageError
from llmbx.launchers import script
from llmbx.model import JobStatus, Result
from llmbx.run.collector import Log
from llmbx.run.infrastructure import infrastructure_cause
from llmbx.run.verdict import judge
from llmbx_slurm import preflight

from ...core.launchers.conftest import make_launch, make_spec, shell_phase

FAKE_SMI = """\
#!/bin/sh
# emulates nvidia-smi: COUNT GPUs of type NAME; the other variables set the properties of the last one
case $1 in
  *clocks*) last=${REASONS-0x0000000000000001} others=0x0000000000000001 ;;
  *) others="${NAME:-NVIDIA H100 80GB HBM3}, ${DRIVER:-550.54.15}, 81559, 81000"
     last="${LAST:-${NAME:-NVIDIA H100 80GB HBM3}}, ${DRIVER:-550.54.15}, 81559, ${FREE:-81000}" ;;
esac
n=1
while [ $n -lt ${COUNT:-8} ]; do echo "$others"; n=$((n + 1)); done
echo "$last"
exit ${CODE:-0}
"""

Check = Callable[..., list[str]]


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """`check("8", "h100", COUNT="7")`: the lines that the check writes on such a node."""
    (tmp_path / "preflight.sh").write_text(script.shell("preflight.sh", "llmbx_slurm"))
    (tmp_path / "bin").mkdir()
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.write_text(FAKE_SMI)
    smi.chmod(0o755)

    def run(*arguments: str, shell: str = "sh", path: bool = True, **variables: str) -> list[str]:
        env = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}" if path else os.environ["PATH"], "HOME": "/nowhere"}
        env.update({"LLMBX_NODE_RANK": "3", **variables})
        subprocess.run([shell, "preflight.sh", *arguments], cwd=tmp_path, env=env, check=True)
        return (tmp_path / "preflight-3.txt").read_text().splitlines()

    return run


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_healthy_node_states_facts_and_no_fault(check: Check, shell: str) -> None:
    assert check("8", "h100", shell=shell) == ["gpus=8", "driver=550.54.15"]


@pytest.mark.parametrize(
    ("variables", "fault"),
    [
        ({"COUNT": "7"}, "7 of 8 GPUs"),
        ({"LAST": "NVIDIA A100-SXM4-80GB"}, "GPU 7 is NVIDIA A100-SXM4-80GB, not h100"),
        ({"FREE": "40000"}, "GPU 7 has only 40000 of 81559 MiB free"),
        ({"REASONS": "0x0000000000000048"}, "GPU 7 is throttled (0x0000000000000048)"),
        ({"CODE": "9"}, "nvidia-smi failed: the driver is not running"),
    ],
)
def test_every_fault_is_named(check: Check, variables: dict[str, str], fault: str) -> None:
    assert [line for line in check("8", "h100", **variables) if line.startswith("bad=")] == [f"bad={fault}"]


def test_power_caps_and_idle_clocks_are_no_fault_and_types_are_whole_words(check: Check) -> None:
    assert not any(line.startswith("bad=") for line in check("8", "h100", REASONS="0x0000000000000004"))
    assert check("4", "gb200", NAME="NVIDIA GB200", COUNT="4")[0] == "gpus=4"
    assert "bad=GPU 0 is NVIDIA GB200, not b200" in check("4", "b200", NAME="NVIDIA GB200", COUNT="4")


def test_a_gpu_type_of_the_users_own_has_any_name(check: Check) -> None:
    assert check("8", "any", NAME="Something Else") == ["gpus=8", "driver=550.54.15"]
    (phase,) = preflight.with_preflight(make_spec(gpu_type="mine"), make_launch("x")).phases
    assert phase.argv[2:] == ("1", "any")


def test_gpus_are_not_checked_without_nvidia_smi_or_on_cpu(check: Check) -> None:
    assert check("8", "h100", path=False) == ["note=nvidia-smi not found: the GPUs were not checked"]
    assert check("2", "cpu") == []


def test_a_repository_must_lie_in_the_cache_when_there_is_no_network(check: Check, tmp_path: Path) -> None:
    here = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    (line,) = check("1", "cpu", "meta-llama/Llama-3.1-8B", **here)
    assert line.startswith(f"bad=meta-llama/Llama-3.1-8B is not readable in {tmp_path}/hf/hub")
    snapshot = tmp_path / "hf" / "hub" / "models--meta-llama--Llama-3.1-8B" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "tokenizer.json").write_text("{}")
    assert check("1", "cpu", "meta-llama/Llama-3.1-8B", **here) == []
    assert check("1", "cpu", "another/one") == []  # the ranks download it


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
        check("2", "cpu", shell=shell)
    assert caught.value.returncode == 11
