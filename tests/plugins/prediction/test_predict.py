"""Predictions: their values and intervals, the terms, what they rest on, and questions that have no answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmbx_prediction.atlas import table
from llmbx_prediction.case import Case
from llmbx_prediction.cost import memory
from llmbx_prediction.cost.model import Model, find
from llmbx_prediction.cost.roofline import ideal
from llmbx_prediction.prediction import Predictor

from .conftest import Command, write_table

Answer = Callable[..., Any]
GROK = ("predict", "grok1", "--dtype", "bf16", "--gpu-type", "h100", "--gpus", "512")


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    return Predictor(table.shipped())


def case(name: str = "llama3.1-70b", **values: Any) -> Case:
    plain: dict[str, Any] = {"model": find(name), "gpu_type": "h100", "gpus": 64, "dtype": "fp8", "gbs": 256, "tp": 4,
                             "pp": 8, "vp": 5, "seq": 8192}  # fmt: skip
    return Case(**plain | values)


def test_a_published_configuration_is_predicted_as_it_was_measured(answer: Answer) -> None:
    """Grok-1 on 512 H100 in BF16: 15.933 s in the recipe of 25.05.02."""
    found = answer(*GROK)
    step = found["step_time_s"]
    assert step["low"] < 15.933 < step["high"] and step["level"] == 0.9
    assert step["value"] == pytest.approx(15.933, rel=0.06)
    assert found["nearest"]["model"] == "grok1" and found["nearest"]["distance"] < 0.2
    assert found["configuration_from"].startswith("catalog, recipe")
    assert found["unknown_because"] is None


def test_the_figures_of_a_prediction_are_one_figure(answer: Answer) -> None:
    found = answer(*GROK)
    work = found["configuration"]["gbs"] * found["configuration"]["seq"] / 512
    step, rate = found["step_time_s"], found["tokens_per_s_per_gpu"]
    assert rate["value"] == pytest.approx(work / step["value"])
    assert (rate["low"], rate["high"]) == pytest.approx((work / step["high"], work / step["low"]))
    assert found["tflops_per_gpu"]["value"] / rate["value"] == pytest.approx(0.52, rel=0.02)  # TFLOP per token


def test_the_terms_add_up_to_the_step(answer: Answer) -> None:
    found = answer(*GROK)
    terms = found["terms"]
    parts = ("compute_s", "exposed_communication_s", "bubble_s", "optimizer_s", "host_s", "waiting_s")
    assert sum(terms[name] for name in parts) == pytest.approx(found["step_time_s"]["value"])
    assert terms["compute_s"] == pytest.approx(sum(terms["compute"].values()))
    assert {"tensor parallel", "expert parallel", "pipeline"} <= set(terms["exposed_communication"])
    assert terms["bubble_s"] > 0


def test_a_setting_changes_the_configuration_and_the_term_it_is_about(answer: Answer) -> None:
    words = ("predict", "llama3.1", "--size", "70b", "--gpu-type", "h100", "--gpus", "512")
    split, whole = answer(*words), answer(*words, "--set", "vp=1")
    assert whole["configuration"]["vp"] == 1 < split["configuration"]["vp"]
    assert whole["terms"]["bubble_s"] > 2 * split["terms"]["bubble_s"]


def test_weak_scaling_keeps_the_rate_and_more_gpus_wait_longer(predictor: Predictor) -> None:
    """Recipes' tables: from 64 to 2,048 GPUs the step of Llama 3.1 70B takes 2 to 4 % longer."""
    small = case(dtype="bf16", gbs=128, stack="nemo2")
    large = small.replace(gpus=2048, gbs=4096)
    ratio = predictor.predict(large, "").step_time_s.value / predictor.predict(small, "").step_time_s.value
    assert 0.99 < ratio < 1.08
    assert ideal(large)["scale"] > ideal(small)["scale"]


def test_the_interval_is_wider_the_less_is_known(predictor: Predictor) -> None:
    def width(asked: Case) -> float:
        found = predictor.predict(asked, "").step_time_s
        return found.high / found.low

    other = Model(name="another", layers=40, hidden=5120, ffn=13824, heads=40, groups=40, vocab=50000)
    other = case(model=other)
    assert width(case()) < width(other) < width(other.replace(gpu_type="h200", stack="maxtext"))


def test_a_gpu_that_nothing_published_is_near_to_is_unknown(answer: Answer) -> None:
    found = answer("predict", "llama3.1", "--size", "8b", "--gpu-type", "tpu-v6e", "--gpus", "64", "--dtype", "bf16")
    assert found["step_time_s"]["value"] is None and found["terms"] is None
    assert "tpu-v6e" in found["unknown_because"]


def test_a_model_without_a_known_shape_has_a_step_time_and_no_memory(answer: Answer) -> None:
    found = answer("predict", "nemotron3-ultra", "--gpu-type", "gb300", "--gpus", "256", "--dtype", "mxfp8")
    assert found["step_time_s"]["value"] == pytest.approx(256 * 8192 / 256 / 3552, rel=0.15)
    assert found["memory_gb"] == {"value": None, "low": None, "high": None, "level": 0.9}


