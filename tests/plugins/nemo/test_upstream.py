"""Upstream's configurations, the differences that a run may have, and the environments of the images' versions."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from llmbx.errors import UsageError
from llmbx.model import ImageSource, RunSpec
from llmbx.testing import resolve_spec
from llmbx_nemo.image_versions import environment_of, image_versions
from llmbx_nemo.upstream import expected, program, upstream, upstream_values

BRIDGE = {"workload": "llama3.1", "size": "8b", "dtype": "fp8", "gpu_type": "h100", "gpus": 8, "recipe": "mbridge"}
NEMO2 = {**BRIDGE, "recipe": "nemo2"}


def spec_of(row: dict[str, Any], **more: Any) -> RunSpec:
    asked = {**row, "launcher": "slurm", **more}
    return resolve_spec(asked.pop("workload"), **asked)


def wrong(spec: RunSpec, run: bool = True, **changes: Any) -> list[str]:
    """Fields that may not differ, if the run trained with upstream's configuration but for `changes`."""
    values = upstream_values(spec)
    assert values
    final = {**values, **{key.replace("__", "."): value for key, value in changes.items()}}
    differences = expected(spec, Path() if run else None).differences(final)
    return [difference.key for difference in differences if difference.reason is None]


def test_a_run_with_upstreams_configuration_has_no_difference() -> None:
    assert wrong(spec_of(BRIDGE)) == wrong(spec_of(NEMO2)) == []
    wanted = expected(spec_of(BRIDGE), None)
    assert wanted.source and "Megatron-Bridge f23d790" in wanted.source


@pytest.mark.parametrize(
    ("row", "changes"),
    [
        (BRIDGE, {"dist__local_rank": 3, "model__gradient_accumulation_fusion": True}),
        (NEMO2, {"callbacks__TQDMProgressBar__class": "x", "strategy__cluster_environment__class": "y"}),
        (
            NEMO2,
            {"connected__config__finalize_model_grads_func": {"callable": "z"}, "strategy__log_memory_usage": True},
        ),
    ],
)
def test_what_the_machine_decides_may_differ_in_a_run_only(row: dict[str, Any], changes: dict[str, Any]) -> None:
    assert wrong(spec_of(row), **changes) == []
    assert len(wrong(spec_of(row), run=False, **changes)) == len(changes)


@pytest.mark.parametrize(("row", "field"), [(BRIDGE, "train__train_iters"), (NEMO2, "trainer__max_steps")])
def test_the_number_of_steps_may_differ_if_the_run_asked_for_it(row: dict[str, Any], field: str) -> None:
    assert wrong(spec_of(row, steps=20), **{field: 20}) == []
    assert wrong(spec_of(row), **{field: 20}) == [field.replace("__", ".")]


def test_another_model_is_a_difference() -> None:
    assert wrong(spec_of(BRIDGE), model__num_layers=1) == ["model.num_layers"]
    assert wrong(spec_of(BRIDGE), checkpoint__save="checkpoints") == ["checkpoint.save"]
    assert wrong(spec_of(BRIDGE, checkpoint=True), checkpoint__save="checkpoints") == []


def test_a_scale_that_upstream_was_not_executed_for_has_no_values() -> None:
    spec = spec_of(BRIDGE, gpus=16)
    assert upstream_values(spec) is None
    assert expected(spec, None).upstream is expected(spec, None).source is None


@pytest.mark.parametrize(
    ("tag", "package"),
    [("nemo:25.09.00", "megatron-bridge==0.1.0rc3"), ("nemo:25.02.01", "nemo-toolkit==2.2.1"),
     ("nemo:26.02.rc1", "megatron-bridge==0.3.0")],
)  # fmt: skip
def test_an_environment_has_the_versions_inside_the_image(tag: str, package: str) -> None:
    image = ImageSource(reference=f"nvcr.io#nvidia/{tag}", source="test")
    found = environment_of(spec_of(BRIDGE).replace(image=image))
    assert package in found.steps[0] and found.base
    assert found.main[0] == package.partition("==")[0] and "torch" in found.main


def test_the_base_is_used_if_it_has_the_versions() -> None:
    image = ImageSource(reference="nvcr.io#nvidia/nemo:25.04.01", source="test")
    assert environment_of(spec_of(NEMO2).replace(image=image)).name == "nemo2-cpu"


def test_an_unknown_image_is_an_error_with_the_known_tags() -> None:
    image = ImageSource(reference="nvcr.io#nvidia/nemo:24.07", source="test")
    with pytest.raises(UsageError, match=r"the versions in the image '.*24\.07' are not known \(known tags: 25\.09, "):
        environment_of(spec_of(BRIDGE).replace(image=image))
    assert len({found.tag for found in image_versions()}) == len(image_versions())


def test_the_program_has_the_specification_and_its_modules() -> None:
    found = program(spec_of(BRIDGE))
    assert found.argv == ("code/configure.py",) and found.argv[0] in found.files
    spec = json.loads(found.files["spec.json"])
    assert spec["size"] == "8b" and spec["published"]["module"] == "megatron.bridge.recipes.llama.llama3_8b"
    assert "code/llmbx/entry/final.py" in found.files


RECIPES = [
    *[("llama3.1", "mbridge"), ("llama3.1", "nemo2"), ("grok1", "nemo2"), ("llama4", "nemo2")],
    *[(name, "bridge-0.6") for name in ("llama3.1", "deepseek-v3", "gpt-oss", "nemotron3", "qwen3")],
]


@pytest.mark.parametrize(("workload", "recipe"), RECIPES)
def test_upstreams_configuration_states_what_the_catalog_asks_for(workload: str, recipe: str) -> None:
    """The checks compare these facts of a run's configuration with the specification: a wrong key would fail a run."""
    executed = upstream(workload, recipe)
    assert executed
    for key in executed["configurations"]:
        size, dtype, gpu_type, gpus = key.split("/")
        request = {"workload": workload, "recipe": recipe, "size": size, "dtype": dtype, "gpu_type": gpu_type}
        assert_facts(spec_of({**request, "gpus": int(gpus)}))


def assert_facts(spec: RunSpec) -> None:
    values, facts = upstream_values(spec), expected(spec, Path()).facts
    assert values
    stated = {name: [values.get(key) for key in keys] for name, keys in facts.items()}
    of_the_run = {
        "world_size": spec.gpus,
        "global_batch_size": spec.global_batch_size,
        "micro_batch_size": spec.micro_batch_size,
    }
    shape = spec.model.replace(head_width=spec.model.head_width or spec.model.hidden_size // spec.model.heads)
    wanted = {name: of_the_run.get(name) or getattr(shape, name) or 0 for name in facts}
    unstated = {"vocab_size", "experts", "mtp_layers"}  # the tokenizer's; None in a model without experts
    left_out = [name for name in unstated if stated[name] == [None]]
    assert {"layers", "hidden_size", "heads", "query_groups", "ffn_hidden_size", "sequence_length"} <= stated.keys()
    assert {name: math.prod(factors) for name, factors in stated.items() if name not in left_out} == {
        name: value for name, value in wanted.items() if name not in left_out
    }
    assert spec.model.experts is None or "experts" not in left_out
    assert not spec.model.mtp_layers or "mtp_layers" not in left_out
