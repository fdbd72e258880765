"""Model, parallelism, batch sizes, settings, variables and secrets of a run, from the recipe and `--set`."""

from __future__ import annotations

from typing import Any

import pytest

from llmbx.errors import UsageError
from llmbx.model import Parallelism, RunSpec
from llmbx.plugins.framework import Framework
from llmbx.run.context import admit, findings

from .curves import CLUSTER, installed, resolved

NEW = "recipe new (the new guide)"
TARGET = {"size": "70b", "gpu_type": "h100", "gpus": 64}
SMALL = {"size": "8b", "gpu_type": "h100", "gpus": 8}


def refusal(**options: Any) -> str:
    with pytest.raises(UsageError) as refused:
        resolved(**options)
    return str(refused.value)


def refused_run(spec: RunSpec) -> list[str]:
    """The lines with which a run is refused that resolves, but breaks rules."""
    with pytest.raises(UsageError) as refused:
        admit(spec, findings(spec, Framework(installed(), "curves")), force=False)
    return str(refused.value).splitlines()


def test_the_row_gives_parallelism_batch_sizes_and_switches() -> None:
    spec = resolved(**TARGET)
    assert spec.parallelism == Parallelism(tp=4, pp=4, cp=1, dp=4, vp=2, fsdp=8), "FSDP is GPUs / 8"
    assert (spec.micro_batch_size, spec.global_batch_size, spec.gradient_accumulation) == (2, 256, 32)
    assert (spec.cuda_graphs, spec.recompute_layers, spec.offload_layers) == (True, 3, 0)
    assert spec.corrected == ("the table prints DP 3",)
    assert spec.origins["tp"] == spec.origins["micro_batch_size"] == spec.origins["cuda_graphs"] == NEW
    assert spec.origins["dp"] == "GPUs / (TP x PP x CP)"
    assert spec.origins["gradient_accumulation"] == "GBS / (MBS x DP)"
    assert not {"mbs", "gbs", "cg", "rl", "ol"} & {*spec.origins}, "origins have the names of the values"


@pytest.mark.parametrize(("gpus", "batch"), [(8, 16), (16, 32), (64, 128)])
def test_a_batch_size_may_grow_with_the_gpus(gpus: int, batch: int) -> None:
    spec = resolved(**{**SMALL, "gpus": gpus})
    assert (spec.global_batch_size, spec.gradient_accumulation) == (batch, 4)


@pytest.mark.parametrize(
    ("typed", "name", "value", "origin"),
    [
        ({"tp": "8"}, "tp", 8, "--set tp"),
        ({"TP": "8"}, "tp", 8, "--set tp"),
        ({"cp": "2"}, "cp", 2, "--set cp"),
        ({"vp": "4"}, "vp", 4, "--set vp"),
        ({"fsdp": "off"}, "fsdp", False, "--set fsdp"),
        ({"fsdp": "4"}, "fsdp", 4, "--set fsdp"),
        ({"mbs": "1"}, "micro_batch_size", 1, "--set mbs"),
        ({"micro_batch_size": "4"}, "micro_batch_size", 4, "--set mbs"),
        ({"gbs": "512"}, "global_batch_size", 512, "--set gbs"),
        ({"cg": "no"}, "cuda_graphs", False, "--set cg"),
        ({"cuda_graphs": "false"}, "cuda_graphs", False, "--set cg"),
        ({"rl": "0"}, "recompute_layers", 0, "--set rl"),
        ({"ol": "5"}, "offload_layers", 5, "--set ol"),
    ],
)
def test_set_overrides_a_value_of_the_row(typed: dict[str, str], name: str, value: Any, origin: str) -> None:
    spec = resolved(**TARGET, settings=typed)
    held = getattr(spec, name) if hasattr(spec, name) else getattr(spec.parallelism, name)
    assert (held, type(held), spec.origins[name]) == (value, type(value), origin)
    assert not spec.proxy, "the model is unchanged"


