"""Conditions of --where are SQL, with the answers of Python for known values, and read the columns of runs only."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx.errors import UsageError
from llmbx_history.columns import COLUMNS, quoted
from llmbx_history.timespec import add_times
from llmbx_history.where import condition

NAMES = {"gpus": "workload.gpus", "steps_seen": "steps_seen", "mfu": "mfu.value"}
TEXTS = {"size": "workload.size", "dtype": "workload.dtype"}


def true_for(text: str, **values: Any) -> bool:
    """Whether SQLite matches the condition for a run with these values (by column)."""
    row = ", ".join(f"? AS {quoted(name)}" for name in COLUMNS)
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        add_times(db)
        query = f"SELECT 1 FROM (SELECT {row}) WHERE {condition(text)}"
        return db.execute(query, [values.get(name) for name in COLUMNS]).fetchone() is not None


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
        ("not traced", False),
        ("traced is null", True),
        ("data_valid = true and profiled != TRUE", True),
        ('size == "70b"', True),
        ("cause != 'it''s'", True),
        ("1 / 2 = 0.5 and 7 / 2 / 2 > 1.7 and 8 - 6 / 4 = 6.5", True),
        ("gpus % 60 = 4", True),
        ("gpus = '64' and size = 70 OR gpus > ' 63.5 '", True),
        ("gpus in (8, '64') and job_id = 4711", True),
        ("tags = 'nightly accepted' and tags LIKE '%cept%'", True),
        ("'9999d' < created and created <= 1795000000", True),
        ("created BETWEEN '2026-11-18' AND '2026-11-19 13:00+00:00' and created = 1795000000", True),
        ("created NOT IN ('2026-11-02')", True),
        ("lower(upper(size)) = '70b' and coalesce(mfu, 1) = 1 and length(tags) > 5", True),
        ("CASE WHEN gpus < 8 THEN mfu > 1 ELSE steps_seen > 49 END", True),
        ("not data_valid or (traced) or not (not profiled)", False),
        ('"workload.size" = "70b" and "step_time_s.mean" < 8', True),
        ("traced = None and traced IS NULL and NOT traced IS NOT NULL", True),
        ("size = '70b' -- the large one", True),
        ("cause = 'gpus = \"x\"' or status is null", True),
        ("STATUS is null and Job_Id is not null", True),
    ],
)
def test_conditions_on_a_run(text: str, right: bool) -> None:
    run = {
        "step_time_s.mean": 7.5, "workload.gpus": 64, "tags": " nightly accepted ", "data_valid": 1, "profiled": 0,
        "created": 1_795_000_000.0, "steps_seen": 50, "workload.size": "70b", "job_id": "4711",
    }  # fmt: skip
    assert true_for(text, **run) is right


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("step_tme_s < 8", "no column named 'step_tme_s' (did you mean 'step_time_s'?)"),
        ("workload == grok1", "no column named 'grok1'"),
        ("workload == grok1", "a string needs quotes: 'grok1'"),
        ("size == 8b", 'SQLite rejects it: unrecognized token: "8b"'),
        ("size == '8b", """SQLite rejects it: unrecognized token: "'8b\""""),
        ("size in ['8b']", "SQLite rejects it: no such table: '8b'"),
        ("gpus > 8 && gpus < 9", "compares twice: write `8 <= gpus AND gpus < 64`"),
        ("gpus > 8 || gpus < 9", "compares twice: write `8 <= gpus AND gpus < 64`"),
        ("1 < gpus <= 64", "`1 < gpus <= 64` compares twice: write `8 <= gpus AND gpus < 64`"),
        ("gpus = 8 = 8", "compares twice"),
        ("step_time_s < '8 s'", "step_time_s is not text, and is compared with '8 s'"),
        ("data_valid = 'true'", "data_valid is not text, and is compared with 'true'"),
        ("created > size", "--where 'workload.size': expected a date (2026-11-20)"),
        ("'a' in gpus", "`'a' in gpus`: expected a string, IN, and a list in parentheses, tags or a text column"),
        ("'a' in sizes", "no column named 'sizes' (did you mean 'size'?)"),
        ("gpus in cause", "SQLite rejects it"),
        ("created > 'yesterday'", "expected a date (2026-11-20)"),
        ("gpus > 1 or 'yesterday' < created", "expected a date (2026-11-20)"),
        ("gpus >", "SQLite rejects it: incomplete input"),
        ("(gpus > 8", "SQLite rejects it: incomplete input"),
        ("gpus > 8)", 'SQLite rejects it: near ")": syntax error'),
        ("", "SQLite rejects it"),
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
        "gpus > 1; --",
        "gpus > 1 /*",
        "gpus > 1 LIMIT 1",
        "gpus > 1 ORDER BY folder",
        "1), (2",
        "1) FROM runs WHERE (1",
        "exists (select 1)",
        "gpus in (VALUES (1), (2))",
        "gpus in (SELECT gpus FROM runs)",
        "'x' in json_each('[]')",
        "json_each('[1]') = 1",
        "gpus > 1 and readfile('x')",
        "zeroblob(1000000000) is null",
        "replace(hex(randomblob(1000)), '0', 'x') = size",
        "group_concat(size) = 'x'",
        "sum(gpus) > 1",
        "row_number() over () = 1",
        "raise(abort, 'x')",
        "pragma_table_info('runs') = 1",
        "sqlite_version() = size",
        "writefile('x', 'y') = 1",
        "PRAGMA writable_schema = 1",
        "ATTACH 'x' AS y",
        "main.sqlite_master.name = 'x'",
        "runs.folder = 'x'",
        "main.runs.path = 'x'",
        "_rowid_ = 1",
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
        "?1 = size",
        ":a = size",
        "rowid = 1",
        "folder = 'x'",
        "__import__('os').system('true')",
        "gpus.__class__ == 3",
        "[gpus for gpus in tags]",
    ],
)
def test_a_condition_is_one_expression_over_documented_columns(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--where: "):
        condition(text)


@pytest.mark.parametrize(
    ("repeated", "rest", "first"),
    [("(", "gpus{close} > 1", 80), ("not ", "data_valid", 80), ("- ", "1 < gpus", 80), ("1+", "1 < gpus", 970)],
)
def test_a_condition_that_is_accepted_fits_into_every_query(repeated: str, rest: str, first: int) -> None:
    """SQLite limits the depth of a statement, and a query nests the condition in others."""
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.execute(f"CREATE TABLE runs (number, {', '.join(map(quoted, COLUMNS))})")
        add_times(db)
        with pytest.raises(UsageError, match=r"overflow|too large|longer"):
            for depth in range(first, 2000):
                sql = condition(repeated * depth + rest.format(close=")" * depth))
                query = (
                    f'SELECT id FROM runs WHERE id IN (1) AND "created" >= 1 AND "created" < 9 AND {sql} ORDER BY id'
                )
                db.execute(f"SELECT (SELECT 1 FROM runs WHERE runs.id = found.id) FROM ({query}) AS found")


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
               "window.excluded", "checks", "profilers", "digest", "cause_ranks"}  # fmt: skip
    several |= {f"expected.{name}.level" for name in ("step_time_s", "tokens_per_s_per_gpu", "memory_gb")}
    assert set(leaves(result)) - several <= set(COLUMNS)
