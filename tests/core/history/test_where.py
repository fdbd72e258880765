"""Conditions of --where have the meaning they have in Python; everything else is rejected."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx.errors import UsageError
from llmbx.history.columns import COLUMNS
from llmbx.history.index import quoted
from llmbx.history.where import condition

NAMES = {"gpus": "workload.gpus", "steps_seen": "steps_seen", "mfu": "mfu.value"}
TEXTS = {"size": "workload.size", "dtype": "workload.dtype"}


def true_for(text: str, **values: Any) -> bool:
    """Whether SQLite matches the condition for a run with these values (by column)."""
    sql, bound = condition(text)
    row = ", ".join(f"? AS {quoted(name)}" for name in COLUMNS)
    known = [values.get(name) for name in COLUMNS]
    with sqlite3.connect(":memory:") as db:
        answer = db.execute(f"SELECT 1 FROM (SELECT {row}) WHERE {sql}", [*known, *bound]).fetchone()
    db.close()
    return answer is not None


numbers = st.sampled_from([*NAMES, "0", "1", "2.5", "8"])
sums = st.recursive(
    numbers, lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*"]), inner), max_leaves=4
)
signs = st.sampled_from(["<", "<=", "==", "!=", ">", ">="])
compared = st.builds("{} {} {}".format, sums, signs, sums)
chained = st.builds("{} {} {} {} {}".format, sums, signs, sums, signs, sums)
texts = st.builds("{} {} {}".format, st.sampled_from([*TEXTS]), st.sampled_from(["==", "!="]),
                  st.sampled_from(["'8b'", "'bf16'", '"it\'s"']))  # fmt: skip
lists = st.builds("{} {} {}".format, st.sampled_from([*NAMES]), st.sampled_from(["in", "not in"]),
                  st.sampled_from(["(1, 2)", "[8]", "()"]))  # fmt: skip
conditions = st.recursive(
    compared | chained | texts | lists,
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(["and", "or"]), inner)
        | st.builds("(not {})".format, inner)
    ),
    max_leaves=6,
)


@given(
    conditions,
    st.tuples(st.integers(0, 9), st.integers(0, 9), st.floats(0, 4)),
    st.tuples(st.sampled_from(["8b", "x"]), st.sampled_from(["bf16", "it's"])),
)
def test_a_condition_means_what_python_means(text: str, known: tuple[Any, ...], words: tuple[str, str]) -> None:
    values = dict(zip((*NAMES, *TEXTS), (*known, *words), strict=True))
    columns = {{**NAMES, **TEXTS}[name]: value for name, value in values.items()}
    assert true_for(text, **columns) is bool(eval(text, {}, values))


@given(st.text(max_size=80) | st.text(alphabet="()[]'\"=<> andortin0.5gpus-+*/;,:", max_size=80))
def test_any_text_is_a_condition_or_a_clear_error(text: str) -> None:
    try:
        true_for(text)
    except UsageError as error:
        assert str(error).startswith("--where: ") and "\n" not in str(error)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("step_time_s.mean < 8 and gpus >= 64", True),
        ("step_time_s < 8 and gpus >= 65", False),
        ("'accepted' in tags", True),
        ("'accept' in tags", False),
        ("'accepted' not in tags", False),
        ("'spot' not in tags", True),
        ("mfu.value > 0.3", False),
        ("not mfu.value > 0.3", True),
        ("mfu.value == None", True),
        ("mfu.value is not None", False),
        ("exit_code != 0", True),
        ("data_valid", True),
        ("not data_valid", False),
        ("profiled == False", True),
        ("cause == None or 'NCCL' in cause", True),
        ("created >= '2026-11-01' and created < '2026-11-30'", True),
        ("created < '2026-11-01'", False),
        ("gpus / 128 > 0.4", True),
        ("gpus / (gpus - gpus) > 0", False),
        ("1 < steps_seen <= 50", True),
        ("size in ('8b', '70b')", True),
    ],
)
def test_conditions_on_a_run(text: str, right: bool) -> None:
    run = {
        "step_time_s.mean": 7.5, "workload.gpus": 64, "tags": " nightly accepted ", "data_valid": 1, "profiled": 0,
        "created": 1_795_000_000.0, "steps_seen": 50, "workload.size": "70b",
    }  # fmt: skip
    assert true_for(text, **run) is right


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("step_tme_s < 8", "no column named 'step_tme_s' (did you mean 'step_time_s'?)"),
        ("workload == grok1", "no column named 'grok1'"),
        ("workload == grok1", "a string needs quotes: 'grok1'"),
        ("gpus = 8", "use == for equality"),
        ("gpus > 8 && gpus < 9", "use `and` and `or` to combine"),
        ("gpus > '8'", "gpus and '8' cannot be compared: one is a number, the other a string"),
        ("workload < 3", "one is a string, the other a number"),
        ("__import__('os').system('true')", "is not supported"),
        ("gpus.__class__ == 3", "no column named 'gpus.__class__'"),
        ("[gpus for gpus in tags]", "is not supported"),
        ("gpus if gpus else 1", "is not supported"),
        ("gpus", "is not a condition: compare it with a value"),
        ("gpus < None", "None has no order: use == or !="),
        ("'a' in gpus", "`in` cannot search `gpus`"),
        ("created > 'yesterday'", "expected a date (2026-11-20)"),
        ("tags == 'x'", "tags cannot be compared: use `'accepted' in tags`"),
        ("", "--where: "),
        ("(" * 300 + "gpus" + ")" * 300 + " > 1", "--where: "),
        ("not " * 390 + "data_valid", "--where: more than 400 terms"),
        ("gpus > 1 or " * 300 + "gpus > 1", "longer than 2000 characters"),
    ],
)
def test_an_invalid_condition_is_reported(text: str, why: str) -> None:
    with pytest.raises(UsageError) as error:
        condition(text)
    assert why in str(error.value)


def test_every_member_of_a_result_that_is_one_value_is_a_column() -> None:
    import msgspec

    from llmbx.model import Parallelism, Result
    from llmbx.model.result import WorkloadFacts

    def leaves(value: Any, prefix: str = "") -> list[str]:
        found = []
        for name in value.__struct_fields__:
            member = getattr(value, name)
            found += leaves(member, f"{prefix}{name}.") if isinstance(member, msgspec.Struct) else [prefix + name]
        return found

    result = Result(run_id="x", status="failed", data_valid=False, workload=WorkloadFacts(parallelism=Parallelism()))
    several = {"schema_version", "versions", "warnings", "not_comparable_because", "phase_step_time_s",
               "window.excluded"}  # fmt: skip
    assert set(leaves(result)) - several <= set(COLUMNS)
