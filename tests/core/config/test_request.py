"""The recipes' environment variables and `key=value` options."""

from __future__ import annotations

import pytest

from llmbx.config.request import Request, parse_pairs
from llmbx.errors import UsageError


def test_the_recipes_variables_are_understood() -> None:
    environ = {
        "JOB_TOTAL_GPUS": "128",
        "GPU_TYPE": "GB200",
        "DTYPE": "fp8",
        "MODEL_SIZE": "405b",
        "GPUS_PER_NODE": "4",
        "ENABLE_PROFILE": "true",
        "RUN_CONF_PROFILE_START_STEP": "20",
        "PROFILE_STOP_STEP": "25",
        "LOAD_CHECKPOINT_PATH": "/some/Where",
    }
    found = {field: value for field, (value, _) in Request.from_environ(environ).items()}
    assert found == {
        "gpus": 128, "gpu_type": "gb200", "dtype": "fp8", "size": "405b", "gpus_per_node": 4, "profile": True,
        "profile_start": 20, "profile_stop": 25, "load_checkpoint": "/some/Where",
    }  # fmt: skip


def test_the_prefixed_name_wins_and_is_the_origin() -> None:
    environ = {"RUN_CONF_PROFILE_START_STEP": "1", "PROFILE_START_STEP": "2"}
    assert Request.from_environ(environ)["profile_start"] == (1, "RUN_CONF_PROFILE_START_STEP")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("JOB_TOTAL_GPUS", "many", "expected an integer"),
        ("JOB_TOTAL_GPUS", "0", "expected an integer >= 1"),
        ("GPUS_PER_NODE", "-4", "expected an integer >= 1"),
        ("ENABLE_PROFILE", "perhaps", "expected true or false"),
    ],
)
def test_an_unreadable_variable_is_named(name: str, value: str, said: str) -> None:
    with pytest.raises(UsageError, match=f"{name}.*{said}"):
        Request.from_environ({name: value})


def test_pairs_keep_everything_after_the_first_equals_sign() -> None:
    assert parse_pairs("--env", ("A=b=c d", "E=")) == {"A": "b=c d", "E": ""}


@pytest.mark.parametrize(("pairs", "said"), [(("novalue",), "expected KEY=VALUE"), (("A=1", "A=2"), "set twice")])
def test_malformed_pairs_are_refused(pairs: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_pairs("--set", pairs)
