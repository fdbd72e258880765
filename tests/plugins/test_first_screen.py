"""Screens of 80 columns for jobs of the catalog: `--dry-run` in 40 lines, `show` with a line for each value."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from llmbx.cli.run import command
from llmbx.cli.workspace import load_workspace
from llmbx.config.request import Request
from llmbx.model import Finding
from llmbx_site import show
from llmbx_site.settings_table import lines
from llmbx_slurm.launcher import SlurmLauncher

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
    screen = done.stdout.splitlines()
    assert len(screen) <= 40 and max(map(len, screen)) <= 80, done.stdout
    assert [text for text in JOBS[job] if text not in " ".join(done.stdout.split())] == []


def test_a_mini_on_a_login_node_names_the_way_to_its_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMBX_CONFIG", "/dev/null")
    for works in (True, False):
        monkeypatch.setattr(SlurmLauncher, "available", lambda _: None)
        broken = None if works else Finding(rule="available", problem="no cluster is configured", fix="")
        monkeypatch.setattr(SlurmLauncher, "check", lambda *_, broken=broken: broken)
        screen = CliRunner().invoke(command, ["grok1", "--size", "mini", "--gpu-type", "cpu", "--dry-run"]).stdout
        assert ("this machine reaches slurm: `llmbx init`" in " ".join(screen.split())) == works


def test_show_has_one_line_for_each_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMBX_CONFIG", "/dev/null")
    workspace = load_workspace()
    spec = workspace.resolve(Request(workload="grok1", gpu_type="gb200", gpus=128))
    rows = show.rows(spec, show.describe(spec, workspace))
    shown = list(lines(rows, 80))
    assert max(map(len, shown)) <= 80
    settings = [line for line in shown[: shown.index("[1] default of grok1")] if line]
    assert [line.split()[0] for line in settings] == [row["setting"] for row in rows]


def test_a_long_path_has_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    home = "/scratch/" + "a-long-name/" * 8 + "of-a-home"
    monkeypatch.setenv("LLMBX_CONFIG", "/dev/null")
    monkeypatch.setenv("HOME", home)
    for name in ("LLMB_INSTALL", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    done = CliRunner().invoke(command, ["grok1", "--size", "mini", "--gpu-type", "cpu", "--dry-run"])
    screen = done.stdout.splitlines()
    number = screen.index("artifacts are stored in (set LLMB_INSTALL to change it):")
    assert screen[number + 1].strip() == f"{home}/.local/share/llmbx"
