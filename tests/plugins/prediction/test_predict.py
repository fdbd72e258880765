"""Predictions: their values and intervals, the terms, what they rest on, and questions that have no answer."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmbx_prediction.atlas import table
from llmbx_prediction.case import Case
from llmbx_prediction.cost import memory
from llmbx_prediction.cost.model import Model, find
from llmbx_prediction.cost.rates import known as known_rates
from llmbx_prediction.cost.roofline import ideal, impossible, seconds_at_peak
from llmbx_prediction.prediction import Predictor, cell
from llmbx_prediction.regression.features import features
from llmbx_prediction.regression.kernel import COMPONENTS, EXPERTS_GPU, covariance, variances
from llmbx_prediction.regression.shipped import GPU, KNOWN, STACK, UNSEEN, calibration, familiarity

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


def test_a_layout_that_nobody_chose_has_the_interval_of_untuned_layouts(answer: Answer) -> None:
    def width(*settings: str) -> float:
        found = answer("predict", "llama3.1", "--size", "70b", "--gpu-type", "h100", "--gpus", "512", *settings)
        assert any("layout" in note for note in found["notes"]) is ("vp=1" in settings)
        return math.log(found["step_time_s"]["high"] / found["step_time_s"]["low"])

    assert width("--set", "vp=1") > 1.5 * width() == width("--set", "tp=4") * 1.5


def test_models_with_experts_have_wider_intervals_than_dense_ones() -> None:
    """Their kernels change between releases, which no column of a table says."""
    widths, dense, experts = calibration(), case(), case("grok1", ep=8)
    for known in KNOWN:
        assert widths.width(experts, f"experts: {known}") > 1.2 * widths.width(dense, f"dense: {known}")
    assert (
        familiarity(experts, [dense]) == f"experts: {UNSEEN}" and familiarity(dense, [dense]) == "dense: model and GPU"
    )
    b200 = dense.replace(gpu_type="b200")
    assert familiarity(dense, [b200, case("grok1")]) == "dense: model"
    assert familiarity(dense, [b200]) == f"dense: {GPU}"
    assert familiarity(dense, [dense.replace(stack="own")]) == f"dense: {STACK}"


def test_a_stack_has_a_factor_of_its_own_until_it_has_no_figure() -> None:
    """JAX's Pax is further off than its deviation says, NeMo 2 less far."""
    known = "dense: model and GPU"
    widths, pax, nemo = calibration(), case(stack="paxml"), case(stack="nemo2")
    assert widths.width(pax, known) == pytest.approx(widths.quantiles[known] * widths.stacks["paxml"])
    assert widths.width(pax, known) > 1.2 * widths.width(nemo, known)
    assert widths.width(pax, f"dense: {STACK}") == widths.width(nemo, f"dense: {STACK}")


def test_models_with_experts_on_a_stack_without_figures_are_unknown(predictor: Predictor) -> None:
    """Too few stacks have figures of such models to measure how far one that is left out is off."""
    found = predictor.predict(case("grok1", ep=8, stack="other"), "")
    assert found.step_time_s.value is None
    assert found.unknown_because is not None and "no figure of other is published" in found.unknown_because


def test_what_a_gpu_type_does_to_experts_is_common_to_all_stacks() -> None:
    """Two stacks share no more than their GPU type and dtype: models with experts have more in common than dense."""
    experts = features([case("grok1", ep=8), case("grok1", ep=8, stack="maxtext")], calibration().coefficients)
    scales = {**dict.fromkeys(COMPONENTS, 0.0), EXPERTS_GPU: 0.2}
    shared = covariance(experts, experts, scales)
    assert shared[0, 1] == pytest.approx(0.04) and variances(experts, scales) == pytest.approx([0.04, 0.04])
    dense = features([case(), case(stack="maxtext")], calibration().coefficients)
    assert covariance(dense, dense, scales)[0, 1] == 0.0


