"""`--set`: types, aliases, suggestions."""

from __future__ import annotations

import pytest

from llmbx.config.settings import read_settings
from llmbx.errors import UsageError
from llmbx.model import Setting, Workload

WORKLOAD = Workload(
    name="w",
    title="W",
    folder="w",
    sizes={},
    recipes=(),
    settings={
        "lr": Setting(default=1e-3, help="rate"),
        "seed": Setting(default=1, help="seed"),
        "overlap": Setting(default=False, help="switch"),
        "fp8_recipe": Setting(default="cs", help="recipe", choices=("cs", "mx")),
        "clip": Setting(default=1.0, help="clip", optional=True),
    },
)


def test_types_follow_the_declaration() -> None:
    pairs = {
        "tp": "2",
        "lr": "3e-4",
        "seed": "7",
        "overlap": "true",
        "fp8_recipe": "mx",
        "fsdp": "true",
        "clip": "none",
    }
    assert read_settings(pairs, WORKLOAD) == {
        "tp": 2, "lr": 3e-4, "seed": 7, "overlap": True, "fp8_recipe": "mx", "fsdp": True, "clip": None,
    }  # fmt: skip


def test_long_names_and_letters_are_the_same_key() -> None:
    assert read_settings({"SEQ": "64"}, WORKLOAD) == {"sequence_length": 64}
    assert read_settings({"global_batch_size": "8"}, WORKLOAD) == read_settings({"GBS": "8"}, WORKLOAD) == {"gbs": 8}


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("sed", "1", "did you mean 'seed'"),
        ("fp8_recipe", "mxx", "did you mean 'mx'"),
        ("tp", "two", "expected an integer"),
        ("lr", "fast", "expected a number"),
        ("lr", "nan", "--set lr=nan: expected a finite number"),
        ("clip", "-inf", "expected a finite number"),
        ("gbs", "-4", "expected an integer >= 0"),
        ("cg", "maybe", "expected an integer"),
    ],
)
def test_errors_of_invalid_values(key: str, value: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_settings({key: value}, WORKLOAD)
