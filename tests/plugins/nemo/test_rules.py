"""Megatron's rules: every row of the catalog meets them, and a violation is reported with a fix."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from llmbx.catalog.scales import scales
from llmbx.config.profiles import Config
from llmbx.config.request import Request
from llmbx.model import Checkpointing, CheckpointSpec, Finding, ProfileSpec, Recipe, RunSpec, Workload
from llmbx.plugins.manager import load
from llmbx.resolve import resolve
from llmbx.resolve.rules import common_findings
from llmbx_nemo.rules import counts_ends, findings
from llmbx_nemo.workloads import workloads

WORKLOADS = {w.name: w.replace(plugin="nemo") for w in workloads()}


def resolved(workload: str, size: str, dtype: str, gpu_type: str, gpus: int, **changes: Any) -> RunSpec:
    """The specification from the catalog; `changes` are `--set` keys."""
    recipe = changes.pop("recipe", None)
    settings = {key: str(value) for key, value in changes.items()}
    request = Request(
        workload=workload, size=size, dtype=dtype, gpu_type=gpu_type, gpus=gpus, recipe=recipe, settings=settings
    )
    return resolve(request, load(), Config(), {}, {})


def configurations(recipe: Recipe) -> Iterator[tuple[str, str, str, int]]:
    """Size, dtype, GPU type and GPUs of everything that a recipe runs."""
    for row in recipe.rows:
        gpu_types = ("cpu", "h100", "gb300") if "any" in row.gpu_types else row.gpu_types
        yield from itertools.product((row.size,), row.dtypes, gpu_types, scales(row.gpus) or (1, 2, 4, 16))


RECIPES = [
    pytest.param(workload, recipe, id=f"{workload.name}-{recipe.name}")
    for workload in WORKLOADS.values()
    for recipe in workload.recipes
]


@pytest.mark.parametrize(("workload", "recipe"), RECIPES)
def test_every_row_of_the_catalog_meets_every_rule(workload: Workload, recipe: Recipe) -> None:
    broken = {}
    for configuration in configurations(recipe):
        spec = resolved(workload.name, *configuration, recipe=recipe.name)
        assert spec.recipe == recipe.name
        problems = [*common_findings(spec), *findings(spec)]
        # upstream's launch scales some rows, and says with which values
        broken[configuration] = [problem for problem in problems if not (spec.scaled_from and problem.rule == "scaled")]
    assert {configuration: found for configuration, found in broken.items() if found} == {}


@pytest.mark.parametrize(
    ("layers", "parts", "answer"),
    [
        (126, 64, True),
        (62, 32, True),
        (30, 32, True),
        (80, 40, False),
        (48, 24, False),
        (64, 64, False),
        (126, 1, False),
        (126, 32, True),
        (80, 64, None),
        (125, 64, None),
    ],
)
def test_embedding_and_loss_count_only_where_they_make_the_split_even(
    layers: int, parts: int, answer: bool | None
) -> None:
    assert counts_ends(layers, parts) is answer


GROK = ("grok1", "314b", "fp8", "h100", 512)
LLAMA = ("llama3.1", "405b", "fp8", "h100", 1024)
OFFLOADED = ("llama3.1", "70b", "fp8", "gb200", 64)
MINI = ("grok1", "mini", "bf16", "cpu", 4)


@pytest.mark.parametrize(
    ("base", "changes", "rule", "problem", "fix"),
    [
        (
            LLAMA,
            {"vp": 5},
            "layers",
            "neither 126 nor 128 layers (with embedding and loss) split into PP 8 x VP 5 = 40",
            "use --set vp=1, --set vp=2, --set vp=4, --set vp=8 or --set vp=16",
        ),
        (
            LLAMA,
            {"gbs": 504},
            "microbatches",
            "VP 8 needs a multiple of PP 8 micro-batches per step, got 63",
            "use --set gbs=448 or --set gbs=512, or --set vp=1",
        ),
        (
            GROK,
            {"etp": 16},
            "expert_groups",
            "EP 8 x ETP 16 = 128 does not divide the 64 GPUs of a pipeline stage",
            "use --set ep=1, --set ep=2 or --set ep=4",
        ),
        (
            ("grok1", "mini", "bf16", "gb300", 12),
            {"etp": 3},
            "etp",
            "ETP 3 does not divide the expert FFN size of 256",
            "use --set etp=1",
        ),
        (
            LLAMA,
            {"seq": 8200},
            "sequence",
            "a sequence of 8200 tokens does not split into 32 parts (TP 8, CP 2)",
            "use --set seq=8192 or --set seq=8224, or a smaller tp or cp",
        ),
        (
            LLAMA,
            {"rl": 127},
            "rl",
            "cannot recompute 127 layers: the model has 126",
            "use --set rl=N with N at most 126",
        ),
        *(
            (
                ("llama3.1", "8b", "fp8", "h100", 8),
                {"cg": "true", rule: 2, "recipe": "mbridge"},
                rule,
                f"{what} layers ({rule.upper()} 2) cannot be combined with CUDA graphs",
                f"use --set {rule}=0 or --set cg=false",
            )
            for rule, what in (("ol", "offloaded"), ("rl", "recomputed"))
        ),
        (
            OFFLOADED,
            {"ol": 80},
            "ol",
            "cannot offload 80 layers: at least one of 80 must stay on the GPU",
            "use --set ol=N with N at most 79",
        ),
        (
            OFFLOADED,
            {"rl": 5},
            "ol",
            "offloaded layers (OL 40) cannot be combined with recomputed layers (RL 5)",
            "use --set ol=0 or --set rl=0",
        ),
        (
            LLAMA,
            {"ol": 10},
            "ol",
            "offloaded layers (OL 10) cannot be combined with a pipeline (PP 8)",
            "use --set ol=0 or --set pp=1",
        ),
        (
            LLAMA,
            {"fsdp": True},
            "fsdp",
            "FSDP cannot be combined with PP 8",
            "use --set fsdp=false or --set pp=1",
        ),
        (
            LLAMA,
            {"fp8_recipe": "mx"},
            "fp8_recipe",
            "MXFP8 (fp8_recipe mx) needs a Blackwell GPU, not h100",
            "use --set fp8_recipe=cs",
        ),
        (MINI, {"tp": 2}, "tp", "CPU runs do not support tensor parallelism of experts", "use --set tp=1"),
        (MINI, {"cp": 2}, "cp", "CPU runs do not support context parallelism", "use --set cp=1"),
        (MINI, {"fsdp": True}, "fsdp", "CPU runs do not support FSDP", "use --set fsdp=false"),
        (MINI, {"cg": True}, "cg", "CPU runs do not support CUDA graphs", "use --set cg=false"),
        (
            LLAMA,
            {"tokenizer": "hub"},
            "tokenizer",
            "--set tokenizer=hub needs HF_TOKEN and access to https://huggingface.co/meta-llama/Llama-3.1-405B",
            "set HF_TOKEN, or use --set tokenizer=null, which does not need it",
        ),
    ],
)
def test_a_violated_rule_is_reported_with_its_fix(
    base: tuple[str, str, str, str, int], changes: dict[str, Any], rule: str, problem: str, fix: str
) -> None:
    spec = resolved(*base, **changes)
    spec = spec.replace(gated_tokenizer=WORKLOADS[spec.workload].sizes[spec.size].gated_tokenizer)
    assert findings(spec) == [Finding(rule=rule, problem=problem, fix=fix)]


def test_the_parallel_minis_that_run_on_a_cpu_meet_the_rules() -> None:
    for name, changes in (
        ("llama3.1", {"tp": 2}),
        ("llama3.1", {"pp": 2}),
        ("grok1", {"ep": 2}),
        ("llama4", {"ep": 2}),
    ):
        spec = resolved(name, "mini", "bf16", "cpu", 2, **changes)
        assert [*common_findings(spec), *findings(spec)] == []


def test_pp_is_suggested_if_no_vp_works() -> None:
    found = findings(resolved("llama3.1", "mini", "bf16", "h100", 5, pp=5, gbs=5))
    assert [(f.rule, f.fix) for f in found] == [("layers", "use --set pp=1")]


@pytest.mark.parametrize(
    ("save", "load", "gpus", "problem", "fix"),
    [
        (True, None, 8, "saving a checkpoint of 8b is supported on 16 to 128 GPUs, not on 8", "use --gpus 16 to 128"),
        (True, None, 16, None, None),
        (
            False,
            "folder",
            8,
            "loading a checkpoint of 8b is tested on 16 or more GPUs, not on 8",
            "use --gpus 16 or more",
        ),
        (False, "folder", 16, None, None),
        (False, None, 8, None, None),
    ],
)
def test_scales_of_checkpoints(save: bool, load: str | None, gpus: int, problem: str | None, fix: str | None) -> None:
    spec = resolved("llama3.1", "8b", "fp8", "h100", gpus).replace(checkpoint=CheckpointSpec(save=save, load=load))
    assert spec.checkpoint_facts == Checkpointing(size_gb=105, save_gpus=(16, 128), load_min_gpus=16)
    expected = [] if problem is None or fix is None else [Finding(rule="checkpoint", problem=problem, fix=fix)]
    assert findings(spec) == expected


def test_checkpoints_that_no_recipe_covers_are_a_warning_and_of_a_mini_are_fine() -> None:
    wanted = CheckpointSpec(save=True)
    found = findings(resolved(*GROK).replace(checkpoint=wanted))
    assert [(f.rule, f.warning) for f in found] == [("checkpoint", True)]
    assert findings(resolved(*MINI).replace(checkpoint=wanted)) == []


def test_the_hubs_tokenizer_is_allowed_with_a_token() -> None:
    spec = resolved(*LLAMA, tokenizer="hub").replace(secrets=("HF_TOKEN",))
    assert findings(spec) == []


def test_all_findings_come_at_once() -> None:
    spec = resolved(*LLAMA, vp=5, seq=8200, ol=10, gbs=504)
    assert [f.rule for f in findings(spec)] == ["layers", "microbatches", "sequence", "ol"]


@pytest.mark.parametrize(
    ("driver", "tool", "expected"),
    [
        ("nemo2", "nsys", []),
        ("nemo2", "torch", []),
        ("nemo2", "xplane", [("xplane profiles JAX programs", "use --tool nsys or torch")]),
        ("megatron-bridge", "nsys", []),
        ("megatron-bridge", "torch", []),
        ("megatron-bridge", "xplane", [("xplane profiles JAX programs", "use --tool nsys or torch")]),
    ],
)
def test_an_unsupported_profiler_is_rejected_before_the_run_starts(
    driver: str, tool: str, expected: list[tuple[str, str]]
) -> None:
    profile = ProfileSpec(start=45, stop=50, tool=tool)
    spec = resolved("grok1", "314b", "bf16", "gb200", 256).replace(driver=driver, profile=profile)
    found = findings(spec)
    assert [finding.rule for finding in found] == ["profile"] * len(expected)
    for finding, (problem, fix) in zip(found, expected, strict=True):
        assert problem in finding.problem and finding.fix.startswith(fix) and not finding.warning


def test_a_performance_recipe_has_its_fp8_scaling_by_the_dtype() -> None:
    asked = {"size": "405b", "dtype": "fp8", "gpu_type": "gb300", "gpus": 256, "recipe": "bridge-0.6"}
    spec = resolved("llama3.1", **asked)
    assert findings(spec) == []
    (found,) = findings(spec.replace(settings={**spec.settings, "fp8_recipe": "mx"}))
    assert found.rule == "fp8_recipe" and "--dtype mxfp8" in found.fix
    other = resolved("llama3.1", **{**asked, "recipe": "mbridge", "gpus": 128})
    assert findings(other.replace(settings={**other.settings, "fp8_recipe": "mx"})) == []


@pytest.mark.parametrize(
    "key", ["heads", "ffn_hidden_size", "moe_ffn_hidden_size", "shared_ffn_hidden_size", "experts"]
)
def test_the_sizes_of_a_model_of_the_hub_follow_from_one_another(key: str) -> None:
    mini = resolved("gpt-oss", "mini", "fp32", "cpu", 1, **{key: 64})
    (found,) = [finding for finding in findings(mini) if finding.rule == "shape"]
    assert (found.problem, found.fix) == (f"{key} of gpt-oss cannot be changed", f"leave --set {key} out")
    assert [f for f in findings(resolved("grok1", "mini", "fp32", "cpu", 1, **{key: 64})) if f.rule == "shape"] == []


def test_the_layers_of_a_model_of_the_hub() -> None:
    asked = {"dtype": "mxfp8", "gpu_type": "gb300"}
    hybrid = resolved("nemotron3", "120b-a12b", gpus=64, layers=10, **asked)
    assert ("layers", "nemotron3 has its layers by a pattern") in {(f.rule, f.problem) for f in findings(hybrid)}
    dense = resolved("deepseek-v3", "mini", "fp32", "cpu", 1, layers=1)
    assert [f.fix for f in findings(dense) if f.rule == "layers"] == ["use --set layers=N with N >= 2"]
    fewer = resolved("gpt-oss", "120b", gpus=64, layers=11, **asked)
    assert (fewer.model.layers, fewer.model.windowed_layers) == (11, 6)
    assert fewer.origins["windowed_layers"] == "layers"