def test_a_model_without_figures_has_the_interval_of_models_left_out(predictor: Predictor) -> None:
    """Mixtral 8x7B on 64 GB200 does 19,275 tokens/s per GPU (NeMo 25.04), which no figure of another model tells."""
    without = Predictor([row for row in table.shipped() if row.model != "mixtral-8x7b"])
    (asked,) = [
        other for _, other, _ in predictor.used
        if (other.model.name, other.gpu_type) == ("mixtral-8x7b", "gb200")
    ]  # fmt: skip
    found = without.predict(asked, "")
    assert found.tokens_per_s_per_gpu.low < 19275 < found.tokens_per_s_per_gpu.high
    assert any("13 models with experts that were left out whole" in note for note in found.notes)
    dense = case(model=Model(name="another", layers=40, hidden=5120, ffn=13824, heads=40, groups=40, vocab=50000))
    assert any(
        "22 models without experts that were left out whole" in note for note in predictor.predict(dense, "").notes
    )
    assert not any("left out whole" in note for note in predictor.predict(case(), "").notes)


def test_an_unseen_model_of_a_kind_with_few_models_is_unknown() -> None:
    predictor = Predictor(table.shipped())
    hybrid = next(other for _, other, _ in predictor.used if other.model.family == "hybrid")
    another = hybrid.replace(model=hybrid.model.replace(name="another"))
    assert predictor.predict(another, "").step_time_s.value is not None
    quantiles = {name: factor for name, factor in calibration().quantiles.items() if UNSEEN not in name}
    predictor.calibration = calibration().replace(quantiles=quantiles, models={"experts": 3})
    found = predictor.predict(another, "")
    assert found.step_time_s.value is None
    assert found.unknown_because is not None and "3 models with experts are too few" in found.unknown_because


@pytest.mark.parametrize(("stack", "rate"), [("nemo2", 14050), ("megatron-lm", 13812), ("megatron-bridge", 13812)])
def test_llama_8b_on_eight_h100_is_predicted_from_its_engine(predictor: Predictor, stack: str, rate: float) -> None:
    """Recipes of 25.04 and Megatron-LM's README; Megatron-Bridge has no figure of it. Megatron-LM's is left out."""
    without = Predictor([row for row in table.shipped() if row.stack != "megatron-lm"])
    asked = case("llama3.1-8b", gpus=8, gbs=128, tp=1, pp=1, vp=1, cp=2, stack=stack, when=2025.3)
    found = without.predict(asked, "").tokens_per_s_per_gpu
    assert found.low < rate < found.high and found.value == pytest.approx(rate, rel=0.1)


def test_a_gpu_that_nothing_published_is_near_to_is_unknown(answer: Answer) -> None:
    found = answer("predict", "llama3.1", "--size", "8b", "--gpu-type", "tpu-v6e", "--gpus", "64", "--dtype", "bf16")
    assert found["step_time_s"]["value"] is None and found["terms"] is None
    assert "tpu-v6e" in found["unknown_because"]


def test_a_model_without_a_known_shape_has_a_step_time_and_no_memory(answer: Answer) -> None:
    found = answer("predict", "deepseek-v4-flash", "--gpu-type", "gb300", "--gpus", "128", "--dtype", "mxfp8")
    assert found["step_time_s"]["value"] == pytest.approx(2048 * 4096 / 128 / 8224, rel=0.15)
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


