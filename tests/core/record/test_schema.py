"""The shipped JSON Schema matches the results that the code writes."""

from __future__ import annotations

import json
from collections.abc import Callable

import jsonschema
import msgspec
import pytest

from llmbx.codec import decode
from llmbx.model import Result, RunSpec
from llmbx.model.result import MeasureFacts
from llmbx.record.folder import decode_any
from llmbx.record.schema import generate, shipped


def test_the_shipped_schema_is_up_to_date() -> None:
    assert shipped() == json.loads(msgspec.json.encode(generate()))


def test_the_objects_are_always_there_and_their_members_may_be_null() -> None:
    result = json.loads(msgspec.json.encode(Result(run_id="x_1", status="lost", data_valid=False)))
    jsonschema.validate(result, shipped())
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
            jsonschema.validate(result, shipped())
        result[name] = json.loads(msgspec.json.encode(Result(run_id="x_1", status="lost", data_valid=False)))[name]


def test_a_result_of_before_the_measures_has_none() -> None:
    older = json.loads(msgspec.json.encode(Result(run_id="x_1", status="completed", data_valid=True)))
    del older["measures"]
    assert decode_any(json.dumps(older).encode(), Result).measures == {}


def test_measures_follow_the_schema() -> None:
    images = MeasureFacts(unit="images", kind="count", mean=2.0, steps=8, per_second=1.0)
    result = Result(run_id="x_1", status="completed", data_valid=True, measures={"images": images})
    written = json.loads(msgspec.json.encode(result))
    jsonschema.validate(written, shipped())
    written["measures"]["images"]["kind"] = "sum"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(written, shipped())


def test_nan_becomes_null() -> None:
    assert msgspec.json.encode(float("nan")) == b"null"


def test_an_unknown_status_or_member_is_refused() -> None:
    result = json.loads(msgspec.json.encode(Result(run_id="x_1", status="lost", data_valid=False)))
    for change in ({"status": "passed"}, {"surprise": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**result, **change}, shipped())


def test_a_result_of_before_the_stability_is_read_without_a_verdict() -> None:
    older = json.loads(msgspec.json.encode(Result(run_id="x_1", status="completed", data_valid=True)))
    del older["stability"]
    read = decode_any(json.dumps(older).encode(), Result)
    assert (read.run_id, read.stability.verdict, read.stability.reason) == ("x_1", None, None)


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
