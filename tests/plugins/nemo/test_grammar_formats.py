"""Detection of log formats, default windows, and the recipes' example outputs."""

# ruff: noqa: E501 (log lines are as long as they are)

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.errors import UsageError
from llmbx.logs.parser import LogFormat
from llmbx.model import RunSpec
from llmbx.plugins.manager import load
from llmbx_nemo.grammar import MegatronParser, Nemo2Parser, formats
from llmbx_parse.find import find_logs
from llmbx_parse.rows import Row, parse_logs
from llmbx_parse.table import table

LOGS = Path(__file__).parents[2] / "fixtures" / "logs"
STEP = "| elapsed time per iteration (ms): 5710.2 |"


def rows(window: str | None = None) -> dict[str, Row]:
    return {row.experiment: row for row in parse_logs(find_logs([LOGS / "experiments"]), formats(), load(), window)}


@pytest.mark.parametrize(
    ("experiment", "line"),
    [
        # Llama 3.1 recipe, Llama 4 recipe, Grok-1 recipe: the example outputs of their parse scripts.
        (
            "pretrain_llama31_405b_fp8_cs_gpus128_tp2_pp1_cp1_vpNone_ep1_mbs1_gbs64_658572",
            "Success 5741.470 68.670 1636.80 20.89",
        ),
        (
            "pretrain_llama4_e128_fp8_64nodes_tp4_pp1_cp1_vp1_ep128_etp4_1mbs_1024gbs_2784318",
            "Success 3.685 0.008 527.78 1.11",
        ),
        ("pretrain_grok1_314b_bf16_256_388660", "Success 7.382 0.040 1192.94 6.53"),
    ],
)
def test_the_recipes_example_outputs(experiment: str, line: str) -> None:
    text = table([rows()[experiment]])
    assert text.splitlines()[4].split() == [experiment, *line.split(), "-", "stable"]  # no tokens per second
    heads = text.splitlines()[2]
    unit = "ms" if "405b" in experiment else "s"
    recipes = f"Experiment Status Time Mean ({unit}) Time Std ({unit}) TFLOPS_per_GPU Mean TFLOPS_per_GPU Std"
    assert heads.split() == [*recipes.split(), "Tokens/s/GPU", "Stability"]
    assert text.splitlines()[0] == (
        "Elapsed Time (ms) and TFLOPS/GPU Analysis (iterations 35-44)" if unit == "ms"
        else "Train Step Timing and TFLOPS Analysis (iterations 11-44)"
    )  # fmt: skip


def test_the_llama_31_recipe_on_nemo_2_takes_the_last_step() -> None:
    row = rows()["pretrain_llama3.1_8b_fp8_8_1407993"]
    window, time = row.figures.window, row.figures.step_time_s
    assert (row.format, window.first, window.last, window.policy) == ("nemo2", 49, 49, "last")
    assert (time.mean, time.std, row.figures.steps_measured) == (12.39, None, 1)


def test_values_that_the_scripts_leave_out_are_left_out() -> None:
    assert len(rows()) == 5
    assert not any("nccltrace" in name or "sbatch" in name for name in rows())


def test_a_run_that_stopped_early() -> None:
    row = rows()["pretrain_grok1_314b_fp8_128_388700"]
    assert (row.status, row.figures.steps_measured) == ("Failed (20 iterations)", 0)
    assert row.figures.window.reason == "the log ends at step 19"
    assert rows("5-19")["pretrain_grok1_314b_fp8_128_388700"].figures.steps_measured == 15


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"Step Time : 5.71s GPU utilization: 1181.5MODEL_TFLOP/s/GPU\niteration 1/50 {STEP}\n", "megatron-bridge"),
        (f"Configuration Summary (Non-Default Values vs Megatron Core)\niteration 1/50 {STEP}\n", "megatron-bridge"),
        (f"iteration 1/50 {STEP}\n", "megatron-lm"),
        ("[after megatron is initialized] datetime: x\nboom\n", "megatron-lm"),
        ("[NeMo I 2025-05-14 09:00:00 x:1] a\nTraining epoch 0, iteration 0/49 | lr: 1\n", "nemo2"),
        ("[NeMo I 2025-05-14 09:00:00 x:1] a\nCUDA out of memory\n", "nemo2"),
        ("[NeMo I 2024-05-14 09:00:00 x:1] a\n" + "Epoch 0: : 2%|x| 1/50 [01:00<00:00, global_step=1.0, train_step_timing in s=2.0]\n" * 2, "nemo1"),
        ("completed step: 49, seconds: 7.908, TFLOP/s/device: 460.480\n", None),
        ("iteration 3 of a loop\n", None),
    ],
)  # fmt: skip
def test_a_format_is_detected_by_its_lines(tmp_path: Path, text: str, name: str | None) -> None:
    log = tmp_path / "log.out"
    log.write_text(text)
    found = LogFormat.recognize(log, formats())
    assert (found.name if found else None) == name


@pytest.mark.parametrize(
    ("format_", "experiment", "window"),
    [
        ("megatron-bridge", "pretrain_grok1_314b", "35-44"),
        ("megatron-bridge", "anything", "35-44"),
        ("nemo2", "pretrain_grok1_314b_bf16_256", "11-44"),
        ("nemo2", "pretrain_llama4_e128_fp8", "11-44"),
        ("nemo2", "pretrain_llama3.1_405b_fp8_512", "last"),
        ("nemo2", "pretrain_llama31_8b", "last"),
        ("nemo2", "pretrain_llama3_8b", "11-44"),
        ("nemo1", "anything", "auto"),
    ],
)
def test_the_default_windows(format_: str, experiment: str, window: str) -> None:
    assert {f.name: f for f in formats()}[format_].window(experiment) == window


def test_each_driver_has_a_parser(make_spec: Callable[..., RunSpec]) -> None:
    assert all(
        isinstance(formats(spec)[0].parser(), MegatronParser) for spec in (make_spec(driver="megatron-bridge"), None)
    )
    assert isinstance(formats(make_spec(driver="nemo2"))[0].parser(), Nemo2Parser)
    with pytest.raises(UsageError, match=r"known: .*nemo2"):
        formats(make_spec(driver="nemo3"))