def test_the_recipes_variables_are_defaults(answer: Answer, llmbx: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = answer("predict", "grok1", "--gpu-type", "gb200", "--gpus", "256", "--dtype", "fp8")
    for name, value in {"GPU_TYPE": "gb200", "JOB_TOTAL_GPUS": "256", "DTYPE": "fp8", "MODEL_SIZE": "314b"}.items():
        monkeypatch.setenv(name, value)
    assert answer("predict", "grok1") == typed
    assert answer("predict", "grok1", "--gpus", "512") != typed
    monkeypatch.setenv("JOB_TOTAL_GPUS", "many")
    assert "JOB_TOTAL_GPUS='many': expected an integer" in llmbx("predict", "grok1").stderr


def test_the_only_scale_of_the_catalog_needs_no_option(answer: Answer) -> None:
    """Grok-1 has one scale on H100."""
    grok1 = ("predict", "grok1", "--gpu-type", "h100", "--dtype", "bf16")
    assert answer(*grok1) == answer(*grok1, "--gpus", "512")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("grok1",), "grok1: add --gpu-type, for example gb200, h100"),
        (("grok1", "--gpus", "64"), "grok1: add --gpu-type, for example gb200, h100"),
        (("grok1", "--gpu-type", "gb200"), "grok1 on gb200: add --gpus, for example 128, 256, 512"),
        (("grok1", "--gpu-type", "gb300"), "grok1 on gb300: add --gpus"),
        (("grok1", "--gpu-type", "hh100"), "no GPU type named 'hh100' (did you mean 'h100'?)"),
        (("gork1", "--gpu-type", "h100", "--gpus", "512"), "did you mean 'grok1'?"),
        ((*GROK[1:], "--set", "tpp=4"), "--set tpp: unknown setting"),
        ((*GROK[1:], "--set", "tp=0"), "--set tp=0: expected an integer >= 1"),
        ((*GROK[1:], "--set", "tp=x"), "--set tp=x: expected an integer >= 1"),
        ((*GROK[1:], "--set", "tp=3"), "= 48 does not divide 512 GPUs"),
        ((*GROK[1:], "--set", "gbs=1001"), "is not a multiple of MBS 1 x DP 8 = 8: use --set gbs=1000"),
        ((*GROK[1:], "--set", "recompute=some"), "expected none, selective, full"),
        (("llama3.1-8b", "--gpu-type", "h100", "--gpus", "8", "--set", "ep=2"), "EP 2 needs experts"),
        (("llama3.1-8b", "--gpu-type", "hh100", "--gpus", "8"), "no GPU type named 'hh100' (did you mean 'h100'?)"),
        (("llama3.1-8b", "--gpu-type", "h100", "--gpus", "8", "--dtype", "fp9"), "no prediction for this dtype"),
        (("llama3.1-8b", "--gpu-type", "a100", "--gpus", "8", "--dtype", "fp8"), "no fp8 peak is known"),
        (("deepseek-v3", "--gpu-type", "h100", "--gpus", "8", "--set", "layers=2"), "has more layers of one kind"),
        (("llama3.1-8b", "--gpu-type", "h100", "--gpus", "8", "--release", "new"), "expected year and month"),
        (("llama3.1-70b", "--gpu-type", "h100", "--gpus", "64", "--set", "groups=3"), "does not divide the 64 heads"),
        (("llama3.1-70b", "--gpu-type", "h100", "--gpus", "64", "--set", "vocab=0"), "vocab must be >= 1"),
        (("gpt-oss-120b", "--gpu-type", "gb300", "--gpus", "64", "--set", "top_k=500"), "has 128 experts"),
        (("llama3.1-70b", "--gpu-type", "h100", "--gpus", "64", "--stack", "nemo2", "--set", "pp=4",
          "--set", "fsdp=true"),
         "FSDP cannot be combined with PP 4"),
        (("llama3.1-70b", "--gpu-type", "h100", "--gpus", "64", "--stack", "torchtiten"), "did you mean 'torchtitan'?"),
        (("llama3.1", "--size", "70b", "--gpu-type", "h100", "--gpus", "64", "--set", "vp=7"),
         "neither 80 nor 82 layers (with embedding and loss) split into PP 8 x VP 7"),
        (("qwen3", "--size", "235b-a22b", "--gpu-type", "gb300", "--gpus", "256", "--dtype", "mxfp8", "--set", "vp=1"),
         "overlaps the communication of its experts, which needs VP above 1"),
        (("deepseek-v3", "--gpu-type", "gb200", "--gpus", "256", "--dtype", "bf16", "--set", "vp=3"),
         "has no split of 61 layers into PP 4 x VP 3"),
        (("llama3.1", "--size", "70b", "--gpu-type", "h100", "--gpus", "64", "--set", "layers=81"), "81"),
        (("llama3.1", "--size", "70b", "--gpu-type", "h100", "--gpus", "64", "--recipe", "none"), "--recipe none"),
        (("deepseek-v4-flash", "--gpu-type", "gb300", "--gpus", "64", "--best"), "shape of deepseek-v4-flash is not"),
    ],
)  # fmt: skip
def test_a_wrong_question_is_answered_in_one_line(llmbx: Command, words: tuple[str, ...], says: str) -> None:
    done = llmbx("predict", *words)
    assert done.exit_code == 2 and says in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_a_stack_has_its_own_figures(answer: Answer) -> None:
    """Llama 3.1 8B on 8 H100 in FP8: torchtitan 8,532 tokens/s per GPU with FSDP, Megatron-LM's README 13,812."""
    asked = ("predict", "llama3.1", "--size", "8b", "--gpu-type", "h100", "--gpus", "8", "--dtype", "fp8")
    titan, recipe = answer(*asked, "--stack", "torchtitan"), answer(*asked)
    assert titan["configuration_from"].startswith("torchtitan") and titan["configuration"]["fsdp"] is True
    assert titan["tokens_per_s_per_gpu"]["value"] == pytest.approx(8532, rel=0.1)
    assert recipe["tokens_per_s_per_gpu"]["value"] > 1.3 * titan["tokens_per_s_per_gpu"]["value"]
    assert titan["calibrated_on"]["stack"] == "torchtitan" and titan["calibrated_on"]["same_stack"] > 10