def test_a_gpu_type_without_a_row_in_the_catalog_has_the_row_of_another(answer: Answer) -> None:
    """Llama 4 Maverick has rows for GB200 and H100: PP 2 and EP 64 for GB200."""
    found = answer("predict", "llama4", "--gpu-type", "gb300", "--gpus", "128", "--dtype", "bf16")
    assert found["configuration_from"].endswith("row of gb200")
    assert (found["configuration"]["gpu_type"], found["configuration"]["ep"]) == ("gb300", 64)
    assert found["step_time_s"]["value"] is not None


def test_own_figures_change_the_prediction(llmbx: Command, answer: Answer, tmp_path: Path) -> None:
    """A cluster that is a third slower than the published ones: its configuration is predicted as it was measured."""
    before = answer(*GROK)
    slow = 1.33 * before["step_time_s"]["value"]
    settings = before["configuration"]
    names = ("gbs", "mbs", "seq", "tp", "pp", "cp", "ep", "etp", "vp", "stack")
    line = ",".join(str(settings[name]) for name in names)
    lines = [f"grok1,h100,512,bf16,{line},2025.4,{slow * part}" for part in (0.99, 1.0, 1.01, 1.0, 1.0)]
    add = write_table(tmp_path / "ours.csv", f"model,gpu_type,gpus,dtype,{','.join(names)},when,step_time_s", *lines)
    assert llmbx(*add).exit_code == 0
    after = answer(*GROK)
    assert after["calibrated_on"]["own"] == 5
    assert after["step_time_s"]["value"] > 1.08 * before["step_time_s"]["value"]


def test_own_figures_that_cannot_calibrate_do_not_stop_a_prediction(
    llmbx: Command, answer: Answer, tmp_path: Path
) -> None:
    """A dtype that the GPU type has no peak for, and a GPU type without rates."""
    before = answer(*GROK)["calibrated_on"]["rows"]
    add = write_table(tmp_path / "odd.csv", "model,gpu_type,gpus,dtype,gbs,seq,tp,pp,step_time_s",
                      "grok1,a100,8,fp8,8,8192,1,1,9.0", "grok1,h100-pcie,8,bf16,8,8192,1,1,9.0")  # fmt: skip
    assert llmbx(*add).exit_code == 0
    assert answer(*GROK)["calibrated_on"]["rows"] == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("grok1", "--gpus", "512"), "--gpu-type is required"),
        (("grok1", "--gpu-type", "h100"), "--gpus is required"),
        (("grok2", "--gpu-type", "h100", "--gpus", "512"), "did you mean 'grok1'?"),
        ((*GROK[1:], "--set", "tpp=4"), "--set tpp: unknown setting"),
        ((*GROK[1:], "--set", "tp=0"), "--set tp=0: expected an integer >= 1"),
        ((*GROK[1:], "--set", "tp=x"), "--set tp=x: expected an integer >= 1"),
        ((*GROK[1:], "--set", "tp=3"), "= 48 does not divide 512 GPUs"),
        ((*GROK[1:], "--set", "gbs=1001"), "is not a multiple of MBS 1 x DP 8 = 8: use --set gbs=1000"),
        ((*GROK[1:], "--set", "recompute=some"), "expected none, selective, full"),
        (("llama3.1-8b", "--gpu-type", "h100", "--gpus", "8", "--set", "ep=2"), "EP 2 needs experts"),
        (("llama3.1-8b", "--gpu-type", "h101", "--gpus", "8"), "no rates of GPU type 'h101' (did you mean 'h100'?)"),
        (("llama3.1-8b", "--gpu-type", "h100", "--gpus", "8", "--dtype", "fp9"), "no prediction for this dtype"),
        (("llama3.1-8b", "--gpu-type", "a100", "--gpus", "8", "--dtype", "fp8"), "no fp8 peak is known"),
        (("deepseek-v3", "--gpu-type", "h100", "--gpus", "8", "--set", "layers=2"), "has more layers of one kind"),
        (("llama3.1-8b", "--gpu-type", "h100", "--gpus", "8", "--release", "new"), "expected year and month"),
        (("nemotron3-ultra", "--gpu-type", "gb300", "--gpus", "64", "--best"), "shape of nemotron3-ultra is not known"),
    ],
)  # fmt: skip
def test_a_wrong_question_is_answered_in_one_line(llmbx: Command, words: tuple[str, ...], says: str) -> None:
    done = llmbx("predict", *words)
    assert done.exit_code == 2 and says in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_the_table_and_csv_have_the_figures(llmbx: Command) -> None:
    shown = llmbx(*GROK)
    assert "step time" in shown.stdout and "90 % interval" in shown.stdout
    assert "calibrated on" in shown.stderr and "nearest: grok1 on 512 x h100" in shown.stderr
    assert llmbx(*GROK, "--format", "csv").stdout.startswith("figure,value,low,high,unit,note\n")


