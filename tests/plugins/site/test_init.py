"""`llmbx init` writes a file that llmbx reads, and never over one that exists. nvidia-smi is a stand-in."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli
from click.testing import CliRunner

from llmbx.errors import UsageError
from llmbx_site import init, inspection


@pytest.fixture(autouse=True)
def nothing_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path / "install"))
    monkeypatch.setenv("LLMBX_CONFIG", str(tmp_path / "new" / "llmbx.toml"))
    monkeypatch.setattr(inspection, "REACH_S", 0.0)
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    answer = "NVIDIA H200, 143771, 570.1"
    program.write_text(
        f'#!/bin/sh\n# A stand-in.\ncase "$1" in *memory*) echo "{answer}";; *) echo "NVIDIA H200";; esac\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))


def test_the_file_of_a_machine_is_written_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected letters"):
        CliRunner().invoke(init.command, ["a b"], catch_exceptions=False, standalone_mode=False)
    done = CliRunner().invoke(init.command, ["here"], catch_exceptions=False)
    path = tmp_path / "new" / "llmbx.toml"
    assert tomli.loads(path.read_text())["install"] == str(tmp_path / "install")
    assert "1 x NVIDIA H200, 143771 MiB each, driver 570.1" in done.stderr and f"wrote {path}" in done.stderr
    path.write_text("mine = 1")
    with pytest.raises(UsageError, match="exists: add --force"):
        CliRunner().invoke(init.command, [], catch_exceptions=False, standalone_mode=False)
    assert path.read_text() == "mine = 1"


def test_what_is_missing_is_named_with_the_way_to_get_it(tmp_path: Path) -> None:
    done = CliRunner().invoke(init.command, ["--output", "-"], catch_exceptions=False)
    missing = "not found: runtime apptainer: neither apptainer nor singularity is on PATH; install apptainer"
    assert missing in " ".join(done.stderr.split())
    assert max(map(len, done.stderr.splitlines())) <= 80
    assert "install = " in done.stdout
    assert not (tmp_path / "new").exists() and not (tmp_path / "install").exists()


def test_a_scheduler_that_does_not_answer_is_not_a_missing_one(tmp_path: Path) -> None:
    for name in ("sinfo", "sbatch", "srun", "scontrol", "sacctmgr"):
        program = tmp_path / "bin" / name
        program.write_text("#!/bin/sh\n# A stand-in.\necho Unable to contact slurm controller >&2\nexit 1\n")
        program.chmod(0o755)
    done = CliRunner().invoke(init.command, ["--output", "-"], catch_exceptions=False)
    problem = "sinfo: Unable to contact slurm controller"
    assert f"does not work: launcher slurm: {problem}" in done.stderr
    assert f"# The scheduler slurm does not answer: {problem}" in done.stdout
    assert "no scheduler" not in done.stdout and "[clusters" not in done.stdout


def test_no_gpu_type_is_proposed_where_none_was_found(tmp_path: Path) -> None:
    (tmp_path / "bin" / "nvidia-smi").unlink()
    done = CliRunner().invoke(init.command, ["--output", "-"], catch_exceptions=False)
    assert '# launcher = "local"' in done.stdout and "gpu_type =" not in done.stdout