def test_a_stack_without_figures_is_named_and_known_less_well(answer: Answer) -> None:
    asked = ("predict", "llama3.1", "--size", "70b", "--gpu-type", "h100", "--gpus", "64", "--dtype", "bf16")
    recipe, unknown = answer(*asked), answer(*asked, "--stack", "other")

    def width(found: Any) -> float:
        return math.log(found["step_time_s"]["high"] / found["step_time_s"]["low"])

    assert any("the stack is other, of which there is no figure" in note for note in unknown["notes"])
    assert not any("of which there is no figure" in note for note in recipe["notes"])
    assert width(unknown) > 3 * width(recipe)


def test_fsdp_with_a_pipeline_is_answered_for_stacks_that_have_it(answer: Answer, llmbx: Command) -> None:
    asked = ("predict", "llama3.1", "--size", "70b", "--gpu-type", "h100", "--gpus", "64", "--dtype", "bf16")
    settings = ("--set", "pp=4", "--set", "fsdp=true", "--set", "gbs=64", "--set", "mbs=1", "--set", "tp=1")
    found = answer(*asked, "--stack", "torchtitan", *settings)
    assert (found["configuration"]["fsdp"], found["configuration"]["pp"]) == (True, 4)
    assert found["step_time_s"]["value"] is not None
    assert llmbx(*asked, *settings).exit_code == 2


def test_the_table_and_csv_have_the_figures(llmbx: Command) -> None:
    shown = llmbx(*GROK)
    assert "step time" in shown.stdout and "90 % interval" in shown.stdout
    assert "calibrated on" in shown.stderr and "nearest: grok1 on 512 x h100" in shown.stderr
    assert llmbx(*GROK, "--format", "csv").stdout.startswith("figure,value,low,high,unit,note\n")