@pytest.mark.parametrize(
    ("typed", "dp", "accumulation"),
    [
        ({"tp": "2"}, 8, 16),
        ({"pp": "1", "vp": "1"}, 16, 8),
        ({"cp": "4"}, 1, 128),
        ({"mbs": "4"}, 4, 16),
        ({"gbs": "8"}, 4, 1),
        ({"tp": "8", "pp": "16"}, 1, 128),
    ],
)
def test_data_parallelism_and_accumulation_follow(typed: dict[str, str], dp: int, accumulation: int) -> None:
    spec = resolved(**TARGET, settings=typed)
    assert (spec.parallelism.dp, spec.gradient_accumulation) == (dp, accumulation)


def test_a_run_with_the_rows_of_the_catalog_breaks_no_rule() -> None:
    for target in (TARGET, SMALL, {"size": "moe", "gpu_type": "b200"}, {"size": "mini"}):
        spec = resolved(**target)
        assert admit(spec, findings(spec, Framework(installed(), "curves")), force=False) == spec


@pytest.mark.parametrize(
    ("target", "typed", "line"),
    [
        (TARGET, {"tp": "3"}, "TP 3 x PP 4 x CP 1 = 12 does not divide 64 GPUs; "
         "use --gpus 60 or 72, or a smaller --set tp, pp or cp"),
        (TARGET, {"gbs": "100"}, "the global batch of 100 is not a multiple of MBS 2 x DP 4 = 8; "
         "use --set gbs=96 or --set gbs=104"),
        (TARGET, {"pp": "1"}, "VP 2 requires pipeline parallelism, but PP is 1; use --set vp=1, or --set pp above 1"),
        (SMALL, {"heads": "6", "query_groups": "3"}, "TP 2 is neither a divisor nor a multiple of the 3 query groups; "
         "use --set tp=1 or --set tp=3"),
        (SMALL, {"ep": "2"}, "EP 2 needs experts, but curve 8b has none; remove --set ep"),
        ({"size": "moe", "gpu_type": "b200"}, {"ep": "5"}, "EP 5 does not divide the 16 experts; "
         "use --set ep=1, --set ep=2, --set ep=4, --set ep=8 or --set ep=16"),
    ],
)  # fmt: skip
def test_set_that_breaks_a_rule_is_refused_with_what_would_be_right(
    target: dict[str, Any], typed: dict[str, str], line: str
) -> None:
    spec = resolved(**target, settings=typed)
    title, *lines = refused_run(spec)
    assert title == f"curve {spec.size} cannot run ({len(lines)} problem{'s' * (len(lines) > 1)}; --force overrides):"
    assert f"  {line}" in lines


def test_all_broken_rules_are_listed_at_once() -> None:
    spec = resolved(
        **{**TARGET, "gpus": 40, "dtype": "bf16"}, settings={"heads": "12", "tp": "5", "gbs": "255"}, gpus_per_node=16
    )
    title, *lines = refused_run(spec)
    assert title == "curve 70b cannot run (4 problems; --force overrides):"
    assert [line.split(";")[0].strip() for line in lines] == [
        "40 GPUs do not fill nodes of 16",
        "the global batch of 255 is not a multiple of MBS 1 x DP 8 = 8",
        "TP 5 does not divide the 12 attention heads",
        "TP 5 is neither a divisor nor a multiple of the 4 query groups",
    ]


@pytest.mark.parametrize("key", ["tp", "pp", "cp", "mbs", "gbs"])
def test_a_degree_or_batch_size_of_zero_is_refused_before_anything_is_divided_by_it(key: str) -> None:
    assert refusal(**TARGET, settings={key: "0"}) == f"--set {key}=0: expected an integer >= 1"


