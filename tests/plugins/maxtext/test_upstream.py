"""Final configurations: what llmbx asks MaxText for is what upstream's launch does, and what a run trained with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmbx.model import ExpectedConfiguration, RunSpec
from llmbx_maxtext.configuration import expected, program, requested
from llmbx_maxtext.releases import release_of
from llmbx_maxtext.upstream import upstream_of
from llmbx_maxtext.workloads import workloads

Spec = Callable[..., RunSpec]
HERE = Path()

BEHIND = {
    "remat policy": {"remat_policy": "minimal"},
    "attention": {"attention": "flash"},
    "quantization": {"quantization": "fp8"},
    "batch": {"per_device_batch_size": 1, "global_batch_size_to_train_on": 64},
    "mesh": {"ici_fsdp_parallelism": 4, "ici_tensor_parallelism": 2},
    "dataset": {"dataset_type": "tfds"},
}


def recorded(spec: RunSpec) -> dict[str, Any]:
    """A run's final configuration: that of upstream's measured phase, with the run's own names."""
    values = expected(spec, HERE).upstream
    assert values is not None
    return {**values, "run_name": spec.experiment, "jax_cache_dir": "", "profiler": ""}


def differing(asked: ExpectedConfiguration, final: dict[str, Any]) -> set[str]:
    return {difference.key for difference in asked.differences(final) if difference.reason is None}


@pytest.mark.parametrize("what", BEHIND)
def test_what_is_changed_behind_llmbxs_back_is_found(cluster: Spec, what: str) -> None:
    spec = cluster("bf16", 64)
    final, asked = recorded(spec), expected(spec, HERE)
    assert differing(asked, final) == set()
    assert differing(asked, {**final, **BEHIND[what]}) == set(BEHIND[what])


@pytest.mark.parametrize("what", BEHIND)
def test_and_without_upstreams_configuration_too(spec: Spec, what: str) -> None:
    """A run that nobody published is compared with its own arguments; facts are compared by the checks."""
    run = spec("mixtral", gpus=2)
    asked = expected(run, HERE)
    assert asked.upstream is None and asked.requested == requested(run)
    final = {**asked.requested, "global_batch_size_to_train_on": run.global_batch_size, "more": 1}
    assert differing(asked, final) == set()
    changed = (
        {**BEHIND[what], "attention": "flash", "remat_policy": "minimal"}
        if what in ("attention", "remat policy")
        else BEHIND[what]
    )
    assert differing(asked, {**final, **changed}) == {*changed} & asked.requested.keys() != set()


def test_names_folders_and_another_number_of_steps_are_permitted(cluster: Spec) -> None:
    spec = cluster("bf16", 64, steps=20)
    final = {**recorded(spec), "steps": 20, "learning_rate_schedule_steps": 20, "metrics_dir": "elsewhere"}
    assert differing(expected(spec, HERE), final) == set()
    assert differing(expected(cluster("bf16", 64), HERE), final) == {"steps", "learning_rate_schedule_steps"}


def test_a_row_that_was_changed_or_scaled_is_not_compared_with_upstreams(cluster: Spec) -> None:
    assert expected(cluster("bf16", 192), HERE).upstream is None
    asked = expected(cluster("bf16", 64, settings={"remat_policy": "full"}), HERE)
    assert "remat_policy" in differing(asked, {**recorded(cluster("bf16", 64)), "remat_policy": "full"})


def test_the_launch_takes_no_gpu_type(cluster: Spec) -> None:
    assert expected(cluster("bf16", 64, "a100"), None).upstream == expected(cluster("bf16", 64), None).upstream


def test_with_the_measured_phase_profiled_it_is_upstreams(cluster: Spec) -> None:
    profiler = {"profiler", "profiler_steps", "skip_first_n_steps_for_profiler"}
    for setting, left in (("false", profiler), ("true", set())):
        spec = cluster("fp8", 512, settings={"profile_measured": setting})
        final = built(spec)
        different = {difference.key for difference in expected(spec, None).differences(final)}
        assert different & profiler == left and not {f"collect.{key}" for key in profiler} & different


def built(spec: RunSpec) -> dict[str, Any]:
    """What `catalog diff` compares for a release that is not a package."""
    import json

    made = program(spec)
    assert made.argv == ()
    values: dict[str, Any] = json.loads(made.files["configs/final.json"])["final"]
    return values


def test_a_value_that_neither_base_nor_upstream_has_is_a_difference(cluster: Spec) -> None:
    spec = cluster("bf16", 64, settings={"extra": "adam_b1=0.8 enable_dropout=false"})
    assert differing(expected(spec, None), built(spec)) == {
        "adam_b1",
        "enable_dropout",
        "collect.adam_b1",
        "collect.enable_dropout",
    }


def test_every_published_row_has_upstreams_configuration(spec: Spec) -> None:
    for workload in workloads():
        for recipe in (recipe for recipe in workload.recipes if recipe.source != "llmbx"):
            for row in recipe.rows:
                run = spec(
                    workload.name, size=row.size, dtype=row.dtypes[0], gpu_type=row.gpu_types[0],
                    gpus=int(row.gpus[-1].split("-")[-1]), recipe=recipe.name,
                )  # fmt: skip
                content = upstream_of(run, release_of(run))
                assert content is not None and content.values(run) is not None, run.configuration_key