@pytest.mark.parametrize(
    ("words", "seconds"),
    [  # releases 26.08 and 25.09; the figures of the releases around them are 20 to 40 % off
        (("gpt-oss", "--gpu-type", "gb300", "--gpus", "64", "--dtype", "mxfp8"), 2.4806),
        (("llama3.1", "--size", "405b", "--gpu-type", "gb200", "--gpus", "128", "--dtype", "fp8"), 5.619),
    ],
)
def test_the_interval_contains_the_figure_of_exactly_this_configuration(
    answer: Answer, words: tuple[str, ...], seconds: float
) -> None:
    found = answer("predict", *words)
    assert found["step_time_s"]["low"] < seconds < found["step_time_s"]["high"]
    assert found["step_time_s"]["value"] == pytest.approx(seconds, rel=0.15)


@pytest.mark.parametrize("gpu_type", ["gb300", "b300", "b200", "h100"])
def test_the_interval_contains_a_figure_of_an_earlier_release(predictor: Predictor, gpu_type: str) -> None:
    """gpt-oss in BF16, whose last figures are of release 26.04.01: other models in other dtypes became faster since."""
    known = [
        (case, seconds)
        for row, case, seconds in predictor.used
        if (row.model, row.gpu_type, row.dtype, row.release) == ("gpt-oss-120b", gpu_type, "bf16", "26.04.01")
    ]
    ((published, seconds),) = known
    found = predictor.predict(published.replace(when=2026.63, release="26.08"), "").step_time_s
    assert found.low <= seconds <= found.high and found.value == pytest.approx(seconds, rel=0.06)


def test_the_last_figure_is_believed_and_misleads_no_other(predictor: Predictor) -> None:
    index = next(int(name) for name in predictor.calibration.outliers)
    _, known, _ = predictor.used[index]
    believed = predictor.posterior_of(known)
    assert predictor.posterior.noise[index] > predictor.calibration.scales["noise"] ** 2
    same = [item for item in predictor.used if cell(item[1]) == cell(known)]
    least = [i for i, item in enumerate(predictor.used) if item in same and believed.noise[i] < 0.00091]
    assert least, "one figure of the configuration has the smallest noise"
    assert predictor.posterior_of(known.replace(gpus=known.gpus * 2)) is predictor.posterior


def test_numbers_of_gpus_between_the_catalogs_have_its_nearest_row(answer: Answer) -> None:
    asked = ("predict", "llama3.1", "--size", "70b", "--gpu-type", "h100", "--gpus")
    small, between = answer(*asked, "64"), answer(*asked, "96")
    assert between["configuration_from"] == "catalog, recipe mbridge, row of h100 for 128 GPUs, scaled"
    assert {name: between["configuration"][name] for name in ("stack", "tp", "pp", "vp", "dtype")} == {
        name: small["configuration"][name] for name in ("stack", "tp", "pp", "vp", "dtype")
    }
    assert between["configuration"]["gbs"] == 192
    rates = [found["tokens_per_s_per_gpu"]["value"] for found in (small, between)]
    assert rates[1] == pytest.approx(rates[0], rel=0.03)


def test_a_recipe_can_be_chosen(answer: Answer) -> None:
    asked = ("predict", "llama3.1", "--size", "70b", "--gpu-type", "h100", "--gpus", "64")
    newest, older = answer(*asked, "--recipe", "bridge-0.6"), answer(*asked, "--recipe", "mbridge")
    assert [one["configuration"]["gbs"] for one in (newest, older)] == [256, 128]
    assert "recipe bridge-0.6" in newest["configuration_from"]


def test_far_more_gpus_than_anything_published_are_unknown(answer: Answer) -> None:
    asked = ("predict", "llama3.1", "--size", "70b", "--gpu-type", "h100", "--gpus")
    assert answer(*asked, "16384")["unknown_because"] is None
    far = answer(*asked, "32768")
    assert far["step_time_s"]["value"] is None and "largest published figure" in far["unknown_because"]