@pytest.mark.parametrize(
    ("typed", "problem"),
    [
        ({"tpp": "2"}, "--set tpp: unknown key for curve (did you mean 'tp'?)"),
        ({"rte": "2"}, "--set rte: unknown key for curve (did you mean 'rate'?)"),
        ({"tp": "two"}, "--set tp=two: expected an integer"),
        ({"gbs": "-8"}, "--set gbs=-8: expected an integer >= 0"),
        ({"fsdp": "perhaps"}, "--set fsdp=perhaps: expected an integer"),
        ({"rate": "fast"}, "--set rate=fast: expected a number"),
        ({"rate": "inf"}, "--set rate=inf: expected a finite number"),
        ({"limit": "1.5"}, "--set limit=1.5: expected an integer"),
        ({"kernel": "fusd"}, "--set kernel=fusd: invalid value (did you mean 'fused'?)"),
        ({"seed": "x"}, "--set seed=x: expected an integer"),
    ],
)
def test_a_key_or_value_that_set_does_not_take_is_refused(typed: dict[str, str], problem: str) -> None:
    assert refusal(**SMALL, settings=typed) == problem


@pytest.mark.parametrize(
    ("typed", "key", "value"),
    [
        ({"rate": "1"}, "rate", 1.0),
        ({"shuffle": "no"}, "shuffle", False),
        ({"shuffle": "on"}, "shuffle", True),
        ({"limit": "7"}, "limit", 7),
        ({"limit": "none"}, "limit", None),
        ({"kernel": "fused"}, "kernel", "fused"),
    ],
)
def test_a_setting_of_the_framework_has_the_type_of_its_default(typed: dict[str, str], key: str, value: Any) -> None:
    held = resolved(**SMALL, settings=typed).settings[key]
    assert (held, type(held)) == (value, type(value))


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"rate": "fast"}, "llmbx.toml: at clusters.alps.curves.rate=fast: expected a number"),
        ({"rate": [1]}, "llmbx.toml: at clusters.alps.curves.rate: expected a value like 0.1, got [1]"),
        ({"rat": 1}, "llmbx.toml: at clusters.alps.curves: unknown key 'rat' (did you mean 'rate'?)"),
        ("fast", "llmbx.toml: at clusters.alps.curves: expected a table, got 'fast'"),
    ],
)
def test_an_invalid_setting_of_the_profile_is_refused_with_its_place(table: object, problem: str) -> None:
    assert refusal(**SMALL, cluster={"plugin_keys": {"curves": table}}) == problem


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"qeue": "x"}, "llmbx.toml: at clusters.alps: unknown key 'qeue' (did you mean 'queue'?)"),
        ({"batch": {"queue": 7}}, "llmbx.toml: at clusters.alps.batch: at queue: expected a text, got int"),
    ],
)
def test_keys_of_plugins_in_the_profile_are_checked(keys: dict[str, Any], problem: str) -> None:
    assert refusal(**SMALL, cluster={"plugin_keys": keys}) == problem


def test_a_key_that_only_one_plugin_has_needs_no_table_in_the_profile() -> None:
    spec = resolved({}, {"plugin_keys": {"queue": "night"}}, **SMALL, launcher="batch")
    assert (spec.plugin_settings["batch"]["queue"], spec.origins["batch.queue"]) == ("night", CLUSTER)


def test_settings_of_a_plugin_that_is_not_installed_are_refused() -> None:
    options = {"plugin_settings": {"slurm": {"account": "a"}}}
    assert refusal(**SMALL, **options).startswith("unknown key 'slurm': no plugin has settings of this name (known: ")


@pytest.mark.parametrize(("key", "value"), [("layers", "4"), ("seq", "16"), ("hidden_size", "32"), ("experts", "4")])
def test_a_changed_model_is_a_proxy(key: str, value: str) -> None:
    spec = resolved(**SMALL, settings={key: value})
    name = {"seq": "sequence_length"}.get(key, key)
    assert (spec.proxy, getattr(spec.model, name), spec.origins[name]) == (True, int(value), f"--set {name}")


