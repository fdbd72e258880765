"""The hook `predict_run`: what runs of the catalog are expected to measure."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from llmbx.cli import run
from llmbx.cli.workspace import Workspace, load_workspace
from llmbx.config.request import Request
from llmbx.errors import UsageError
from llmbx.model import Expected
from llmbx.run import context
from llmbx_prediction.atlas import own, table
from llmbx_prediction.cost import memory
from llmbx_prediction.cost.model import of_shape
from llmbx_prediction.prediction import Predictor
from llmbx_prediction.specification import of_spec

H100 = {"workload": "llama3.1", "size": "405b", "gpu_type": "h100", "gpus": 512, "dtype": "fp8"}


@pytest.fixture
def workspace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Workspace:
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path))
    monkeypatch.setenv("LLMBX_CONFIG", str(tmp_path / "none.toml"))
    (tmp_path / "none.toml").write_text("")
    return load_workspace()


def asked(workspace: Workspace, **changes: object) -> tuple[Expected, list[tuple[str, bool]]]:
    spec = workspace.resolve(Request(**{**H100, **changes}))  # type: ignore[arg-type]
    found, findings = workspace.expected(spec)
    return found, [(finding.rule, finding.warning) for finding in findings]


def test_a_published_run_is_expected_as_it_was_published(workspace: Workspace) -> None:
    """The Llama 3.1 recipe publishes 12.37 s per step."""
    found, findings = asked(workspace)
    assert found.step_time_s.value == pytest.approx(12.37, rel=0.05) and findings == []
    assert found.step_time_s.value and found.step_time_s.low and found.step_time_s.high
    assert found.step_time_s.low < 12.37 < found.step_time_s.high
    tokens = 256 * 8192 / 512  # per step and GPU, by the recipe's global batch
    assert found.tokens_per_s_per_gpu.value == pytest.approx(tokens / found.step_time_s.value, rel=1e-6)
    assert found.source is not None and "published figures" in found.source and found.unknown_because is None


def test_every_configuration_that_has_run_is_expected_to_fit(workspace: Workspace) -> None:
    """Whoever published a step time had the memory for it. What models with experts recompute is not in their rows."""
    fitted, tight = 0, []
    for workload in workspace.plugins.workloads:
        timed = [one for one in workload.references if one.step_time_s]
        for size, dtype, gpu_type, gpus, recipe in {(r.size, r.dtype, r.gpu_type, r.gpus, r.recipe) for r in timed}:
            request = Request(
                workload=workload.name, size=size, dtype=dtype, gpu_type=gpu_type, gpus=gpus, recipe=recipe
            )
            try:
                spec = workspace.resolve(request)
            except UsageError:  # a row of another recipe than the catalog's
                continue
            needed = memory.estimate(of_spec(spec, of_shape(spec.model, f"{workload.name}-{size}"), workload))
            limit = memory.limit_gb(gpu_type)
            if needed is None or limit is None:
                continue
            fitted += 1
            assert needed.low_gb < limit, request
            if needed.total_gb > limit:
                tight.append(request)
                assert spec.model.experts, request
    assert fitted > 80 and len(tight) < 5, tight


def test_no_layout_that_was_published_is_refused_for_its_memory() -> None:
    """Of nine figures the estimate alone says that their GPU has too little memory."""
    predictor = Predictor(table.shipped())
    beyond = 0
    for row, case, _ in predictor.used:
        needed, limit = memory.estimate(case), predictor.limit_gb(case.gpu_type)
        if needed is None or limit is None or needed.low_gb <= limit:
            continue
        beyond += 1
        low = predictor.predict(case, "").memory_gb.low
        assert low is not None and low <= limit, row
        fewer = predictor.predict(case.replace(gpus=case.gpus // 2), "").memory_gb.low
        assert fewer is not None and fewer > limit, row
    assert beyond >= 9


def test_a_dry_run_shows_a_run_that_does_not_fit(workspace: Workspace) -> None:
    arguments = ["llama3.1", "--size", "405b", "--gpu-type", "h100", "--gpus", "512", "--dtype", "fp8"]
    arguments += ["--set", "tp=1", "--set", "pp=1", "--set", "vp=1", "--runtime", "host"]
    for more, label in (((), "  problem          "), (("--verbose",), "problem: ")):
        done = CliRunner().invoke(run.command, [*arguments, "--dry-run", *more])
        assert done.exit_code == 0, done.output
        assert f"{label}the run needs about" in done.stdout
    done = CliRunner().invoke(run.command, [*arguments, "--emit-script", "-"])
    assert done.exit_code == 0 and done.stdout.startswith("#!/bin/bash")


def test_a_layout_of_ones_own_is_known_less_well_than_the_recipes(workspace: Workspace) -> None:
    def width(**changes: object) -> float:
        step = asked(workspace, **changes)[0].step_time_s
        assert step.low and step.high
        return math.log(step.high / step.low)

    assert width(settings={"vp": "1"}) > 1.5 * width() > 0
    assert width(settings={"lr": "0.001"}) == width()


def test_a_model_on_too_few_gpus_cannot_fit(workspace: Workspace) -> None:
    found, findings = asked(workspace, settings={"tp": "1", "pp": "1", "vp": "1"})
    assert found.memory_gb.low is not None and found.memory_gb.low > 1000
    assert findings == [("memory", False)]


def test_nothing_published_near_by_is_unknown(workspace: Workspace) -> None:
    spec = workspace.resolve(Request(**H100))  # type: ignore[arg-type]
    for gpu_type, why in (("mi300x", "no published step time of mi300x or its generation states .*"),
                          ("tpu", "no figure of tpu is published")):  # fmt: skip
        found, findings = workspace.expected(spec.replace(gpu_type=gpu_type))
        assert found.step_time_s.value is None and findings == []
        assert re.fullmatch(why, found.unknown_because or "")


def test_memory_of_a_stack_that_nobody_measured_is_unknown(workspace: Workspace) -> None:
    found, findings = asked(workspace, workload="llama2", size="70b", gpus=64, dtype="bf16")
    assert found.step_time_s.value == pytest.approx(7.0, rel=0.1)
    assert found.memory_gb.value is None and findings == []


R8 = {"size": "8b", "gpus": 8, "dtype": "bf16"}


def test_recomputed_layers_save_their_activations(workspace: Workspace) -> None:
    none, _ = asked(workspace, **R8, settings={"mbs": "4"})
    half, _ = asked(workspace, **R8, settings={"mbs": "4", "rl": "16"})
    every, findings = asked(workspace, **R8, settings={"mbs": "4", "rl": "32"})
    assert none.memory_gb.value and half.memory_gb.value and every.memory_gb.value
    assert none.memory_gb.value > half.memory_gb.value > every.memory_gb.value and findings == []


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"overrides": "model.num_layers=200"}, "the framework's configuration is changed (model.num_layers=200)"),
        ({"ol": "1000"}, "the configuration is not valid"),
        ({"hidden_size": "0"}, "the configuration is not valid"),
    ],
)
def test_what_cannot_be_known_is_not_predicted(workspace: Workspace, settings: dict[str, str], reason: str) -> None:
    spec = workspace.resolve(Request(**{**H100, **R8, "settings": settings}))  # type: ignore[arg-type]
    found, findings = workspace.expected(spec, context.findings(spec, workspace.plugins.framework("nemo")))
    assert (found.unknown_because, found.memory_gb.value, findings) == (reason, None, [])


def test_a_damaged_table_of_ones_own_is_named(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "atlas").mkdir()
    (tmp_path / "atlas" / "x.csv").write_bytes(b"\xff\xfe\x00")
    assert f"{tmp_path}/atlas/x.csv: not a CSV table" in (asked(workspace)[0].unknown_because or "")


def test_own_figures_count(workspace: Workspace, tmp_path: Path) -> None:
    assert (before := asked(workspace, gpus=1024)[0]).source and "your own" not in before.source
    table = tmp_path / "ours.csv"
    table.write_text(
        "model,gpu_type,gpus,dtype,gbs,mbs,seq,tp,pp,cp,vp,step_time_s,stack,when\n"
        "llama3.1-405b,h100,1024,fp8,512,1,8192,8,8,2,8,14.8,nemo2,2025.5\n"
    )
    own.add(tmp_path, table, "ours")
    after, _ = asked(workspace, gpus=1024)
    assert after.source is not None and "(1 of them your own)" in after.source
    assert before.step_time_s.value is not None and after.step_time_s.value is not None
    assert after.step_time_s.value > before.step_time_s.value


def test_nobody_is_told_that_a_prediction_takes_long(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("llmbx.plugins.manager.SLOW_S", 0.0)
    workspace.plugins.predict_run(workspace.resolve(Request(**H100)), workspace.install)  # type: ignore[arg-type]
    assert "predict_run" not in capsys.readouterr().err
