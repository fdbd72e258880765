"""The first screen of `--dry-run` for jobs of the catalog: 40 lines of 80 columns."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from llmbx.cli.run import command

JOBS = {
    "nemo grok1 --gpu-type gb200 --gpus 128": ("32 x 4 ranks", "--nodes=32", "python3 code/train.py"),
    "llama3.1 --size 405b --gpu-type h100 --gpus 1024": ("128 x 8 ranks", "--nodes=128", "11 min for 50 steps"),
    "maxtext llama2 --gpu-type h100 --gpus 64 --dtype bf16": ("check, rank 0", "wrapped in", "code/train.py measure"),
    "maxtext llama2 --size mini --gpu-type cpu": ("a rank runs", "JAX_PLATFORMS=cpu", "no limit"),
}


@pytest.mark.parametrize("job", JOBS)
def test_a_dry_run_fits_on_the_screen(job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMB_INSTALL", "/data/llmbx")
    monkeypatch.setenv("LLMBX_CONFIG", "/dev/null")
    done = CliRunner().invoke(command, [*job.split(), "--dry-run"])
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert len(lines) <= 40 and max(map(len, lines)) <= 80, done.stdout
    assert [text for text in JOBS[job] if text not in " ".join(done.stdout.split())] == []