def test_releases_long_before_any_figure_are_unknown(answer: Answer) -> None:
    """MT-NLG 530B of 2021 would be predicted 40 % too fast: nothing published tells how fast kernels were then."""
    asked = ("predict", "gpt3-175b", "--gpu-type", "a100", "--gpus", "1024", "--dtype", "bf16", "--release")
    assert "the oldest published figure of 2023.8" in answer(*asked, "21.10")["unknown_because"]
    assert answer(*asked, "24.07")["unknown_because"] is None


def test_sharded_weights_cross_few_network_links(answer: Answer) -> None:
    """A ring over two NVLink domains leaves each of them through all of their networks at once.

    Weak scaling of FSDP over 128 to 512 GB200 costs less than a tenth of the rate (recipes of Megatron-Bridge 25.09 to
    26.08 scale other layouts to 512 GPUs with 2 %).
    """
    asked = ("predict", "llama3.1", "--size", "405b", "--gpu-type", "gb200", "--dtype", "fp8", "--gpus")
    rates = [answer(*asked, gpus)["tokens_per_s_per_gpu"]["value"] for gpus in ("128", "512")]
    assert 0.9 < rates[1] / rates[0] < 1.05


def test_four_bits_speed_up_experts_no_more_than_published(predictor: Predictor) -> None:
    """Nemotron 3 Super on GB200 and GB300: NVFP4 is -1 to 6 % faster than MXFP8."""
    for gpu_type in ("gb200", "gb300"):
        plain = Case(model=find("deepseek-v3"), gpu_type=gpu_type, gpus=256, dtype="mxfp8", gbs=4096, seq=4096, pp=4,
                     ep=64, vp=4)  # fmt: skip
        eight, four = (
            predictor.predict(plain.replace(dtype=dtype), "").step_time_s.value for dtype in ("mxfp8", "nvfp4")
        )
        assert eight is not None and four is not None and 0.95 < eight / four < 1.45


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
    sold, larger = predictor.predict(asked, ""), changed.predict(asked, "")
    assert "does not fit" in (sold.unknown_because or "") and sold.step_time_s.value is None
    assert larger.unknown_because is None and larger.step_time_s.value is not None


def test_what_does_not_fit_says_so(answer: Answer) -> None:
    words = ("predict", "llama3.1-405b", "--gpu-type", "h100", "--gpus", "8", "--dtype", "bf16")
    found = answer(
        *words, *[word for key in ("tp", "pp", "cp", "vp") for word in ("--set", f"{key}=1")], "--set", "gbs=8"
    )
    assert found["memory_gb"]["value"] > 80 and found["step_time_s"]["value"] is None
    assert found["unknown_because"].startswith("does not fit: it needs at least 2")


