import os
import subprocess

import pytest
from llmbx_pyspy import plugin, stacks

from llmbx.api import Evidence, Launch, Phase
from llmbx.testing import CHECKS, assert_conforms, sample_spec

SPY = """#!/bin/sh
echo "$@" > args
while [ $# -gt 1 ]; do case $1 in --output) out=$2;; --pid) pid=$2;; esac; shift; done
while kill -0 "$pid" 2> /dev/null; do sleep 0.05; done
echo 'main (train.py);step (train.py) 3' > "$out"
"""


@pytest.mark.parametrize("check", CHECKS)
def test_it_conforms(check):
    assert_conforms("pyspy", check)


def two_ranks():
    phases = (Phase(role="data", argv=("make",), ranks="first"), Phase(role="train", argv=("train",)))
    return Launch(nodes=1, ranks_per_node=2, gpus_per_rank=0, phases=phases)


def test_it_wraps_the_training_of_the_chosen_ranks():
    chosen = sample_spec(plugin_settings={"pyspy": {"ranks": "first", "rate": 50}})
    data, train = plugin.wrap_command(chosen, two_ranks()).phases
    assert data.prefixes == ()
    assert [(one.argv, one.ranks) for one in train.prefixes] == [
        (("/bin/sh", "pyspy/sample.sh", "py-spy", "50"), "first")
    ]


def test_a_missing_program_is_found_before_the_run(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    (finding,) = plugin.check_spec(sample_spec(runtime="venv"))
    assert finding.problem == "py-spy is not on PATH" and "pip install py-spy" in finding.fix
    assert plugin.check_spec(sample_spec(runtime="docker")) == []


@pytest.fixture
def sampled(tmp_path):
    """`sampled(program, code)`: a folder in which the script has run a shell program with this stand-in for py-spy."""

    def run(spy, program):
        spec, command = sample_spec(runtime="venv"), tmp_path / "py-spy"
        command.write_text(spy)
        command.chmod(0o755)
        for name, content in plugin.wrap_command(spec, two_ranks()).files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(content)
        argv = ["/bin/sh", "pyspy/sample.sh", str(command), "100", "/bin/sh", "-c", program]
        codes = [
            subprocess.run(argv, cwd=tmp_path, env={**os.environ, "LLMBX_RANK": str(rank)}, check=False).returncode
            for rank in range(2)
        ]
        return codes, plugin.register_checks()[0].test(Evidence(steps=(), spec=spec, run_dir=tmp_path))

    return run


def test_the_exit_code_is_that_of_the_program_and_the_samples_are_kept(sampled, tmp_path):
    codes, findings = sampled(SPY, "sleep 0.3; exit 7")
    assert codes == [7, 7]
    assert [(found.problem, found.warning) for found in findings] == [
        ("100% of the samples of rank 0 are in step (train.py)", True)
    ]
    assert "--rate 100" in (tmp_path / "args").read_text()
    (section,) = plugin.report_sections(sample_spec(runtime="venv"), tmp_path)
    assert [table.rows for table in section.tables] == [(("step (train.py)", 100.0, 100.0),)] * 2


def test_a_rank_without_a_profile_fails_the_run_and_says_why(sampled):
    codes, findings = sampled("#!/bin/sh\necho 'Error: Permission denied' >&2; exit 1\n", "sleep 0.3")
    assert codes == [0, 0]
    assert [(found.problem, found.warning) for found in findings] == [
        (f"no profile of rank {rank}: Error: Permission denied", False) for rank in range(2)
    ]


def test_an_idle_rank_is_a_warning(sampled):
    _, findings = sampled(SPY.replace("echo 'main", ": 'main"), "sleep 0.3")
    assert [found.warning for found in findings] == [True, True] and "was idle" in findings[0].problem


def test_samples_add_up():
    lines = ["main (a.py);f (a.py) 6", "main (a.py);f (a.py);f (a.py) 2", "main (a.py) 2", "", "cut (a.py);g", "9"]
    found = stacks.add_up(3, lines, most=1)
    assert (found.rank, found.samples) == (3, 10)
    assert found.functions == (stacks.Function(name="f (a.py)", own=8, total=8),)
