"""The shipped JSON Schema matches the results that the code writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import resources
from typing import Any

import jsonschema
import msgspec
import pytest

from llmbx.codec import decode
from llmbx.model import Peak, Result, RunSpec
from llmbx.model.result import MeasureFacts
from llmbx.record.folder import decode_record

SCHEMA = resources.files("llmbx") / "data/result.schema.json"


def generate() -> dict[str, Any]:
    """The schema of the results that the code writes; every field of every object is required."""
    (reference,), definitions = msgspec.json.schema_components([Result], ref_template="#/$defs/{name}")
    for definition in definitions.values():
        definition["required"] = sorted(definition.get("properties", {}))
        definition["additionalProperties"] = False
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "llmbx result, schema version 1",
        **reference,
        "$defs": definitions,
    }


def test_the_shipped_schema_is_up_to_date() -> None:
    assert json.loads(SCHEMA.read_bytes()) == json.loads(msgspec.json.encode(generate()))


def test_the_objects_are_always_there_and_their_members_may_be_null() -> None:
    result = json.loads(msgspec.json.encode(Result(run_id="x_1", status="lost", data_valid=False)))
    jsonschema.validate(result, json.loads(SCHEMA.read_bytes()))
    for name in (
        "workload",
        "window",
        "step_time_s",
        "stability",
        "tflops_per_gpu",
        "mfu",
        "loss",
        "image",
        "flops_per_sample",
        "timing",
    ):
        assert isinstance(result[name], dict), name
        del result[name]
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(result, json.loads(SCHEMA.read_bytes()))
        result[name] = json.loads(msgspec.json.encode(Result(run_id="x_1", status="lost", data_valid=False)))[name]


def test_measures_follow_the_schema() -> None:
    images = MeasureFacts(unit="images", kind="count", mean=2.0, steps=8, per_second=1.0)
    result = Result(run_id="x_1", status="completed", data_valid=True, measures={"images": images})
    written = json.loads(msgspec.json.encode(result))
    jsonschema.validate(written, json.loads(SCHEMA.read_bytes()))
    written["measures"]["images"]["kind"] = "sum"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(written, json.loads(SCHEMA.read_bytes()))


def test_nan_becomes_null() -> None:
    assert msgspec.json.encode(float("nan")) == b"null"


def test_an_unknown_status_or_member_is_refused() -> None:
    result = json.loads(msgspec.json.encode(Result(run_id="x_1", status="lost", data_valid=False)))
    for change in ({"status": "passed"}, {"surprise": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**result, **change}, json.loads(SCHEMA.read_bytes()))


@pytest.mark.parametrize(("version", "age"), [(0, "an older"), (2, "a newer")])
def test_a_result_of_another_version_is_refused_whatever_it_has(version: int, age: str) -> None:
    result = json.loads(msgspec.json.encode(Result(run_id="x_1", status="completed", data_valid=True)))
    assert decode_record(json.dumps(result).encode(), Result).run_id == "x_1"
    for members in ({}, {"surprise": 1}):
        with pytest.raises(msgspec.ValidationError, match=f"schema version {version} of {age} llmbx, expected 1"):
            decode_record(json.dumps({**result, "schema_version": version, **members}).encode(), Result)


@pytest.mark.parametrize("tflops", [0, -1.0, "NaN"])
def test_a_record_with_an_impossible_peak_is_refused(tflops: object) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.tflops"):
        decode(json.dumps({"tflops": tflops, "name": "h100 bf16", "source": "llmbx.toml"}).encode(), Peak)


@pytest.mark.parametrize("field", ["gpus", "gpus_per_node", "micro_batch_size", "global_batch_size", "steps"])
def test_a_record_of_a_run_without_gpus_samples_or_steps_is_refused(
    make_spec: Callable[..., RunSpec], field: str
) -> None:
    spec = make_spec()
    written = json.loads(msgspec.json.encode(spec))
    assert decode(json.dumps(written).encode(), RunSpec) == spec
    written[field] = 0
    with pytest.raises(msgspec.ValidationError, match=rf"`int` >= 1 - at `\$\.{field}`"):
        decode(json.dumps(written).encode(), RunSpec)