GPT = {"layers": 32, "gated": False}
MIXTRAL = {"layers": 32, "hidden": 4096, "heads": 32, "groups": 8, "experts": 8, "top_k": 2, "moe_ffn": 14336}
DEEPSEEK = {"layers": 14, "hidden": 7168, "heads": 128, "ffn": 18432, "experts": 64, "top_k": 8, "moe_ffn": 2048,
            "shared_ffn": 2048, "dense_layers": 3, "kv_rank": 512, "q_rank": 1536, "mtp_layers": 1,
            "vocab": 258560}  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "values", "measured"),
    [
        # Megatron-LM's functional tests on H100, peak memory of the last rank: gpt3_7b_tp1_pp4, gpt3_7b_tp4_pp1,
        # gpt3_15b_8t, mixtral_8x7b_tp1pp4ep8vpp8, mixtral_8x7b_alltoall_tp2pp4ep4, deepseekv3_proxy_flex_tp1pp4emp16.
        ({**GPT, "hidden": 4096, "heads": 32, "groups": 8, "vocab": 131073, "ffn": 16384},
         {"gpus": 8, "pp": 4, "vp": 8, "mbs": 1, "seq": 8192}, 60.5),
        ({**GPT, "hidden": 4096, "heads": 32, "groups": 8, "vocab": 131073, "ffn": 16384},
         {"gpus": 8, "tp": 4, "mbs": 2, "seq": 8192, "sequence_parallel": False}, 57.1),
        ({**GPT, "hidden": 6144, "heads": 48, "groups": 8, "vocab": 256000, "ffn": 24576},
         {"gpus": 128, "tp": 8, "mbs": 4, "seq": 4096}, 28.2),
        ({**MIXTRAL, "vocab": 32000},
         {"gpus": 64, "tp": 2, "pp": 4, "vp": 8, "ep": 8, "etp": 1, "mbs": 1, "seq": 4096, "gbs": 256}, 35.5),
        ({**MIXTRAL, "vocab": 256000},
         {"gpus": 128, "tp": 2, "pp": 4, "ep": 4, "etp": 2, "mbs": 1, "seq": 4096}, 26.5),
        (DEEPSEEK,
         {"gpus": 64, "tp": 2, "pp": 4, "vp": 2, "ep": 16, "etp": 1, "mbs": 1, "seq": 4096, "gbs": 512}, 46.6),
    ],
)  # fmt: skip
def test_memory_is_within_nine_percent_of_what_was_measured(
    shape: dict[str, Any], values: dict[str, Any], measured: float
) -> None:
    asked = Case(model=Model(name="m", **shape), gpu_type="h100", dtype="bf16", stack="megatron-lm",
                 **{"gbs": 1024, **values})  # fmt: skip
    found, fullest = memory.of_stage(asked, "last"), memory.estimate(asked)
    assert found.total_gb == pytest.approx(measured, rel=0.09)
    assert found.low_gb < measured < found.high_gb
    assert fullest is not None and fullest.total_gb >= found.total_gb


def test_the_first_stage_has_the_activations_and_the_last_the_logits() -> None:
    asked = case(pp=8, vp=1, tp=1, gpus=64, gbs=512)
    first, last = (memory.of_stage(asked, stage).terms_gb for stage in ("first", "last"))
    assert first["activations"] == pytest.approx(8 * last["activations"])
    assert (first["logits"], first["weights"]) == (0.0, last["weights"]) and last["logits"] > 0
    assert memory.of_stage(case(pp=1, vp=1, tp=1), "first") == memory.of_stage(case(pp=1, vp=1, tp=1), "last")


def test_sharding_and_recomputation_save_the_memory_that_they_are_for() -> None:
    def parts(**values: Any) -> dict[str, float]:
        found = memory.estimate(case(pp=1, vp=1, tp=1, **values))
        assert found is not None
        return found.terms_gb

    whole, sharded, again = parts(), parts(fsdp=True), parts(recompute="full")
    assert sharded["weights"] + sharded["gradients"] < 0.2 * (whole["weights"] + whole["gradients"])
    assert again["activations"] < 0.2 * whole["activations"]


def test_the_memory_of_a_gpu_type_is_the_users(predictor: Predictor) -> None:
    asked = case(pp=1, vp=1, tp=1)
    changed = Predictor(table.shipped(), {asked.gpu_type: 100_000.0})
    assert "more than the" in predictor.predict(asked, "").notes[0] and changed.predict(asked, "").notes == ()


def test_what_does_not_fit_says_so(answer: Answer) -> None:
    words = ("predict", "llama3.1-405b", "--gpu-type", "h100", "--gpus", "8", "--dtype", "bf16")
    found = answer(*words, *[word for key in ("tp", "pp", "cp", "vp") for word in ("--set", f"{key}=1")])
    assert found["memory_gb"]["value"] > 80 and "more than the 86 GB" in found["notes"][0]