def test_a_part_of_a_model_is_a_proxy_and_its_row_has_fewer_layers() -> None:
    spec = resolved(size="70b-part", gpu_type="h100", gpus=8)
    assert (spec.proxy, spec.model.layers, spec.origins["layers"]) == (True, 4, "recipe row")
    typed = resolved(size="70b-part", gpu_type="h100", gpus=8, settings={"layers": "6"})
    assert (typed.model.layers, typed.origins["layers"]) == (6, "--set layers")


@pytest.mark.parametrize(("layers", "windowed"), [("16", 12), ("8", 6), ("5", 4), ("1", 1)])
def test_fewer_layers_keep_the_share_of_those_with_a_window(layers: str, windowed: int) -> None:
    """12 of the 16 layers have one; the share is rounded up."""
    assert resolved(**TARGET, settings={"layers": layers}).model.windowed_layers == windowed


def test_the_rest_of_the_catalog_reaches_the_run() -> None:
    spec = resolved(**TARGET)
    assert (spec.plugin, spec.workload, spec.folder, spec.driver) == ("curves", "curve", "fit_curve", "python")
    assert (spec.environment, spec.gpu_environments) == ("cpu-lock", ("gpu-lock",))
    assert spec.checkpoint_facts is not None and spec.checkpoint_facts.load_min_gpus == 64
    assert resolved(**SMALL).gated_tokenizer == "team/tokenizer"
    assert spec.install == "/install"
    assert resolved(**SMALL, tags=("a", "b")).tags == ("a", "b")


@pytest.mark.parametrize(
    ("target", "variables"),
    [
        (TARGET, {"OMP_NUM_THREADS": "1", "NCCL_NVLS_ENABLE": "0", "PIPELINE": "1"}),
        (SMALL, {"OMP_NUM_THREADS": "1", "NCCL_NVLS_ENABLE": "1", "SMALL": "1"}),
        (
            {**SMALL, "settings": {"pp": "2"}},
            {"OMP_NUM_THREADS": "1", "NCCL_NVLS_ENABLE": "1", "SMALL": "1", "PIPELINE": "1"},
        ),
    ],
    ids=["row above recipe", "of a size", "with pipeline stages"],
)
def test_the_recipe_exports_variables_for_some_of_its_runs(target: dict[str, Any], variables: dict[str, str]) -> None:
    assert resolved(**target).env == variables


def test_secrets_are_forwarded_by_name_and_never_kept() -> None:
    spec = resolved({"HF_TOKEN": "hf_secretsecret", "OTHER_TOKEN": "x" * 20}, **SMALL)
    assert spec.secrets == ("HF_TOKEN",)
    assert "hf_secretsecret" not in str(spec)


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"env": {"HF_TOKEN": "hf_secretsecret"}}, "--env HF_TOKEN=…: a secret in an option is visible"),
        ({"settings": {"kernel": "hf_secretsecret"}}, "--set kernel=…: it contains a secret"),
        ({"tags": ("hf_secretsecret",)}, "--tag: it contains a secret"),
        ({"mounts": ("/hf_secretsecret",)}, "--mount: it contains a secret"),
        ({"image": "hf_secretsecret"}, "--image: it contains a secret"),
        ({"load_checkpoint": "/hf_secretsecret"}, "--load-checkpoint: it contains a secret"),
        ({"plugin_settings": {"batch": {"queue": "hf_secretsecret"}}},
         "the setting queue of batch: it contains a secret"),
        ({"cluster": {"setup": ("login hf_secretsecret",)}}, f"{CLUSTER}: setup: it contains a secret"),
        ({"cluster": {"env": {"HF_TOKEN": "hf_secretsecret"}}},
         f"{CLUSTER}: env.HF_TOKEN: a secret in a profile is copied"),
    ],
)  # fmt: skip
def test_a_secret_in_an_option_or_in_the_profile_is_refused_without_showing_it(
    options: dict[str, Any], place: str
) -> None:
    problem = refusal(environ={"HF_TOKEN": "hf_secretsecret"}, **SMALL, **options)
    assert problem.startswith(place) and "hf_secretsecret" not in problem
