"""How the command line is resolved for the NeMo workloads: defaults, precedence, the recipes' own variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from llmbx.config.profiles import Cluster, Config
from llmbx.config.request import Request
from llmbx.errors import UsageError
from llmbx.model import RunSpec, TraceSpec
from llmbx.plugins.manager import load
from llmbx.resolve import resolve

NO_CONFIG = Config()


def spec(workload: str, environ: Mapping[str, str] = {}, config: Config = NO_CONFIG, **options: Any) -> RunSpec:
    files = dict.fromkeys(config.clusters, "llmbx.toml")
    return resolve(Request(workload=workload, **options), load(), config, files, environ)


@pytest.mark.parametrize("name", ["grok1", "llama3.1", "llama4"])
def test_without_a_gpu_and_a_profile_it_is_the_mini(name: str) -> None:
    found = spec(name)
    assert (found.size, found.gpu_type, found.gpus, found.launcher, found.steps) == ("mini", "cpu", 1, "local", 50)
    assert found.mini and found.window == "35-44"


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
def test_the_recipes_names_are_aliases(alias: str, name: str) -> None:
    assert spec(alias).workload == name


def test_the_example_of_the_issue() -> None:
    found = spec("llama3.1", size="405b", gpu_type="h100", gpus=1024)
    p = found.parallelism
    assert (p.tp, p.pp, p.cp, p.dp, p.vp, found.global_batch_size, found.gradient_accumulation) == (
        8,
        8,
        2,
        8,
        8,
        512,
        64,
    )
    assert found.dtype == "fp8" and found.nodes == 128 and found.launcher == "slurm"
    assert found.origins["size"] == "--size" and found.origins["gpus"] == "--gpus"
    assert "recipe" in found.origins["tp"]


def test_on_a_gpu_cluster_the_recipes_defaults_are_used() -> None:
    config = Config(default_cluster="c", clusters={"c": Cluster(gpu_type="gb200", launcher="slurm")})
    assert spec("llama3.1", config=config, gpus=128).size == "405b"
    maverick = spec("llama4", config=config, gpus=128)
    assert (maverick.size, maverick.dtype, maverick.gpus_per_node) == ("400b", "bf16", 4)
    assert maverick.origins["gpu_type"] == "cluster 'c' in llmbx.toml"


def test_a_request_with_cluster_options_is_never_a_mini() -> None:
    """On a login node, which has no GPU."""
    typed = spec("grok1", {"JOB_TOTAL_GPUS": "128", "DTYPE": "fp8"})
    assert (typed.size, typed.gpu_type, typed.nodes, typed.launcher) == ("314b", "gb200", 32, "slurm")
    assert spec("grok1", gpu_type="h100").size == spec("grok1", gpus=256).size == "314b"
    assert (spec("grok1", gpus=512).gpu_type, spec("grok1", gpus=512).dtype) == ("gb200", "fp8"), "launch.sh's defaults"
    with pytest.raises(UsageError, match="add --gpus N \\(128, 256, 512; others are scaled\\)"):
        spec("grok1", launcher="slurm")
    config = Config(clusters={"c": Cluster(gpu_type="gb200")})
    assert spec("grok1", config=config, cluster="c", gpus=128).size == "314b"
    with pytest.raises(UsageError, match=r"llama3\.1 405b needs a GPU cluster .* or use --size mini"):
        spec("llama3.1", gpus=2)


def test_a_dtype_without_a_configuration_is_the_named_problem() -> None:
    """Not the number of GPUs, which the dtype has none of."""
    with pytest.raises(UsageError, match=r"gpt-oss 120b on gb200 has no nvfp4 configuration: use --dtype .*bf16"):
        spec("gpt-oss", gpu_type="gb200", dtype="nvfp4")
    with pytest.raises(UsageError, match=r"grok1 314b has no configuration for mi300x: use --gpu-type"):
        spec("grok1", gpu_type="mi300x", dtype="bf16")


@pytest.mark.parametrize(
    "options", [{}, {"launcher": "local"}, {"gpu_type": "cpu", "gpus": 2}, {"size": "mini", "gpus": 2}]
)
def test_a_request_without_cluster_options_is_a_mini_if_there_is_no_gpu(options: dict[str, Any]) -> None:
    assert spec("grok1", **options).mini


def test_the_order_of_precedence() -> None:
    config = Config(clusters={"c": Cluster(gpu_type="h100")})
    environ = {"GPU_TYPE": "H100", "JOB_TOTAL_GPUS": "512", "DTYPE": "fp8"}
    run = spec("grok1", environ, config, cluster="c", gpu_type="h100", size="314b")
    assert run.origins["gpu_type"] == "--gpu-type"
    by_environment = spec("grok1", environ, config, cluster="c", size="314b")
    assert (by_environment.gpu_type, by_environment.origins["gpu_type"]) == ("h100", "GPU_TYPE")
    by_profile = spec("grok1", {"DTYPE": "fp8"}, config, cluster="c", size="314b")
    assert (by_profile.gpu_type, by_profile.gpus) == ("h100", 512)


def test_the_newest_recipe_with_the_combination_is_the_default() -> None:
    assert spec("llama3.1", size="70b", gpu_type="h100", gpus=64, dtype="fp8").recipe == "mbridge"
    assert spec("llama3.1", size="70b", gpu_type="h100", gpus=64, dtype="bf16").recipe == "nemo2"
    older = spec("llama3.1", size="70b", gpu_type="h100", gpus=64, dtype="fp8", recipe="nemo2")
    assert older.window == "last" and older.driver == "nemo2"


def test_set_changes_one_value_and_its_origin() -> None:
    found = spec("llama3.1", size="mini", gpus=2, settings={"tp": "2", "seq": "64"})
    assert (found.parallelism.tp, found.parallelism.dp, found.model.sequence_length) == (2, 1, 64)
    assert found.origins["tp"] == "--set tp" and found.proxy


def test_the_error_about_a_real_size_without_a_gpu_names_the_missing_options() -> None:
    with pytest.raises(UsageError, match="add --gpu-type"):
        spec("llama4", size="400b")


def test_a_window_that_the_run_does_not_reach() -> None:
    options: dict[str, Any] = {"gpu_type": "gb200", "gpus": 256, "dtype": "bf16"}
    whole, short = spec("grok1", **options, steps=45), spec("grok1", **options, steps=44)
    assert (whole.window, short.window) == ("11-44", "auto"), "NeMo 2 numbers 44 steps from 0 to 43"
    assert short.origins["window"] == "the run of 44 steps ends before the recipe's window 11-44"
    with pytest.raises(
        UsageError, match=r"--window 45-50: the run has only 50 steps, numbered 0 to 49 in its log; use an"
    ):
        spec("grok1", **options, window="45-50")
    assert spec("grok1", steps=44).window == "35-44", "Megatron-Bridge numbers them from 1"
    with pytest.raises(UsageError, match=r"--window 0-0: the run has only 50 steps, numbered 1 to 50 in its log"):
        spec("grok1", window="0-0")


def test_profile_steps_are_the_recipes() -> None:
    found = spec("llama3.1", size="70b", gpu_type="h100", gpus=64, dtype="bf16", profile=True)
    assert found.profile is not None
    assert (found.profile.start, found.profile.stop, found.steps) == (20, 25, 25)
    run = spec("grok1", environ={"ENABLE_PROFILE": "true", "RUN_CONF_PROFILE_START_STEP": "40"})
    assert run.profile is not None and (run.profile.start, run.profile.stop, run.steps) == (40, 50, 50)


def test_profile_and_trace_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="cannot be combined"):
        spec("grok1", environ={"ENABLE_NCCLTRACE": "true"}, profile=True)


def test_a_traced_run_has_five_steps_and_its_own_name() -> None:
    found = spec("grok1", environ={"ENABLE_NCCLTRACE": "true"})
    assert found.steps == 5 and found.experiment.endswith("_nccltrace") and found.window == "auto"


def test_a_traced_run_has_a_short_default_time_limit() -> None:
    job = {"size": "314b", "gpu_type": "h100", "gpus": 512, "dtype": "fp8", "wrappers": ("nccltrace",)}
    assert spec("grok1", **job).walltime_minutes == 15
    assert spec("grok1", **job, walltime_minutes=40).walltime_minutes == 40
    short = Config(clusters={"c": Cluster(walltime_minutes={"default": 10})})
    assert spec("grok1", config=short, **job, cluster="c").walltime_minutes == 10
    usual = spec("grok1", **{**job, "wrappers": ()}).walltime_minutes
    assert usual is not None and usual > 15


def test_traced_subsystems_are_set_by_name() -> None:
    options = {"trace_subsystems": "init,tuning", "trace_file_per_rank": True}
    traced = spec("grok1", wrappers=("nccltrace",), plugin_settings={"nccltrace": options})
    assert traced.trace == TraceSpec(tool="nccltrace") and traced.plugin_settings == {"nccltrace": options}
    with pytest.raises(UsageError, match=r"--trace-\S+ is an option of nccltrace, .* add --with"):
        spec("grok1", plugin_settings={"nccltrace": options})


def test_scheduler_options_from_everywhere_and_conflicts() -> None:
    config = Config(clusters={"c": Cluster(plugin_keys={"account": "a", "slurm": {"partition": "p"}})})
    environ = {"SBATCH_PARTITION": "q", "ADDITIONAL_SLURM_PARAMS": "nodelist=n1,n2;exclusive"}
    found = spec("grok1", environ, config, cluster="c", size="mini")
    assert found.plugin_settings["slurm"]["sbatch"] == {
        "account": "a",
        "partition": "q",
        "nodelist": "n1,n2",
        "exclusive": "",
    }
    with pytest.raises(UsageError, match="SBATCH_PARTITION sets 'q', but --slurm-arg sets 'r'"):
        spec("grok1", environ, config, plugin_settings={"slurm": {"sbatch": {"partition": "r"}}})
    with pytest.raises(UsageError, match="--walltime sets 30 minutes, but SBATCH_TIMELIMIT sets '1:00:00'"):
        spec("grok1", {"SBATCH_TIMELIMIT": "1:00:00"}, config, walltime_minutes=30)


def test_retries_by_option_and_profile() -> None:
    config = Config(clusters={"c": Cluster(retries=2)})
    found = spec("grok1", {}, config, cluster="c", size="mini")
    assert found.retries == 2 and found.origins["retries"].startswith("cluster 'c' in ")
    assert spec("grok1", {}, config, cluster="c", size="mini", retries=0).retries == 0 == spec("grok1").retries


def test_the_predecessors_command_implies_the_only_gpu_type_that_fits() -> None:
    """`run -w pretrain_grok1 -s 314b --dtype fp8 --scale 128 -p`, typed on a login node without a GPU."""
    found = spec("pretrain_grok1", size="314b", dtype="fp8", gpus=128, profile=True)
    assert (found.gpu_type, found.launcher, found.nodes) == ("gb200", "slurm", 32)
    assert found.origins["gpu_type"] == "the only GPU type with 128 GPUs in the catalog"
    assert found.profile is not None and (found.profile.start, found.profile.stop) == (45, 50)
    both = spec("pretrain_grok1", size="314b", dtype="fp8", gpus=512)
    assert (both.gpu_type, both.origins["gpu_type"]) == ("gb200", "default of grok1")
    with pytest.raises(UsageError, match="add --gpu-type \\(gb200, h100\\)"):
        spec("llama4", size="400b", dtype="fp8", gpus=512)


SCALE = {"size": "405b", "gpu_type": "gb200", "gpus": 256, "dtype": "fp8"}


def test_the_schedulers_time_option_is_the_time_limit() -> None:
    usual = spec("llama3.1", **SCALE)
    assert usual.walltime_minutes != 1440
    found = spec("llama3.1", plugin_settings={"slurm": {"sbatch": {"time": "1-00:00:00"}}}, **SCALE)
    assert found.walltime_minutes == 1440
    assert found.origins["walltime_minutes"] == "sbatch option time=1-00:00:00 (--slurm-arg)"
    by_variable = spec("llama3.1", {"ADDITIONAL_SLURM_PARAMS": "time=UNLIMITED"}, **SCALE)
    assert by_variable.walltime_minutes is None
    with pytest.raises(UsageError, match=r"time=soon \(--slurm-arg\): expected minutes, M:S"):
        spec("llama3.1", plugin_settings={"slurm": {"sbatch": {"time": "soon"}}}, **SCALE)


def test_a_local_run_ignores_the_schedulers_time() -> None:
    found = spec("llama3.1", {"SBATCH_TIMELIMIT": "2"})
    assert found.launcher == "local" and found.walltime_minutes != 2


def test_walltime_replaces_the_time_option_of_the_cluster_profile() -> None:
    config = Config(clusters={"c": Cluster(plugin_keys={"slurm": {"sbatch": {"time": "8:00:00"}}})})
    assert spec("llama3.1", config=config, cluster="c", **SCALE).walltime_minutes == 480
    run = spec("llama3.1", config=config, cluster="c", walltime_minutes=30, **SCALE)
    assert run.walltime_minutes == 30 and "time" not in run.plugin_settings["slurm"]["sbatch"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"env": {"1A": "x"}}, r"--env: environment variable '1A': a name may contain only"),
        ({"mounts": (":",)}, r"mount ':': expected SOURCE\[:TARGET\]\[:ro\]"),
        ({"mounts": ("/a:/b:/c:/d",)}, r"mount '/a:/b:/c:/d': expected SOURCE"),
        (
            {"launcher": "slurm", "plugin_settings": {"slurm": {"sbatch": {"a b": "3"}}}},
            r"sbatch option a b=3 \(--slurm-arg\): a name",
        ),
    ],
)
def test_values_that_a_script_cannot_contain_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        spec("grok1", runtime="host", size="mini", **options)


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        (
            Cluster(plugin_keys={"account": ""}),
            r"sbatch option account \(cluster 'c' in llmbx.toml\): a value is required",
        ),
        (Cluster(plugin_keys={"srun": {"nodes": "7"}}), r"srun option nodes=7 \(cluster 'c'\): llmbx sets it"),
    ],
)
def test_a_cluster_profile_that_a_script_cannot_contain_is_rejected(cluster: Cluster, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        spec("grok1", config=Config(clusters={"c": cluster}), cluster="c", launcher="slurm", size="mini")


def test_an_impossible_scale_is_rejected() -> None:
    with pytest.raises(UsageError, match="--gpus 99999999999: expected at most 1000000"):
        spec("grok1", gpus=99999999999)
    with pytest.raises(UsageError, match="JOB_TOTAL_GPUS 1000001: expected at most"):
        spec("grok1", {"JOB_TOTAL_GPUS": "1000001"}, gpu_type="gb200")


def of_cluster(table: Any, **options: Any) -> RunSpec:
    return spec(
        "llama3.1", config=Config(clusters={"c": Cluster(plugin_keys={"nemo": table})}), cluster="c", **SCALE, **options
    )


def test_a_cluster_profile_sets_settings_of_the_framework() -> None:
    found = of_cluster({"numa_binding": False, "distributed_timeout_minutes": 30})
    assert (found.settings["numa_binding"], found.settings["distributed_timeout_minutes"]) == (False, 30)
    assert found.origins["settings.numa_binding"].startswith("cluster 'c' in ")
    assert spec("llama3.1", **SCALE).settings["distributed_timeout_minutes"] == 10
    chosen = of_cluster({"distributed_timeout_minutes": 30}, settings={"distributed_timeout_minutes": "5"})
    assert chosen.settings["distributed_timeout_minutes"] == 5
    assert chosen.origins["settings.distributed_timeout_minutes"] == "--set"
    option = of_cluster(
        {"distributed_timeout_minutes": 30}, plugin_settings={"nemo": {"distributed_timeout_minutes": 6}}
    )
    assert option.settings["distributed_timeout_minutes"] == 6 and "nemo" not in option.plugin_settings


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"numa_bindings": True}, r"at clusters.c.nemo: unknown key 'numa_bindings' \(did you mean 'numa_binding'\?\)"),
        ({"attention": "flush"}, r"at clusters.c.nemo: at attention: unknown value 'flush' \(did you mean 'flash'\?\)"),
        ({"numa_binding": []}, r"at clusters.c.nemo: at numa_binding: expected true or false, got array"),
        ({"tp": 4}, r"at clusters.c.nemo: unknown key 'tp'"),
        (3, r"at clusters.c.nemo: expected a table, got 3"),
    ],
)
def test_a_wrong_setting_of_the_framework_in_a_profile_is_refused(table: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        of_cluster(table)
