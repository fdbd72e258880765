"""Conditions of --where are SQL, with the answers of Python for known values; everything else is rejected."""

from __future__ import annotations

import contextlib
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
texts = st.builds("{} {} {}".format, st.sampled_from([*TEXTS]), st.sampled_from(["==", "!="]),
                  st.sampled_from(["'8b'", "'bf16'", '"it\'s"']))  # fmt: skip
lists = st.builds("{} {} {}".format, st.sampled_from([*NAMES]), st.sampled_from(["in", "not in"]),
                  st.sampled_from(["(1, 2)", "(0.5, 8, 2)", "()"]))  # fmt: skip
conditions = st.recursive(
    compared | texts | lists,
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
def test_a_condition_has_the_answer_of_python(text: str, known: tuple[Any, ...], words: tuple[str, str]) -> None:
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
        ("size in ('8b', '70b')", True),
        ("size IN ('8b') OR size LIKE '7%' AND NOT gpus BETWEEN 8 AND 63", True),
        ("steps_seen between 10 and 50 and gpus <> 8", True),
        ("created between '2026-11-01' and '2026-11-30' and size = '70b'", True),
        ("'2026-11-01' > created or created in ('2026-11-02')", False),
        ("cause is null and exit_code = NULL and mfu is not 0.5", True),
        ("mfu < 0.5", False),
        ("not mfu < 0.5", False),
        ("mfu not in (0.5)", False),
        ("status != 'completed'", True),
        ("'NCCL' not in cause", True),
        ("not 'NCCL' in cause", True),
        ("traced", False),
        ("not traced", True),
        ("traced is null", True),
        ("data_valid = true and profiled != TRUE", True),
        ('size == "70b"', True),
        ("cause != 'it''s'", True),
        ("1 / 2 = 0.5 and 7 / 2 / 2 > 1.7 and 8 - 6 / 4 = 6.5", True),
        ("gpus % 60 = 4", True),
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
        ('workload == "size"', "\"size\" is a column: write size, or 'size' for the string"),
        ("size == 8b", "unexpected '8b': a string needs quotes"),
        ("size == '8b", "the closing quote is missing"),
        ("size in ['8b']", "write a list in parentheses"),
        ("gpus > 8 && gpus < 9", "use AND and OR to combine"),
        ("gpus > 8 || gpus < 9", "use AND and OR to combine"),
        ("1 < gpus <= 64", "`1 < gpus <= 64` compares twice: write `8 <= gpus AND gpus < 64`"),
        ("gpus = 8 = 8", "compares twice"),
        ("gpus > '8'", "`gpus > '8'` compares a string with a number"),
        ("gpus in (8, '16')", "compares a string with a number"),
        ("workload < 3", "compares a string with a number"),
        ("gpus < None", "`gpus < None` is never true: only =, !=, IS and IS NOT compare with NULL"),
        ("cause in ('x', NULL)", "is never true: only =, !="),
        ("created > size", "`created > size` compares a string with a number"),
        ("gpus", "`gpus` is not a condition: compare it with a value"),
        ("created or gpus > 1", "`created` is not a condition: compare it with a value"),
        ("data_valid and 'x'", "`'x'` is not a condition"),
        ("'a' in gpus", "`'a' in gpus`: expected a string, IN, and a list in parentheses, tags or a text column"),
        ("gpus in cause", "`gpus in cause`: expected a string"),
        ("created > 'yesterday'", "expected a date (2026-11-20)"),
        ("tags == 'x'", "tags cannot be compared: use `'accepted' IN tags`"),
        ("tags LIKE '%x%'", "tags cannot be compared"),
        ("gpus >", "SQLite cannot parse it: incomplete input"),
        ("(gpus > 8", "SQLite cannot parse it: incomplete input"),
        ("gpus > 8)", 'SQLite cannot parse it: near ")": syntax error'),
        ("", "SQLite cannot parse it"),
        ("gpus = '\ud800' or size = '\ud800'", "--where: "),
        ("(" * 300 + "gpus" + ")" * 300 + " > 1", "parser stack overflow"),
        ("not " * 390 + "data_valid", "parser stack overflow"),
        ("gpus > 1 or " * 300 + "gpus > 1", "longer than 2000 characters"),
    ],
)
def test_an_invalid_condition_is_reported(text: str, why: str) -> None:
    with pytest.raises(UsageError) as error:
        condition(text)
    assert why in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "gpus > 1) or (gpus > 1",
        "gpus > 1; DELETE FROM runs",
        "gpus > 1 -- comment",
        "gpus > 1 /* mfu */ > 0",
        "gpus in (SELECT id FROM documents)",
        "gpus > (WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n)",
        "gpus > 1 UNION SELECT text FROM documents",
        "gpus in sqlite_master",
        "length(randomblob(1e9)) > 1",
        "printf('%1000000000d', 1) = size",
        "load_extension('x.so')",
        "readfile('/etc/passwd') = size",
        "size MATCH 'x'",
        "size REGEXP 'x'",
        "[text] = 'x'",
        "`text` = 'x'",
        "x'00' = size",
        "?1 = size",
        ":a = size",
        "rowid = 1",
        "folder = 'x'",
        "__import__('os').system('true')",
        "gpus.__class__ == 3",
        "[gpus for gpus in tags]",
    ],
)
def test_only_columns_literals_and_operators_reach_the_database(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--where: "):
        condition(text)


@given(conditions)
def test_a_condition_only_reads_its_columns(text: str) -> None:
    """What SQLite prepares for any accepted condition: one SELECT, and no function but those of LIKE, GLOB and IN."""
    actions = set()

    def authorize(action: int, name: str | None, function: str | None, *_: object) -> int:
        actions.add((action, function if action == sqlite3.SQLITE_FUNCTION else name))
        return sqlite3.SQLITE_OK

    sql, bound = condition(f"({text}) and ('a' in tags or size like 'a%' or size glob 'a*')")
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.execute(f"CREATE TABLE runs ({', '.join(map(quoted, COLUMNS))})")
        db.set_authorizer(authorize)
        db.execute(f"SELECT 1 FROM runs WHERE {sql}", bound)
    functions = {(sqlite3.SQLITE_FUNCTION, name) for name in ("coalesce", "instr", "like", "glob")}
    assert actions <= {(sqlite3.SQLITE_SELECT, None), (sqlite3.SQLITE_READ, "runs"), *functions}


@pytest.mark.parametrize(
    ("repeated", "rest", "first"),
    [("(", "gpus{close} > 1", 80), ("not ", "data_valid", 80), ("- ", "1 < gpus", 80), ("1+", "1 < gpus", 970)],
)
def test_a_condition_that_is_accepted_fits_into_every_query(repeated: str, rest: str, first: int) -> None:
    """SQLite limits the depth of a statement, and a query nests the condition in others."""
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.execute(f"CREATE TABLE runs (number, {', '.join(map(quoted, COLUMNS))})")
        with pytest.raises(UsageError, match=r"overflow|too large|longer"):
            for depth in range(first, 2000):
                sql, bound = condition(repeated * depth + rest.format(close=")" * depth))
                query = (
                    f'SELECT id FROM runs WHERE id IN (1) AND "created" >= 1 AND "created" < 9 AND {sql} ORDER BY id'
                )
                db.execute(f"SELECT (SELECT 1 FROM runs WHERE runs.id = found.id) FROM ({query}) AS found", bound)


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
               "window.excluded", "checks", "profilers", "digest"}  # fmt: skip
    several |= {f"expected.{name}.level" for name in ("step_time_s", "tokens_per_s_per_gpu", "memory_gb")}
    assert set(leaves(result)) - several <= set(COLUMNS)