def test_what_was_published_fits_and_what_needs_less_too(predictor: Predictor) -> None:
    """Nemotron 4 340B ran on 128 H100 with a layout whose memory is estimated too high on a smaller GPU."""
    published = next(case for _, case, _ in predictor.used if case.model.name == "nemotron4-340b")
    small = Predictor(table.shipped(), {published.gpu_type: 20.0})
    found = small.predict(published, "")
    assert found.step_time_s.value is not None and found.notes[0].startswith("may not fit")
    assert found.memory_gb.low is not None and found.memory_gb.low <= 20.0
    assert small.predict(published.replace(gpus=published.gpus // 2), "").step_time_s.value is None


@pytest.mark.parametrize("gpu_type", sorted({row.gpu_type for row in table.shipped()} & set(known_rates())))
def test_no_prediction_is_above_what_was_published_of_the_peak(predictor: Predictor, gpu_type: str) -> None:
    """Products as large as no published model has: their loss at the edges vanishes."""
    huge = Model(name="huge", layers=8, hidden=2**17, ffn=2**19, heads=1024, groups=8, vocab=32000)
    asked = case(model=huge, gpu_type=gpu_type, gpus=4096, gbs=65536, mbs=16, tp=8, pp=8, vp=1, dtype="bf16",
                 stack="maxtext")  # fmt: skip
    step = predictor.predict(asked, "").step_time_s
    if step.value is not None and step.low is not None:
        assert step.low >= seconds_at_peak(asked) and step.value >= predictor.least(asked)


def test_an_a100_is_not_faster_than_any_a100_was(answer: Answer, llmbx: Command) -> None:
    """The fastest figure of an A100 has 63 % of its peak of 312 TFLOP/s; the row of B200 for 8B does not fit."""
    asked = ("llama3.1", "--size", "8b", "--gpu-type", "a100", "--gpus", "8", "--dtype", "bf16")
    found = answer("predict", *asked)
    assert found["configuration_from"].endswith("row of h100") and found["unknown_because"] is None
    assert 100 < found["tflops_per_gpu"]["value"] < 200 and found["tflops_per_gpu"]["high"] <= 312
    assert any("limited to 63 % of the peak of a100" in note for note in found["notes"])
    assert f"{found['step_time_s']['value']:.4g} (" in llmbx("show", *asked).stdout, "as a run expects it"


def test_a_model_without_figures_has_the_layout_of_a_similar_one_on_the_gpu_type(answer: Answer) -> None:
    """Llama 2 13B on A100: fms-fsdp has figures of it there; Mistral 7B has none anywhere."""
    for name, base in (("llama2-13b", "fms-fsdp README"), ("mistral-7b", "layout of")):
        found = answer("predict", name, "--gpu-type", "a100", "--gpus", "128", "--dtype", "bf16")
        assert base in found["configuration_from"] and "x a100" in found["configuration_from"]


def test_the_layout_of_the_nearest_gpu_type_is_borrowed(answer: Answer) -> None:
    """H200 is a Hopper as H100 is; the rows of B200 come before it in the alphabet."""
    found = answer("predict", "llama3.1", "--size", "70b", "--gpu-type", "h200", "--gpus", "64")
    assert found["configuration_from"].endswith("row of h100")


@pytest.mark.parametrize(("gpu_type", "seconds"), [("h200", 0.9209), ("h100", 0.5412)])
def test_a_run_without_transformer_engine_is_of_a_stack_without_figures(
    answer: Answer, gpu_type: str, seconds: float
) -> None:
    """Measured on one GPU, benchmarks/gpu/results: the published figures have Transformer Engine."""
    found = answer("predict", "llama3.1", "--size", "8b-1gpu", "--gpu-type", gpu_type, "--gpus", "1", "--set", "gbs=2")
    step = found["step_time_s"]
    assert found["configuration"]["stack"] == "megatron-core" and found["memory_gb"]["value"] is not None
    assert any("megatron-core, of which there is no figure" in note for note in found["notes"])
    assert step["low"] < seconds < step["high"] and step["value"] == pytest.approx(seconds, rel=0.2)


def test_a_figure_whose_bubble_is_longer_than_its_step_does_not_calibrate(predictor: Predictor) -> None:
    """torchtitan's 405B with PP 8 has a local batch of 32, which its schedule splits."""
    (row,) = [row for row in table.shipped() if row.stack == "torchtitan" and row.model == "llama3.1-405b"]
    assert row not in [used for used, *_ in predictor.used]
    asked = row.case()
    assert asked is not None and row.step_time_s is not None
    assert "bubble of PP 8" in (impossible(asked, row.step_time_s) or "")
    assert impossible(asked.replace(mbs=1), row.step_time_s) is None
    assert "at the peak" in (impossible(asked.replace(mbs=1), 1.0) or "")


def test_the_gpu_type_of_the_profile_is_asked_for_no_more(
    llmbx: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text('default_cluster = "c"\n[clusters.c]\ngpu_type = "h100"\n')
    monkeypatch.setenv("LLMBX_CONFIG", str(path))
    done = llmbx("predict", "llama3.1", "--size", "8b")
    assert done.exit_code == 2 and "llama3.1-8b on h100: add --gpus, for example 8, 16" in done.stderr
