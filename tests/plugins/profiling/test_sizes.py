"""Size estimate and disk space check before a run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from llmbx.cli.run import command
from llmbx.model import ModelShape, Parallelism, ProfileSpec, RunSpec
from llmbx_profiling.pre_run import findings
from llmbx_profiling.sizes import BASE, estimate

MakeSpec = Callable[..., RunSpec]
SHAPE = ModelShape(
    layers=126,
    hidden_size=16384,
    ffn_hidden_size=53248,
    heads=128,
    query_groups=8,
    vocab_size=128256,
    sequence_length=8192,
)


def cluster(make_spec: MakeSpec, **changes: object) -> RunSpec:
    profile = ProfileSpec(tool="nsys", start=45, stop=48, ranks="0,128,224")
    values = {"gpus": 256, "gpus_per_node": 8, "launcher": "slurm", "model": SHAPE, "profile": profile,
              "parallelism": Parallelism(tp=4, pp=8, dp=8), "gradient_accumulation": 128}  # fmt: skip
    return make_spec(**{**values, **changes})


def test_the_estimate_is_close_to_reported_sizes(make_spec: MakeSpec) -> None:
    """Three ranks of 256, three steps: about 0.6 GB each, as reported by a user of the recipes."""
    files, size = estimate(cluster(make_spec))
    assert files == 3 and 0.3e9 < size / files < 1.2e9


def test_more_ranks_steps_and_counters_are_larger(make_spec: MakeSpec) -> None:
    spec = cluster(make_spec)
    assert spec.profile is not None
    _, size = estimate(spec)
    everyone = spec.replace(profile=spec.profile.replace(ranks="all"))
    assert estimate(everyone)[0] == 256 and estimate(everyone)[1] == pytest.approx(size * 256 / 3, rel=0.01)
    longer = spec.replace(profile=spec.profile.replace(stop=51))
    assert estimate(longer)[1] == pytest.approx(2 * size, rel=0.01)
    counters = spec.replace(plugin_settings={"nsys": {"gpu_metrics": True}})
    assert estimate(counters)[1] > size


def test_a_profile_without_gpus_is_small(make_spec: MakeSpec) -> None:
    spec = make_spec(gpu_type="cpu", profile=ProfileSpec(tool="nsys", start=1, stop=5, ranks="all"))
    assert estimate(spec) == (2, 2 * BASE)
    assert estimate(make_spec()) == (0, 0)


def test_the_size_is_reported_and_a_full_disk_is_an_error(
    make_spec: MakeSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = cluster(make_spec, install=str(tmp_path / "not" / "yet"))
    (finding,) = findings(spec)
    assert finding.warning and "the profile will be 3 files of about" in finding.problem
    used = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: used._replace(free=10**9))
    (finding,) = findings(spec)
    assert not finding.warning and "1.0 GB are free" in finding.problem and "--ranks" in finding.fix


def test_gated_tokenizers_are_a_warning(make_spec: MakeSpec, tmp_path: Path) -> None:
    spec = cluster(make_spec, gated_tokenizer="meta-llama/Llama-3.1-405B")
    assert "--keep-secrets" in findings(spec)[-1].fix
    assert spec.profile is not None
    kept = spec.replace(secrets=("HF_TOKEN",), profile=spec.profile.replace(keep_secrets=True))
    assert "the profiles will contain HF_TOKEN" in findings(kept)[-1].problem


@pytest.mark.parametrize(("scheduler", "refused"), [(None, False), ("/usr/bin/sbatch", True)])
def test_a_script_for_another_machine_is_not_refused_for_the_disk_of_this_one(
    scheduler: str | None, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path))
    monkeypatch.setenv("LLMBX_CONFIG", "/dev/null")
    used = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: used._replace(free=10**9))
    monkeypatch.setattr(shutil, "which", lambda name, **more: scheduler if name == "sbatch" else None)
    options = ["grok1", "--gpu-type", "h100", "--gpus", "512", "--dtype", "fp8", "-p", "--runtime", "pyxis"]
    done = CliRunner().invoke(command, [*options, "--launcher", "slurm", "--emit-script", str(tmp_path / "x.sh")])
    assert (tmp_path / "x.sh").exists() is not refused
    assert ("1.0 GB are free" in str(done.exception)) is refused
