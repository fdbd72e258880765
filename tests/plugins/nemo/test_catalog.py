"""The plugin's catalog: every configuration row of the recipes, as printed and as resolved."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from llmbx.catalog.scales import evaluate, scales
from llmbx.catalog.workloads import default_dtype, walltime_minutes
from llmbx.config.profiles import Config
from llmbx.config.request import Request
from llmbx.errors import UsageError
from llmbx.model import Row, RunSpec
from llmbx.plugins.manager import load
from llmbx.resolve import resolve
from llmbx_nemo.workloads import workloads

from ...rows import find

# The recipes' tables, row by row, with their own column heads.
LLAMA_BRIDGE = """
gpu   size GPUs     dtype seq  layers FSDP  TP PP CP EP ETP DP       VP MBS GBS     GA CG    RL OL
gb300 405b 128-1024 FP8   8192 126    True  2  1  1  NA NA  GPUs/2   NA 1   GPUs/2  1  False 0  80
gb300 70b  64-1024  FP8   8192 80     True  1  1  1  NA NA  GPUs     NA 2   GPUs*2  1  False 0  40
gb300 8b   8-128    FP8   8192 32     False 1  1  1  NA NA  GPUs     NA 2   GPUs*16 8  True  0  0
gb200 405b 128-512  FP8   8192 126    True  2  1  1  NA NA  GPUs/2   NA 1   GPUs/2  1  False 0  80
gb200 70b  64-512   FP8   8192 80     True  1  1  1  NA NA  GPUs     NA 2   GPUs*2  1  False 0  40
gb200 8b   8-128    FP8   8192 32     False 1  1  1  NA NA  GPUs     NA 2   GPUs*16 8  True  0  0
b200  405b 128-1024 FP8   8192 126    False 4  8  2  NA NA  GPUs/64  8  1   GPUs/2  32 False 0  0
b200  70b  64-1024  FP8   8192 80     True  1  1  1  NA NA  GPUs     NA 1   GPUs*2  2  False 5  0
b200  8b   8-128    FP8   8192 32     False 1  1  1  NA NA  GPUs     NA 2   GPUs*16 8  True  0  0
h100  405b 1024     FP8   8192 126    False 8  8  2  NA NA  GPUs/128 8  1   GPUs/2  64 False 0  0
h100  70b  64-1024  FP8   8192 80     False 4  8  1  NA NA  GPUs/32  5  1   GPUs*2  64 False 5  0
h100  8b   8-128    FP8   8192 32     True  1  1  1  NA NA  GPUs     NA 1   GPUs*16 16 True  0  0
"""
LLAMA_NEMO = """
gpu  size       dtype    GPUs seq  layers TP PP CP EP DP VP MBS GBS  GA
h100 8b         BF16/FP8 8    8192 32     1  1  2  NA 4  NA 1   128  32
h100 8b         BF16/FP8 16   8192 32     1  1  2  NA 8  NA 1   256  32
h100 8b         BF16/FP8 32   8192 32     1  1  2  NA 16 NA 1   512  32
h100 8b         BF16/FP8 64   8192 32     1  1  2  NA 32 NA 1   1024 32
h100 8b         BF16/FP8 128  8192 32     1  1  2  NA 64 NA 1   2048 32
h100 70b        BF16     64   8192 80     4  4  2  NA 2  5  1   128  64
h100 70b        BF16     128  8192 80     4  4  2  NA 4  5  1   256  64
h100 70b        BF16     256  8192 80     4  4  2  NA 8  5  1   512  64
h100 70b        BF16     512  8192 80     4  4  2  NA 16 5  1   1024 64
h100 70b        BF16     1024 8192 80     4  4  2  NA 32 5  1   2048 64
h100 70b        BF16     2048 8192 80     4  4  2  NA 64 5  1   4096 64
h100 70b        FP8      64   8192 80     4  8  1  NA 2  5  1   128  64
h100 70b        FP8      128  8192 80     4  8  1  NA 4  5  1   256  64
h100 70b        FP8      256  8192 80     4  8  1  NA 8  5  1   512  64
h100 70b        FP8      512  8192 80     4  8  1  NA 16 5  1   1024 64
h100 70b        FP8      1024 8192 80     4  8  1  NA 32 5  1   2048 64
h100 70b        FP8      2048 8192 80     4  8  1  NA 64 5  1   4096 64
h100 405b-proxy BF16/FP8 32   8192 8      8  1  2  NA 2  NA 1   64   32
h100 405b-proxy BF16/FP8 64   8192 30     8  4  2  NA 1  8  1   64   64
h100 405b-proxy BF16/FP8 128  8192 62     8  4  2  NA 2  8  1   128  64
h100 405b       BF16/FP8 512  8192 126    8  8  2  NA 4  8  1   256  64
h100 405b       BF16/FP8 1024 8192 126    8  8  2  NA 8  8  1   512  64
h100 405b       BF16/FP8 2048 8192 126    8  8  2  NA 16 8  1   1024 64
"""
MAVERICK = """
gpu   size dtype    GPUs seq  layers TP PP CP EP  DP  VP ETP MBS GBS  GA
gb200 400b BF16/FP8 128  8192 48     1  2  1  64  64  12 1   1   1024 16
gb200 400b BF16/FP8 256  8192 48     1  2  1  64  128 12 1   1   2048 16
gb200 400b BF16/FP8 512  8192 48     1  2  1  64  256 12 1   1   4096 16
h100  400b BF16/FP8 512  8192 48     4  1  1  128 128 12 4   1   1024 8
"""
GROK = """
gpu   size dtype    GPUs seq  layers TP PP CP EP ETP DP  VP MBS GBS  GA
gb200 314b BF16/FP8 128  8192 64     4  1  1  8  4   32  1  1   256  8
gb200 314b BF16/FP8 256  8192 64     4  1  1  8  4   64  1  1   512  8
gb200 314b BF16/FP8 512  8192 64     4  1  1  8  4   128 1  1   1024 8
h100  314b BF16/FP8 512  8192 64     4  8  2  8  1   8   8  1   1024 128
"""
TABLES = {
    ("llama3.1", "mbridge"): LLAMA_BRIDGE,
    ("llama3.1", "nemo2"): LLAMA_NEMO,
    ("llama4", "nemo2"): MAVERICK,
    ("grok1", "nemo2"): GROK,
}
SCALES = {
    "128-1024": (128, 256, 512, 1024),
    "128-512": (128, 256, 512),
    "64-1024": (64, 128, 256, 512, 1024),
    "64-512": (64, 128, 256, 512),
    "8-128": (8, 16, 32, 64, 128),
}
WORKLOADS = {w.name: w.replace(plugin="nemo") for w in workloads()}


def resolved(workload: str, size: str, dtype: str, gpu_type: str, gpus: int, recipe: str | None = None) -> RunSpec:
    request = Request(workload=workload, size=size, dtype=dtype, gpu_type=gpu_type, gpus=gpus, recipe=recipe)
    return resolve(request, load(), Config(), {}, {})


def printed_rows(table: str) -> Iterator[dict[str, str]]:
    """Each printed row at each of its scales and dtypes, with expressions of GPUs evaluated."""
    head, *lines = table.strip().splitlines()
    for line in lines:
        row = dict(zip(head.split(), line.split(), strict=True))
        for gpus in SCALES.get(row["GPUs"]) or (int(row["GPUs"]),):
            for dtype in row["dtype"].lower().split("/"):
                yield {key: worked_out(value, gpus) for key, value in row.items()} | {"dtype": dtype, "GPUs": str(gpus)}


def worked_out(text: str, gpus: int) -> str:
    return str(eval(text.replace("/", "//"), {"GPUs": gpus})) if text.startswith("GPUs") else text


@pytest.mark.parametrize(("workload", "recipe"), TABLES)
def test_a_row_resolves_to_what_is_printed(workload: str, recipe: str) -> None:
    for row in printed_rows(TABLES[workload, recipe]):
        resolves_as_printed(workload, recipe, row)


def resolves_as_printed(workload: str, recipe: str, row: dict[str, str]) -> None:
    name = f"{row['size']} {row['dtype']} on {row['GPUs']} {row['gpu']}"
    spec = resolved(workload, row["size"], row["dtype"], row["gpu"], int(row["GPUs"]), recipe)
    p = spec.parallelism
    ours = {
        "seq": spec.model.sequence_length, "layers": spec.model.layers, "TP": p.tp, "PP": p.pp, "CP": p.cp, "EP": p.ep,
        "ETP": p.etp, "DP": p.dp, "VP": p.vp, "FSDP": p.fsdp, "MBS": spec.micro_batch_size,
        "GBS": spec.global_batch_size, "GA": spec.gradient_accumulation, "RL": spec.recompute_layers,
        "OL": spec.offload_layers, "CG": spec.cuda_graphs,
    }  # fmt: skip
    if (workload, row["gpu"]) == ("llama4", "h100"):
        assert (row.pop("VP"), ours.pop("VP")) == ("12", 1), "printed with PP 1, which has nothing to interleave"
        assert spec.corrected and "VP 12" in spec.corrected[0]
    elif (recipe, row["gpu"], row["size"]) == ("mbridge", "h100", "70b"):
        assert (row.pop("RL"), ours.pop("RL")) == ("5", 0), "printed, and not set by the launch files"
        assert spec.corrected and "RL 5" in spec.corrected[0]
    elif (recipe, row["gpu"], row["size"]) == ("mbridge", "h100", "8b"):
        assert (row.pop("CG"), ours.pop("CG")) == ("True", False), "printed, and switched off by the launch files"
        assert spec.corrected and "CG True" in spec.corrected[0]
    else:
        assert spec.corrected == (), name
    resolved_row = {k: "NA" if v is None else str(v) for k, v in ours.items() if k in row}
    assert resolved_row == {k: v for k, v in row.items() if k in ours}, name


@pytest.mark.parametrize(("workload", "recipe"), TABLES)
def test_the_catalog_has_these_rows_and_no_others(workload: str, recipe: str) -> None:
    rows = next(r for r in WORKLOADS[workload].recipes if r.name == recipe).rows
    ours = sorted(
        (r.size, d, g, gpus) for r in rows for d in r.dtypes for g in r.gpu_types for gpus in scales(r.gpus)
    )  # fmt: skip
    table = printed_rows(TABLES[workload, recipe])
    assert ours == sorted((r["size"], r["dtype"], r["gpu"], int(r["GPUs"])) for r in table)


@pytest.mark.parametrize(("workload", "recipe"), TABLES)
def test_printed_values_are_stored(workload: str, recipe: str) -> None:
    """DP and GA, which llmbx computes, and VP if it is corrected."""
    for row in printed_rows(TABLES[workload, recipe]):
        gpus = int(row["GPUs"])
        options = {"size": row["size"], "dtype": row["dtype"], "gpu_type": row["gpu"]}
        _, kept = find(WORKLOADS[workload], **options, gpus=gpus, recipe=recipe)
        dp, vp = evaluate(kept.printed["dp"], gpus), kept.printed.get("vp", kept.vp)  # type: ignore[arg-type]
        stored = {"DP": str(dp), "GA": str(kept.printed["ga"]), "VP": "NA" if vp is None else str(vp)}
        assert stored == {name: row[name] for name in stored}, (options, gpus)


def test_llama4_fp8_on_h100_uses_cuda_graphs() -> None:
    assert resolved("llama4", "400b", "fp8", "h100", 512).cuda_graphs
    assert not resolved("llama4", "400b", "bf16", "h100", 512).cuda_graphs
    assert not resolved("llama4", "400b", "fp8", "gb200", 128).cuda_graphs


@pytest.mark.parametrize(
    ("size", "dtype", "gpu_type", "gpus", "recipe"),
    [
        ("405b", "fp8", "h100", 1024, "mbridge"),
        ("405b", "fp8", "h100", 512, "nemo2"),
        ("405b", "bf16", "h100", 1024, "nemo2"),
        ("70b", "fp8", "h100", 2048, "nemo2"),
        ("8b", "fp8", "h100", 8, "mbridge"),
        ("405b", "fp8", "gb200", 128, "mbridge"),
        ("405b-proxy", "fp8", "h100", 64, "nemo2"),
        ("405b", "fp8", "gb300", 256, "mbridge"),
        ("405b", "mxfp8", "gb300", 256, "bridge-0.6"),
        ("405b", "fp8", "b300", 128, "bridge-0.6"),
        ("8b", "bf16", "gb200", 8, "bridge-0.6"),
    ],
)
def test_the_default_recipe_is_the_newest_with_the_row(
    size: str, dtype: str, gpu_type: str, gpus: int, recipe: str
) -> None:
    assert resolved("llama3.1", size, dtype, gpu_type, gpus).recipe == recipe


def test_recipes_with_different_values_are_both_available() -> None:
    new, old = (resolved("llama3.1", "8b", "fp8", "h100", 8, recipe) for recipe in ("mbridge", "nemo2"))
    assert (new.parallelism.cp, new.parallelism.fsdp, new.gradient_accumulation) == (1, True, 16)
    assert (old.parallelism.cp, old.parallelism.fsdp, old.gradient_accumulation) == (2, False, 32)


@pytest.mark.parametrize(
    ("workload", "recipe", "image", "driver", "window"),
    [
        ("llama3.1", "mbridge", "nvcr.io#nvidia/nemo:25.09.00", "megatron-bridge", "35-44"),
        ("llama3.1", "nemo2", "nvcr.io#nvidia/nemo:25.02.01", "nemo2", "last"),
        ("llama4", "nemo2", "nvcr.io#nvidia/nemo:25.04.01", "nemo2", "11-44"),
        ("grok1", "nemo2", "nvcr.io#nvidia/nemo:25.04.00", "nemo2", "11-44"),
    ],
)
def test_each_recipe_names_image_driver_and_window(
    workload: str, recipe: str, image: str, driver: str, window: str
) -> None:
    found = next(r for r in WORKLOADS[workload].recipes if r.name == recipe)
    assert found.image is not None and found.image.source
    assert (found.image.reference, found.driver, found.window) == (image, driver, window)


@pytest.mark.parametrize("name", ["grok1", "llama3.1", "llama4"])
def test_megatron_bridge_counts_flops_with_causal_attention(name: str) -> None:
    of_bridge = [recipe for recipe in WORKLOADS[name].recipes if recipe.driver == "megatron-bridge"]
    assert len(of_bridge) >= 2 and {recipe.flops_convention for recipe in of_bridge} == {"causal"}


ON_BRIDGE = ("llama3.1", "deepseek-v3", "kimi-k2", "qwen3", "gpt-oss", "nemotron3", "nemotron-h")


def test_profiled_steps_ranks_and_file_names() -> None:
    recipes = {(w.name, r.name): r for w in WORKLOADS.values() for r in w.recipes}
    assert {
        key: (r.profile_steps, r.profile_total_steps, r.profile_ranks, r.profile_name)
        for key, r in recipes.items()
        if r.source != "llmbx"
    } == {
        ("llama3.1", "mbridge"): ("45-50", 50, "all", "profile_{job}_{node}_{local_rank}"),
        ("llama3.1", "nemo2"): ("20-25", 25, "0-7", "profile_{pid}"),
        ("llama4", "nemo2"): ("45-50", 50, "0-8", "profile_{job}_{node}_{rank}"),
        ("grok1", "nemo2"): ("45-50", 50, "all", "{workload}-{size}-{dtype}_{gpus}g_{job}_{node}_{local_rank}"),
        **{(name, "bridge-0.6"): ("45-50", 50, "0", "profile_{pid}_{job}_node{node}_rank{rank}") for name in ON_BRIDGE},
        ("mlperf-llama3.1", "bridge-0.5"): ("45-50", 50, "0", "profile_{pid}_{job}_node{node}_rank{rank}"),
    }


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("pretrain_llama3.1", "llama3.1"),
        ("pretrain_llama4_maverick", "llama4"),
        ("pretraining_llama4_maverick", "llama4"),
        ("pretrain_grok1", "grok1"),
        ("pretraining_grok1", "grok1"),
    ],
)
def test_the_predecessors_names_are_aliases(alias: str, name: str) -> None:
    assert [w.name for w in WORKLOADS.values() if alias in w.aliases] == [name]


def test_folders_and_defaults() -> None:
    assert {w.name: (w.folder, w.default_size, w.default_dtype) for w in WORKLOADS.values()} == {
        "llama3.1": ("pretrain_llama3.1", "405b", "fp8"),
        "llama4": ("pretraining_llama4_maverick", "400b", "bf16"),
        "grok1": ("pretraining_grok1", "314b", "fp8"),
        "deepseek-v3": ("pretrain_deepseek_v3", "671b", "bf16"),
        "kimi-k2": ("pretrain_kimi-k2", "1t", "bf16"),
        "mlperf-llama3.1": ("pretrain_llama3.1_mlperf", "8b", "nvfp4"),
        "nemotron-h": ("pretrain_nemotron-h", "56b", "fp8"),
        "qwen3": ("pretrain_qwen3", "30b-a3b", "bf16"),
        "gpt-oss": ("pretrain_gpt_oss", "120b", "bf16"),
        "nemotron3": ("pretrain_nemotron3", "120b-a12b", "bf16"),
    }


@pytest.mark.parametrize(
    ("workload", "size", "gpu_type", "gpus", "dtype"),
    [
        ("llama3.1", "405b", "h100", 1024, "fp8"),
        ("llama3.1", "405b", "h100", 512, "fp8"),
        ("llama3.1", "405b", "gb200", 128, "fp8"),
        ("llama4", "400b", "h100", 512, "bf16"),
        ("grok1", "314b", "gb200", 128, "fp8"),
        ("grok1", "mini", "cpu", 1, "fp32"),
        ("llama4", "mini", "cpu", 1, "fp32"),
        ("llama3.1", "mini", "h100", 8, "bf16"),
    ],
)
def test_the_default_dtype(
    workload: str, size: str, gpu_type: str, gpus: int, dtype: str | None
) -> None:  # fmt: skip
    assert default_dtype(WORKLOADS[workload], size, gpu_type, gpus) == dtype


def test_minimum_gpus_and_memory() -> None:
    llama, grok = WORKLOADS["llama3.1"], WORKLOADS["grok1"]
    assert llama.minimum_gpu_memory_gb == {"gb300": 288, "gb200": 186, "b200": 180, "h100": 80}
    assert grok.minimum_gpu_memory_gb == {"gb200": 80, "h100": 80}
    least = {
        gpu: [llama.sizes[s].minimum_gpus[gpu] for s in ("8b", "70b", "405b")] for gpu in llama.minimum_gpu_memory_gb
    }
    assert least == {"gb300": [8, 64, 128], "gb200": [8, 64, 128], "b200": [8, 64, 128], "h100": [8, 64, 1024]}
    assert grok.sizes["314b"].minimum_gpus == {"gb200": 128, "h100": 512}


def test_checkpoints() -> None:
    sizes = WORKLOADS["llama3.1"].sizes
    facts = {name: size.checkpoint for name, size in sizes.items() if size.checkpoint}
    assert {n: (c.size_gb, c.save_gpus, c.load_min_gpus) for n, c in facts.items()} == {
        "8b": (105, (16, 128), 16),
        "70b": (920, (128, 2048), 128),
        "405b": (5200, (512, 2048), 1024),
    }


def test_gated_tokenizers() -> None:
    gated = {(w.name, n): s.gated_tokenizer for w in WORKLOADS.values() for n, s in w.sizes.items()}
    assert gated["llama3.1", "405b"] == "meta-llama/Llama-3.1-405B"
    assert gated["llama4", "400b"] == "meta-llama/Llama-4-Maverick-17B-128E-Instruct"
    assert gated["grok1", "314b"] == "meta-llama/Meta-Llama-3-70B"
    assert {gated[name, "mini"] for name in WORKLOADS} == {None}


def test_model_facts() -> None:
    shape = {(w.name, n): s.model for w in WORKLOADS.values() for n, s in w.sizes.items()}
    big, maverick, grok = shape["llama3.1", "405b"], shape["llama4", "400b"], shape["grok1", "314b"]
    assert (big.layers, big.hidden_size, big.ffn_hidden_size, big.heads, big.query_groups) == (
        126,
        16384,
        53248,
        128,
        8,
    )
    assert shape["llama3.1", "405b-proxy"] == big.replace(layers=62)
    assert (maverick.layers, maverick.heads, maverick.vocab_size, maverick.moe_layer_every) == (48, 40, 202048, 2)
    assert (maverick.experts, maverick.experts_per_token, maverick.ffn_hidden_size) == (128, 1, 16384)
    assert maverick.moe_ffn_hidden_size == maverick.shared_ffn_hidden_size == 8192
    assert (grok.experts, grok.experts_per_token, grok.vocab_size, grok.shared_ffn_hidden_size) == (8, 2, 128256, None)
    for workload, size, facts in (
        ("llama3.1", "405b", {"activation": "silu", "rotary_base": 500000, "rope_scaling": True}),
        ("llama4", "400b", {"activation": "silu", "no_rope_every": 4, "router_score": "sigmoid"}),
        ("grok1", "314b", {"activation": "gelu", "router_score": "softmax"}),
    ):
        found = WORKLOADS[workload].sizes[size].architecture
        assert {key: found[key] for key in facts} == facts


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_mini_has_the_layer_types_of_its_workload_and_runs_anywhere(name: str) -> None:
    workload = WORKLOADS[name]
    mini, full = workload.sizes["mini"], workload.sizes[workload.default_size or ""]
    assert mini.architecture == full.architecture
    moe = ("experts", "experts_per_token", "moe_ffn_hidden_size", "shared_ffn_hidden_size", "moe_layer_every")
    assert [key for key in moe if getattr(mini.model, key)] == [key for key in moe if getattr(full.model, key)]
    assert mini.model.experts_per_token == full.model.experts_per_token
    assert mini.model.moe_layer_every == full.model.moe_layer_every
    assert (mini.model.layers, mini.model.hidden_size, mini.model.sequence_length) == (4, 128, 128)
    for gpu_type, gpus, dtype in (("cpu", 1, "bf16"), ("cpu", 2, "fp32"), ("gb200", 8, "bf16")):
        spec = resolved(name, "mini", dtype, gpu_type, gpus)
        assert (spec.mini, spec.driver, spec.micro_batch_size) == (True, "megatron-bridge", 1)
        assert (spec.global_batch_size, spec.gradient_accumulation) == (4 * gpus, 4)
        assert spec.parallelism.ep == (1 if mini.model.experts else None)


def test_environment_follows_size_and_gpu_type() -> None:
    env = {gpu: resolved("llama3.1", "405b", "fp8", gpu, 1024).env for gpu in ("h100", "b200")}
    assert env["h100"]["CUDA_DEVICE_MAX_CONNECTIONS"] == "1"
    assert env["h100"]["NVTE_FWD_LAYERNORM_SM_MARGIN"] == "20"
    assert env["b200"]["NVTE_FWD_LAYERNORM_SM_MARGIN"] == "16"
    assert "NCCL_NET_GDR_LEVEL" not in env["b200"]
    assert resolved("llama3.1", "405b", "fp8", "gb200", 128).env["NCCL_NET_GDR_LEVEL"] == "PHB"
    assert resolved("llama3.1", "8b", "fp8", "h100", 8).env["NCCL_NVLS_ENABLE"] == "1"


@pytest.mark.parametrize(
    ("workload", "recipe", "size", "gpu_type", "minutes"),
    [
        ("llama3.1", "mbridge", "405b", "h100", 120),
        ("llama3.1", "mbridge", "8b", "h100", 30),
        ("llama4", "nemo2", "400b", "h100", 55),
        ("llama4", "nemo2", "400b", "gb200", 30),
        ("grok1", "nemo2", "314b", "gb200", 35),
    ],
)
def test_time_limits(workload: str, recipe: str, size: str, gpu_type: str, minutes: int) -> None:
    found = next(r for r in WORKLOADS[workload].recipes if r.name == recipe)
    assert walltime_minutes(found, size, gpu_type) == minutes


def test_the_error_about_an_unknown_combination_lists_what_exists() -> None:
    with pytest.raises(UsageError, match=r"llama3\.1 8b on h100 has no nvfp4 configuration: use --dtype fp8 or"):
        find(WORKLOADS["llama3.1"], size="8b", dtype="nvfp4", gpu_type="h100", gpus=8)
    problem = "grok1 314b fp8 on h100 has no configuration for 100 GPUs, and that for 512 GPUs does not scale to them"
    with pytest.raises(UsageError, match=f"{problem}: use --gpus 64 or 128"):
        find(WORKLOADS["grok1"], size="314b", dtype="fp8", gpu_type="h100", gpus=100)
    for gpus in (64, 128):
        find(WORKLOADS["grok1"], size="314b", dtype="fp8", gpu_type="h100", gpus=gpus)


def test_every_row_names_gpu_types_that_exist() -> None:
    from llmbx.catalog.hardware import GpuType

    rows: list[Row] = [row for w in WORKLOADS.values() for r in w.recipes for row in r.rows]
    assert {name for row in rows for name in row.gpu_types} <= {*GpuType.builtin(), "any"}
