"""Choice of the published result that a run is compared with, used by exit codes, comparisons and sweep costs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from llmbx.model import Recipe, Reference, RunSpec, Workload

Make = Callable[..., RunSpec]


def row(step_time_s: float | None = 1.0, **more: object) -> Reference:
    facts = {"source": "test", "size": "1b", "dtype": "bf16", "gpu_type": "h100", "gpus": 2, "step_time_s": step_time_s}
    return Reference(**{**facts, **more})  # type: ignore[arg-type]


def workload(*rows: Reference) -> Workload:
    recipe = Recipe(name="plain", title="The recipe", released="1.0", source="test", driver="python", rows=())
    return Workload(name="line", title="Line", folder="fit_line", sizes={}, recipes=(recipe,), references=rows)


@pytest.fixture
def spec(make_spec: Make) -> RunSpec:
    return make_spec(size="1b", window="last")


def test_a_table_comes_before_a_worked_example(spec: RunSpec) -> None:
    table, example = row(5.3), row(6.6, kind="example")
    for rows in ((table, example), (example, table)):
        assert spec.exact_row(workload(*rows)) == table


def test_a_figure_from_elsewhere_comes_last(spec: RunSpec) -> None:
    example, other = row(6.6, kind="example"), row(5.3, kind="other")
    for rows in ((other, example), (example, other)):
        assert spec.exact_row(workload(*rows)) == example
    assert spec.exact_row(workload(other)) == other


def test_the_rows_own_recipe_batch_and_length_come_first(spec: RunSpec) -> None:
    other, own = row(5.0, recipe="old"), row(6.0, recipe="plain", kind="example")
    assert spec.nearest_row(workload(other, own)) == own
    small, large = row(5.0, global_batch_size=8), row(9.0, global_batch_size=16)
    assert spec.replace(global_batch_size=16).exact_row(workload(small, large)) == large
    assert spec.exact_row(workload(row(gpus=4), row(dtype="fp8"), row(size="7b"), row(gpu_type="b200"))) is None


@pytest.mark.parametrize(
    ("published", "says"),
    [
        ({"recipe": "old"}, "the recipe differs (old was published, plain was run)"),
        ({"global_batch_size": 4}, "the global batch size differs (4 was published, 8 was run)"),
        ({"sequence_length": 64}, "the sequence length differs (64 was published, 128 was run)"),
    ],
)
def test_a_row_of_other_work_gives_no_verdict(spec: RunSpec, published: dict[str, object], says: str) -> None:
    there = workload(row(1.0, **published))
    assert spec.exact_row(there) is None
    nearest = spec.nearest_row(there)
    assert nearest is not None and spec.row_differences(nearest) == [says]


def test_a_changed_model_has_no_row(spec: RunSpec) -> None:
    assert spec.replace(proxy=True).exact_row(workload(row(1.0))) is None


@pytest.mark.parametrize(
    ("rows", "changes", "says"),
    [
        ((row(),), {}, None),
        ((), {}, "no published figures for line 1b bf16 on 2 x h100"),
        ((row(None),), {}, "no published figures for line 1b bf16 on 2 x h100"),
        ((row(recipe="old"),), {}, "another job: the recipe differs"),
        ((row(),), {"mini": True}, "a mini is not comparable"),
        ((row(),), {"proxy": True}, "a proxy is not comparable"),
    ],
)
def test_a_run_without_a_published_figure_says_why(
    rows: tuple[Reference, ...], changes: dict[str, bool], says: str | None, spec: RunSpec
) -> None:
    of = workload(*rows)
    found = spec.replace(**changes).why_no_figure(of)
    assert found is None if says is None else says in (found or "")
    assert (spec.replace(**changes).exact_row(of) is not None) or found
