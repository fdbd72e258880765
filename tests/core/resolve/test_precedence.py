"""Option before environment variable, before cluster profile, before catalog; each value states where it came from."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from llmbx.errors import UsageError
from llmbx.model import RunSpec

from .curves import CLUSTER, resolved

NEW = "recipe new (the new guide)"


class Level(NamedTuple):
    """One place where a value can be set: what it sets there, and which value and origin that gives."""

    value: Any
    origin: str | None
    options: dict[str, Any] = {}
    environ: dict[str, str] = {}
    cluster: dict[str, Any] = {}


def option(value: Any, origin: str, **options: Any) -> Level:
    return Level(value, origin, options=options)


def variable(value: Any, name: str, text: str) -> Level:
    return Level(value, name, environ={name: text})


def profile(value: Any, **cluster: Any) -> Level:
    return Level(value, CLUSTER, cluster=cluster)


TARGET = {"size": "70b", "gpu_type": "h100", "gpus": 64}
"""A run that leaves nothing of its target to the catalog."""

LADDERS: dict[str, tuple[dict[str, Any], list[Level]]] = {
    "size": (
        {"gpu_type": "h100", "gpus": 64, "dtype": "bf16"},
        [
            option("8b", "--size", size="8b"),
            variable("70b-part", "MODEL_SIZE", "70B-PART"),
            Level("70b", "default of curve"),
        ],
    ),
    "dtype": (
        {"size": "8b", "gpu_type": "h100", "gpus": 16},
        [
            option("fp8", "--dtype", dtype="fp8"),
            variable("bf16", "DTYPE", "BF16"),
            Level("bf16", "default of curve 8b on h100"),
        ],
    ),
    "gpu_type": (
        {"size": "70b", "gpus": 64},
        [
            option("gb200", "--gpu-type", gpu_type="gb200"),
            variable("h100", "GPU_TYPE", "H100"),
            Level("h100", "default of curve"),
        ],
    ),
    "gpus": (
        {"size": "8b", "gpu_type": "gb200", "dtype": "mxfp8"},
        [
            option(8, "--gpus", gpus=8),
            variable(16, "JOB_TOTAL_GPUS", "16"),
            Level(4, "the only scale in the catalog"),
        ],
    ),
    "gpus_per_node": (
        TARGET,
        [
            option(4, "--gpus-per-node", gpus_per_node=4),
            variable(2, "GPUS_PER_NODE", "2"),
            profile(16, gpus_per_node=16),
            Level(8, "h100 nodes"),
        ],
    ),
    "launcher": (
        {"size": "mini"},
        [
            option("local", "--launcher", launcher="local"),
            profile("batch", launcher="batch"),
            Level("local", "default for one node"),
        ],
    ),
    "runtime": (
        TARGET,
        [
            option("host", "--runtime", runtime="host"),
            profile("box", runtime="box"),
            Level("auto", "default"),
        ],
    ),
    "retries": (
        TARGET,
        [
            option(1, "--retries", retries=1),
            profile(3, retries=3),
            Level(0, None),
        ],
    ),
    "steps": (
        TARGET,
        [
            option(25, "--steps", steps=25),
            Level(20, "recipe new"),
        ],
    ),
    "window": (
        TARGET,
        [
            option("5-9", "--window", window="5-9"),
            Level("11-18", "recipe new"),
        ],
    ),
    "recipe": (
        TARGET,
        [
            option("old", "--recipe", recipe="old"),
            Level("new", "newest recipe with this row (the new guide)"),
        ],
    ),
    "walltime_minutes": (
        {**TARGET, "launcher": "batch"},
        [
            variable(20, "BATCH_MINUTES", "20"),
            profile(40, walltime_minutes={"curve": 40}),
            Level(90, "recipe new"),
        ],
    ),
    "tp": (
        TARGET,
        [
            option(2, "--set tp", settings={"tp": "2"}),
            Level(4, NEW),
        ],
    ),
    "settings.seed": (
        TARGET,
        [
            option(4, "--set", settings={"seed": "4"}),
            variable(2, "CURVES_SEED", "2"),
            profile(1, plugin_keys={"curves": {"seed": 1}}),
            Level(0, "default"),
        ],
    ),
    "settings.rate": (
        TARGET,
        [
            option(0.4, "--set", settings={"rate": "0.4"}),
            profile(0.3, plugin_keys={"curves": {"rate": 0.3}}),
            Level(0.1, "default"),
        ],
    ),
    "settings.kernel": (
        TARGET,
        [
            option("plain", "--set", settings={"kernel": "plain"}),
            Level("fused", "recipe row"),
        ],
    ),
    "settings.momentum": (
        TARGET,
        [
            option(0.2, "--set", settings={"momentum": "0.2"}),
            profile(0.7, plugin_keys={"curves": {"momentum": 0.7}}),
            Level(0.5, "recipe new"),
        ],
    ),
    "env.OMP_NUM_THREADS": (
        TARGET,
        [
            option("4", "--env", env={"OMP_NUM_THREADS": "4"}),
            profile("8", env={"OMP_NUM_THREADS": "8"}),
            Level("1", "recipe new"),
        ],
    ),
    "batch.queue": (
        {**TARGET, "launcher": "batch"},
        [
            option("fast", "--batch-queue", plugin_settings={"batch": {"queue": "fast"}}),
            variable("night", "BATCH_QUEUE", "night"),
            profile("day", plugin_keys={"batch": {"queue": "day"}}),
            Level("benchmarks", "recipe new"),
        ],
    ),
}
"""For each value: the rest of the request, and the places that can set the value, the strongest first."""

RUNGS = [(name, rung) for name, (_, levels) in LADDERS.items() for rung in range(len(levels))]


def value_of(spec: RunSpec, name: str) -> Any:
    """The value that `show` prints as `name`."""
    place, dot, key = name.partition(".")
    if not dot:
        return getattr(spec, name) if hasattr(spec, name) else getattr(spec.parallelism, name)
    table: dict[str, Any] = getattr(spec, place) if hasattr(spec, place) else spec.plugin_settings[place]
    return table[key]


@pytest.mark.parametrize(("name", "rung"), RUNGS, ids=[f"{name}-{rung}" for name, rung in RUNGS])
def test_the_strongest_place_that_sets_a_value_decides_and_is_its_origin(name: str, rung: int) -> None:
    """Every weaker place sets another value at the same time."""
    request, levels = LADDERS[name]
    options = dict(request)
    environ: dict[str, str] = {}
    cluster: dict[str, Any] = {}
    for level in reversed(levels[rung:]):
        options |= level.options
        environ |= level.environ
        cluster |= level.cluster
    spec = resolved(environ, cluster or None, **options)
    assert value_of(spec, name) == levels[rung].value
    assert spec.origins.get(name) == levels[rung].origin


def test_a_variable_is_preferred_to_the_profile_for_the_gpu_type_too() -> None:
    """The profile must be for the same type: the origin shows which was read."""
    spec = resolved({"GPU_TYPE": "h100"}, {"gpu_type": "H100"}, size="70b", gpus=64)
    assert (spec.gpu_type, spec.origins["gpu_type"]) == ("h100", "GPU_TYPE")
    assert resolved({}, {"gpu_type": "H100"}, size="70b", gpus=64).origins["gpu_type"] == CLUSTER


def test_an_option_of_the_framework_is_preferred_to_its_variable() -> None:
    chosen = {"plugin_settings": {"curves": {"seed": 3}}}
    spec = resolved({"CURVES_SEED": "2"}, {"plugin_keys": {"curves": {"seed": 1}}}, **TARGET, **chosen)
    assert (spec.settings["seed"], spec.origins["settings.seed"]) == (3, "--curves-seed")
    assert "curves" not in spec.plugin_settings, "the settings of the framework are those of the run"


def test_an_option_and_set_must_not_contradict_each_other() -> None:
    chosen = {"plugin_settings": {"curves": {"seed": 3}}}
    with pytest.raises(UsageError, match=r"^--curves-seed 3 contradicts --set seed=4$"):
        resolved(**TARGET, **chosen, settings={"seed": "4"})
    assert resolved(**TARGET, **chosen, settings={"seed": "3"}).origins["settings.seed"] == "--set"
    spec = resolved({"CURVES_SEED": "2"}, **TARGET, settings={"seed": "4"})
    assert spec.settings["seed"] == 4, "a variable is only a default"


@pytest.mark.parametrize(
    ("options", "minutes", "origin"),
    [
        ({"walltime_minutes": 10}, 10, "--walltime"),
        ({"plugin_settings": {"batch": {"minutes": 0}}}, None, "--batch-minutes"),
        ({"launcher": "local"}, 40, CLUSTER),
    ],
    ids=["option of the run", "no limit", "settings of another launcher"],
)
def test_the_time_limit_of_the_launchers_plugin_is_below_the_option_and_above_the_profile(
    options: dict[str, Any], minutes: int | None, origin: str
) -> None:
    cluster = {"walltime_minutes": {"default": 40}, "plugin_keys": {"batch": {"minutes": 25}}}
    spec = resolved({}, cluster, **{**TARGET, "launcher": "batch", **options})
    assert (spec.walltime_minutes, spec.origins["walltime_minutes"]) == (minutes, origin)


@pytest.mark.parametrize(
    ("environ", "start", "stop"),
    [
        ({"RUN_CONF_PROFILE_START_STEP": "3", "PROFILE_START_STEP": "4"}, 3, 12),
        ({"PROFILE_START_STEP": "4", "PROFILE_STOP_STEP": "6"}, 4, 6),
        ({"RUN_CONF_PROFILE_STOP_STEP": "14"}, 10, 14),
    ],
)
def test_the_recipes_variables_set_the_profiled_steps(environ: dict[str, str], start: int, stop: int) -> None:
    spec = resolved({"ENABLE_PROFILE": "yes", **environ}, **TARGET)
    assert spec.profile is not None and (spec.profile.start, spec.profile.stop) == (start, stop)
    assert spec.origins["profile"] == "ENABLE_PROFILE"
    asked = resolved({"ENABLE_PROFILE": "yes", **environ}, **TARGET, profile_steps="7-9")
    assert asked.profile is not None and (asked.profile.start, asked.profile.stop) == (7, 9), "an option replaces both"


@pytest.mark.parametrize("off", ["false", "0", "No", "off"])
def test_an_option_enables_what_a_variable_disables(off: str) -> None:
    assert resolved({"ENABLE_PROFILE": off}, **TARGET).profile is None
    assert resolved({"ENABLE_PROFILE": off}, **TARGET, profile=True).profile is not None


def test_the_recipes_variables_for_checkpoints_are_read() -> None:
    spec = resolved({"ENABLE_CHECKPOINT": "true", "LOAD_CHECKPOINT_PATH": "/data/Step-5"}, **TARGET)
    assert spec.checkpoint.save and spec.checkpoint.load == "/data/Step-5", "paths keep their case"
    assert spec.origins["checkpoint"] == "ENABLE_CHECKPOINT"
    assert spec.origins["load_checkpoint"] == "LOAD_CHECKPOINT_PATH"
    assert not resolved({"ENABLE_CHECKPOINT": "true"}, **TARGET, checkpoint=False).checkpoint.save


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        ({"JOB_TOTAL_GPUS": "many"}, "JOB_TOTAL_GPUS='many': expected an integer"),
        ({"JOB_TOTAL_GPUS": "0"}, "JOB_TOTAL_GPUS='0': expected an integer >= 1"),
        ({"GPUS_PER_NODE": "0"}, "GPUS_PER_NODE='0': expected an integer >= 1"),
        ({"ENABLE_PROFILE": "maybe"}, "ENABLE_PROFILE='maybe': expected true or false"),
        ({"BATCH_MINUTES": "soon"}, "BATCH_MINUTES='soon': expected an integer"),
        ({"JOB_TOTAL_GPUS": "2000000"}, "JOB_TOTAL_GPUS 2000000: expected at most 1000000"),
    ],
)
def test_a_variable_with_an_invalid_value_is_named(environ: dict[str, str], problem: str) -> None:
    with pytest.raises(UsageError) as refused:
        resolved(environ, size="8b", gpu_type="h100")
    assert str(refused.value) == problem


def test_an_empty_variable_is_not_set() -> None:
    environ = {"JOB_TOTAL_GPUS": "", "GPU_TYPE": " ", "MODEL_SIZE": "", "ENABLE_PROFILE": ""}
    assert resolved(environ) == resolved({})


def test_mounts_and_setup_of_the_profile_come_before_those_of_the_request() -> None:
    cluster = {"mounts": ("/data",), "setup": ("module load x",)}
    spec = resolved({}, cluster, **TARGET, mounts=("/scratch:/tmp:ro",))
    assert spec.mounts == ("/data", "/scratch:/tmp:ro")
    assert (spec.setup, spec.cluster) == (("module load x",), "alps")
    alone = resolved(**TARGET, mounts=("/scratch",))
    assert (alone.mounts, alone.setup, alone.cluster) == (("/scratch",), (), None)
