"""Size, dtype, GPU type and number of GPUs: what is chosen, where it comes from, what is refused and suggested."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from llmbx.catalog.derived import fits, smallest
from llmbx.catalog.hardware import GpuType
from llmbx.errors import UsageError
from llmbx.model import Reference

from .curves import CURVE, DOT, resolved

Machine = Callable[[str], None]

H100 = "NVIDIA H100 80GB HBM3"


def gpus(product: str, count: int) -> str:
    """Lines of shell that print the answer of nvidia-smi on a machine with these GPUs."""
    return "\n".join([f"echo '{product}'"] * count)


def refusal(**options: Any) -> str:
    with pytest.raises(UsageError) as refused:
        resolved(**options)
    return str(refused.value)


def test_without_a_gpu_a_request_for_nothing_else_runs_the_mini() -> None:
    spec = resolved()
    assert (spec.size, spec.dtype, spec.gpu_type, spec.gpus, spec.mini) == ("mini", "fp32", "cpu", 1, True)
    assert spec.origins["size"] == "default without a GPU"
    assert spec.origins["gpu_type"] == "no GPU on this machine"
    assert spec.origins["dtype"] == "default of a mini on a CPU, for comparable runs on all CPUs"
    assert spec.origins["gpus"] == "default of the mini"


@pytest.mark.parametrize(
    ("options", "cluster"),
    [({"gpus": 64}, None), ({"launcher": "batch", "gpus": 64}, None), ({"gpus": 64}, {})],
    ids=["a number of GPUs", "a launcher", "a profile"],
)
def test_a_request_for_a_cluster_is_never_a_mini(options: dict[str, Any], cluster: dict[str, Any] | None) -> None:
    spec = resolved({}, cluster, **options)
    assert (spec.size, spec.gpu_type, spec.mini) == ("70b", "h100", False)
    assert spec.origins["size"] == spec.origins["gpu_type"] == "default of curve"


def test_a_profile_of_the_local_launcher_is_for_this_machine(machine: Machine) -> None:
    """That which `llmbx init` proposes for a machine without a scheduler: the same runs, with its defaults."""
    machine(gpus("NVIDIA GB10, [N/A], 580.82, [N/A], 12.1", 1))
    table = {"gpu_type": "gb10", "launcher": "local", "walltime_minutes": {"default": 7}}
    spec = resolved({}, table)
    assert (spec.size, spec.gpu_type, spec.gpus, spec.walltime_minutes) == ("mini", "gb10", 1, 7)


def test_a_machine_with_more_gpus_than_a_usual_node_is_one_node(machine: Machine) -> None:
    machine(gpus(H100, 16))
    spec = resolved(size="8b", dtype="bf16", gpus=16)
    assert (spec.nodes, spec.gpus_per_node, spec.launcher) == (1, 16, "local")
    assert resolved(size="8b", dtype="bf16", gpus=32).nodes == 4, "a cluster of usual nodes"


def test_other_nodes_of_gpus_in_nodes_of_any_size_are_like_this_machine(machine: Machine) -> None:
    machine(gpus("NVIDIA H100 PCIe, 81559, 570.1, Disabled, 9.0", 4))
    spec = resolved(size="8b", dtype="bf16", gpus=16)
    assert (spec.gpu_type, spec.nodes, spec.gpus_per_node) == ("h100-pcie", 4, 4)


def test_a_launcher_or_a_profile_alone_asks_for_the_number_of_gpus() -> None:
    problem = "curve 70b bf16 on h100: add --gpus N (64, 128, 256, 512; others are scaled)"
    assert refusal(launcher="batch") == problem
    assert refusal(cluster={}) == problem
    assert resolved(launcher="local").mini, "the local launcher does not ask for a cluster"


@pytest.mark.parametrize(
    ("product", "count", "size", "scale", "why"),
    [
        (H100, 1, "70b-part", 1, "the largest part of a model with a recipe for 1 h100 GPU"),
        (H100, 8, "8b", 8, "the largest size with a recipe for 8 h100 GPUs"),
        (H100, 12, "8b", 8, "the largest size with a recipe for 8 h100 GPUs"),
        ("NVIDIA GB200", 4, "8b", 4, "the largest size with a recipe for 4 gb200 GPUs"),
    ],
)
def test_a_machine_with_gpus_runs_the_largest_size_that_fits(
    machine: Machine, product: str, count: int, size: str, scale: int, why: str
) -> None:
    machine(gpus(product, count))
    dtype = "mxfp8" if product == "NVIDIA GB200" else "bf16"
    spec = resolved(dtype=dtype)
    assert (spec.size, spec.gpus, spec.origins["size"]) == (size, scale, why)
    assert spec.origins["gpu_type"] == "this machine's GPUs"
    suffix = "" if scale == count else f": the most with a recipe of {count}"
    assert spec.origins["gpus"] == f"this machine's GPUs{suffix}"


def test_a_machine_with_too_few_gpus_for_a_dtype_is_told_what_it_can_run(machine: Machine) -> None:
    machine(gpus("NVIDIA GB200", 2))
    problem = "curve: no recipe for 2 gb200 GPUs has mxfp8, nor has the mini"
    assert refusal(dtype="mxfp8") == f"{problem}: use --dtype bf16 or fp32 for the mini, or --gpus N for a cluster"
    assert refusal(dtype="int8").startswith("curve has no dtype 'int8' (known: ")
    spec = resolved(dtype="fp32")
    assert (spec.size, spec.origins["size"]) == ("mini", "no recipe for 2 gb200 GPUs has fp32")


def test_a_machine_whose_gpus_are_too_small_for_every_row_runs_the_mini_and_says_why(machine: Machine) -> None:
    machine(gpus("NVIDIA L40S, 46068, 550.54, [N/A], 8.9", 8))
    spec = resolved()
    assert (spec.size, spec.dtype, spec.gpu_type) == ("mini", "bf16", "l40s")
    assert spec.origins["size"] == "no recipe of curve fits 8 l40s GPUs with 48 GB"


def test_a_mini_runs_in_the_best_dtype_that_the_gpu_has(machine: Machine) -> None:
    machine(gpus("Tesla V100-SXM2-32GB, 32768, 535.1, [N/A], 7.0", 1))
    spec = resolved()
    assert (spec.size, spec.dtype, spec.gpu_type) == ("mini", "fp32", "tesla-v100-sxm2-32gb")


@pytest.mark.parametrize(
    ("product", "gpu_type", "dtype", "mark"),
    [
        ("NVIDIA H200", "h200", "bf16", "layout of h100; no published figure for 8 x h200"),
        ("NVIDIA A100-SXM4-80GB", "a100", "bf16", "layout of h100; no published figure for 8 x a100"),
        ("NVIDIA H20", "h20", "bf16", "layout of h100; no published figure for 8 x h20"),
        ("NVIDIA X9, 99000, 600.1, [N/A], 9.0", "x9", "bf16", "layout of h100; no published figure for 8 x x9"),
    ],
)
def test_a_gpu_without_rows_borrows_those_of_the_nearest_with_no_more_memory(
    machine: Machine, product: str, gpu_type: str, dtype: str, mark: str
) -> None:
    machine(gpus(product, 8))
    spec = resolved()
    assert (spec.size, spec.gpus, spec.gpu_type, spec.dtype) == ("8b", 8, gpu_type, dtype)
    assert (spec.layout_of, spec.row_gpu_type, spec.derived) == ("h100", "h100", mark)
    (note,) = spec.findings
    assert note.warning and note.problem == f"layout of h100; no published figure for {gpu_type}"
    assert spec.env["SMALL"] == "1", "the variables of the borrowed row"


def test_a_borrowed_row_is_not_of_a_dtype_that_the_gpu_lacks() -> None:
    problem = "a100 (compute capability 8.0) has no fp8: use --dtype bf16"
    assert refusal(size="8b", gpu_type="a100", gpus=8, dtype="fp8") == problem
    assert resolved(size="8b", gpu_type="a100", gpus=8, dtype="bf16").layout_of == "h100"


def test_runs_of_a_borrowed_row_are_comparable_with_their_like_only() -> None:
    borrowed = resolved(size="8b", gpu_type="h200", gpus=8)
    assert borrowed.work_differences(borrowed.replace(recipe="old")) == []
    own = borrowed.replace(layout_of=None)
    figure = Reference(source="a page", size="8b", dtype="bf16", gpu_type="h200", gpus=8, step_time_s=1.0)
    published = CURVE.replace(references=(figure,))
    assert own.exact_row(published) == figure and borrowed.exact_row(published) is None
    assert borrowed.why_no_figure(published) == "layout of h100; no published figure for 8 x h200"
    assert own.work_differences(borrowed) == ["the GPU type of the layout differs (None and h100)"]
    scaled = resolved(size="8b", gpu_type="h100", gpus=24)
    assert (scaled.scaled_from, scaled.derived) == (32, "scaled from 32 GPUs; no published figure for 24 x h100")
    assert scaled.replace(scaled_from=16).work_differences(scaled)[0].startswith("the number of GPUs that the layout")


def test_only_visible_gpus_count(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(gpus(H100, 8))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    assert (resolved().size, resolved().gpus) == ("70b-part", 1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert resolved().size == "mini"


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({"gpus": 2}, "70b-part"),
        ({"gpus": 8}, "8b"),
        ({"gpus": 8, "gpu_type": "h100"}, "8b"),
        ({"gpu_type": "h100"}, "8b"),
        ({"gpus": 16}, "8b"),
        ({"gpus": 8, "launcher": "batch"}, "8b"),
        ({"gpus": 128}, "70b"),
    ],
    ids=["fewer", "all", "all by name", "by name", "more than the machine has", "for a scheduler", "of the default"],
)
def test_a_requested_number_of_gpus_decides_the_size(machine: Machine, options: dict[str, Any], size: str) -> None:
    machine(gpus(H100, 8))
    assert resolved(dtype="bf16", **options).size == size


def test_a_requested_number_without_a_recipe_is_not_rounded(machine: Machine) -> None:
    machine(gpus(H100, 8))
    spec = resolved(gpus=3, dtype="bf16")
    assert (spec.size, spec.gpus, spec.scaled_from) == ("70b-part", 3, 4)
    assert spec.global_batch_size == 8 * 3 // 4, "the batch of a rank"


def test_a_profile_means_that_the_machine_is_not_meant(machine: Machine) -> None:
    machine(gpus(H100, 8))
    assert refusal(cluster={}) == "curve 70b bf16 on h100: add --gpus N (64, 128, 256, 512; others are scaled)"


def test_a_machine_with_too_few_gpus_is_named_with_what_it_can_run(machine: Machine) -> None:
    machine(gpus(H100, 1))
    add = "add --gpus N (64, 128, 256, 512; others are scaled)"
    has = "this machine has 1; `llmbx list --here` lists what it can run"
    assert refusal(size="70b") == f"curve 70b bf16 on h100 needs 64 GPUs or more: {add}; {has}"


def test_gpus_that_are_not_in_the_list_are_used(machine: Machine) -> None:
    machine(gpus("Voodoo 5 6000", 2))
    spec = resolved()
    assert (spec.gpu_type, spec.size, spec.dtype, spec.peak) == ("voodoo-5-6000", "mini", "bf16", None)
    assert spec.origins["gpu_type"] == "this machine's GPUs"


def test_a_driver_that_fails_is_the_reason_for_the_cpu(machine: Machine) -> None:
    machine("echo 'Failed to initialize NVML'; exit 9")
    assert resolved().origins["gpu_type"] == "nvidia-smi failed: Failed to initialize NVML"


def test_the_only_gpu_type_with_the_scale_is_implied() -> None:
    spec = resolved(size="moe", gpus=16)
    assert (spec.gpu_type, spec.origins["gpu_type"]) == ("b200", "the only GPU type with 16 GPUs in the catalog")
    assert resolved(size="8b", gpus=4).gpu_type == "gb200", "h100 has no configuration for 4 GPUs"
    assert resolved(size="70b", gpus=64, recipe="old").gpu_type == "h100", "of this recipe"


def test_the_only_scale_is_the_default() -> None:
    spec = resolved(size="moe", gpu_type="b200")
    assert (spec.gpus, spec.origins["gpus"]) == (16, "the only scale in the catalog")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"size": "8bb"}, "curve has no size '8bb' (did you mean '8b'?)"),
        ({"size": "giant", "gpu_type": "h100"}, "curve has no size 'giant' (known: 70b, 70b-part, 8b, mini, moe)"),
        ({"gpu_type": "hh100"}, "no GPU type named 'hh100' (did you mean 'h100'?); define a new one as [gpus.hh100] "
         "in llmbx.toml"),
        ({"size": "8b", "dtype": "mxfp8"}, "curve 8b needs a GPU cluster and this machine has no GPU: add --gpu-type "
         "(gb200), or use --size mini"),
        ({"size": "moe"}, "curve moe needs a GPU cluster and this machine has no GPU: add --gpu-type (b200), or use "
         "--size mini"),
        ({"size": "8b", "gpu_type": "h100"}, "curve 8b bf16 on h100: add --gpus N (8, 16, 32, 64; others are scaled)"),
        ({"size": "8b", "gpu_type": "h100", "dtype": "nvfp4"},
         "curve 8b on h100 has no nvfp4 configuration: use --dtype bf16 or fp8"),
        ({"size": "8b", "gpu_type": "cpu"},
         "curve 8b has no configuration for cpu (its kernels are for GPUs): use --gpu-type h100 or gb200"),
        ({"size": "moe", "gpu_type": "b200", "recipe": "old"},
         "recipe old of curve has no size moe (recipes with it: new)"),
        ({"size": "8b", "gpu_type": "h100", "gpus": 1_000_001}, "--gpus 1000001: expected at most 1000000"),
        ({"workload": "dot"}, "dot 2b has no configuration for cpu: use --gpu-type h100 or gb200"),
        ({"workload": "dot", "gpu_type": "h100"}, "dot 2b fp8 on h100: add --gpus N (8, 32; others are scaled)"),
        ({"workload": "curv"}, "no workload named 'curv' (did you mean 'curve'?)"),
        ({"plugin": "curvs"}, "no framework plugin named 'curvs' (did you mean 'curves'?); if it is not installed, "
         "name its file or folder in LLMBX_PLUGINS"),
    ],
)  # fmt: skip
def test_what_is_missing_or_unknown_is_refused_with_what_would_be_right(options: dict[str, Any], problem: str) -> None:
    assert refusal(**options) == problem


@pytest.mark.parametrize(
    ("options", "rule", "problem", "fix"),
    [
        ({"size": "70b", "gpu_type": "h100", "gpus": 100, "dtype": "bf16", "recipe": "new"}, "gpus",
         "curve 70b in recipe new bf16 on h100 has no configuration for 100 GPUs, and that for 128 GPUs does not scale "
         "to them", "use --gpus 96 or 112"),
        ({"size": "8b", "gpu_type": "h100", "gpus": 8, "dtype": "fp16"}, "dtype",
         "curve 8b on h100 has no fp16 configuration", "use --dtype bf16 or fp8"),
        ({"size": "8b", "gpu_type": "l4", "recipe": "old"}, "gpu_type",
         "curve 8b in recipe old has no configuration for l4", "use --gpu-type h100"),
        ({"size": "8b", "gpu_type": "l40s", "gpus": 8, "dtype": "bf16"}, "gpu_type",
         "curve 8b has no configuration for l40s", "use --gpu-type h100 or gb200"),
        ({"size": "70b", "gpu_type": "h100", "gpus": 512, "dtype": "fp8", "recipe": "new"}, "dtype",
         "curve 70b in recipe new on h100 has no fp8 configuration", "use --dtype bf16, or use --recipe old"),
    ],
)  # fmt: skip
def test_what_the_catalog_does_not_have_is_a_finding_that_force_overrides(
    options: dict[str, Any], rule: str, problem: str, fix: str
) -> None:
    finding = resolved(**options).findings[0]
    assert (finding.rule, finding.problem, finding.fix, finding.warning) == (rule, problem, fix, False)


def test_a_scale_that_is_not_in_the_catalog_takes_the_nearest_row() -> None:
    near = resolved(size="70b", gpu_type="h100", gpus=600, dtype="bf16")
    assert (near.recipe, near.scaled_from, near.parallelism.tp) == ("old", 512, 8), "512 is nearer than 256"
    assert near.global_batch_size == 600, "a sample for each GPU, as for 512"
    assert resolved(size="70b", gpu_type="h100", gpus=48, dtype="bf16").recipe == "new"


def test_the_default_dtype_is_that_of_the_newest_recipe_with_the_scale() -> None:
    assert resolved(size="70b", gpu_type="h100", gpus=64).dtype == "bf16"
    both = resolved(size="70b", gpu_type="h100", gpus=64, recipe="old")
    assert (both.dtype, both.origins["dtype"]) == ("bf16", "default of curve 70b on h100")
    only = resolved(workload="dot", gpu_type="h100", gpus=32)
    assert (only.dtype, only.size, only.origins["size"]) == ("fp8", "2b", "the only size")


def test_two_dtypes_without_a_default_must_be_chosen() -> None:
    problem = "dot 2b on gb200 has no default dtype: add --dtype bf16 or fp8"
    assert refusal(workload="dot", gpu_type="gb200", gpus=8) == problem


def test_the_release_decides_which_recipe_is_the_newest() -> None:
    """1.10 is newer than 1.9, and the file has them in the other order."""
    assert resolved(size="8b", gpu_type="h100", gpus=8).recipe == "new"
    named = resolved(size="8b", gpu_type="h100", gpus=8, recipe="old")
    assert (named.recipe, named.global_batch_size, named.origins["recipe"]) == ("old", 32, "--recipe")


def test_an_alias_names_the_workload() -> None:
    spec = resolved(workload="pretrain_curve")
    assert (spec.workload, spec.folder, spec.plugin) == ("curve", "fit_curve", "curves")


def test_a_peak_is_that_of_the_gpu_type_and_dtype_or_unknown() -> None:
    peak = resolved(size="8b", gpu_type="h100", gpus=8, dtype="fp8").peak
    assert peak is not None and peak.name == "H100 SXM dense FP8"
    assert resolved().peak is None, "no CPU has one"


@pytest.mark.parametrize(
    ("gpu_type", "count", "dtype", "recipe", "needed", "fitting"),
    [
        ("h100", 8, None, None, None, [("8b", 8), ("70b-part", 8)]),
        ("h100", 100, None, None, None, [("70b", 64), ("8b", 64), ("70b-part", 8)]),
        ("h100", 100, "fp8", None, None, [("70b", 64), ("8b", 64)]),
        ("h100", 100, None, "old", None, [("70b", 64), ("8b", 8)]),
        ("h100", 0, None, None, None, []),
        ("l40s", 8, None, None, None, []),
        ("l40s", 8, None, None, 49.0, []),
        ("l40s", 8, None, None, 48.0, [("8b", 8), ("moe", 8), ("70b", 8), ("70b-part", 8)]),
        ("l40s", 4, None, None, 48.0, [("moe", 4), ("70b", 4), ("8b", 4), ("70b-part", 4)]),
    ],
)
def test_whole_models_are_listed_before_parts_and_large_ones_before_small_ones(
    gpu_type: str,
    count: int,
    dtype: str | None,
    recipe: str | None,
    needed: float | None,
    fitting: list[tuple[str, int]],
) -> None:
    types = GpuType.builtin()
    sizes = [*fits(CURVE, types[gpu_type], count, types, lambda *row: needed, dtype, recipe)]
    assert [(fit.size, fit.gpus) for fit in sizes] == fitting
    assert [fit.proxy for fit in sizes] == [size == "70b-part" for size, _ in fitting]
    rows = {(size, 8) for size in ("8b", "70b-part")} | {("70b-part", 4)}
    assert [fit.scaled for fit in sizes] == [gpu_type == "l40s" and fit not in rows for fit in fitting]


def test_the_smallest_size_needs_the_fewest_gpus() -> None:
    types = GpuType.builtin()
    assert smallest(CURVE, types["h100"], types) == ("70b-part", 1)
    assert smallest(CURVE, types["gb200"], types) == ("70b-part", 1), "the row of h100"
    assert smallest(CURVE, types["cpu"], types) is None, "a mini is not a size that a machine is too small for"
    assert smallest(DOT, types["h100"], types) == ("2b", 8)
