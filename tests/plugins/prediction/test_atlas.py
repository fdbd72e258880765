"""The table of published figures: what ships, how it is asked, and the user's own tables."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmbx.config.install import Install
from llmbx.model import RunSpec
from llmbx.plugins.manager import load
from llmbx.testing import resolve_spec
from llmbx_prediction.atlas import table
from llmbx_prediction.cost.model import known, of_shape, terms
from llmbx_prediction.regression.shipped import usable

from ...run_factory import RunFactory
from .conftest import Command, write_table

Answer = Callable[..., Any]
HEADER = "model,gpu_type,gpus,dtype,gbs,seq,step_time_s"


def test_every_shipped_row_says_who_published_it_where_and_when() -> None:
    rows = table.shipped()
    assert len(rows) > 800
    assert all(row.source and row.release and row.place and 2023 < row.when < 2027 for row in rows)


def test_step_time_and_rate_of_a_row_are_the_same_figure() -> None:
    for row in table.shipped():
        if row.step_time_s and row.tokens_per_s_per_gpu and row.gbs and row.seq:
            rate = row.gbs * row.seq / row.gpus / row.step_time_s
            assert rate == pytest.approx(row.tokens_per_s_per_gpu, rel=0.03), row


@pytest.mark.parametrize(
    ("name", "billion"),
    [("llama3.1-8b", 8.03), ("llama3.1-405b", 405.9), ("deepseek-v3", 682.6), ("qwen3-235b-a22b", 235.1),
     ("qwen3-30b-a3b", 30.5), ("gpt-oss-120b", 116.8), ("mixtral-8x22b", 140.6), ("llama4-maverick", 400.7),
     ("mpt-30b", 30.0), ("kimi-k2", 1026.4)],
)  # fmt: skip
def test_a_model_has_the_parameters_that_its_authors_state(name: str, billion: float) -> None:
    """The counts of the model cards; DeepSeek-V3 has 671, and 11.6 in its prediction layer."""
    model = known()[name]
    assert sum(term.parameters for term in terms(model, model.seq)) / 1e9 == pytest.approx(billion, rel=0.005)


def test_one_convention_gives_the_printed_figures_of_the_sources_that_use_it() -> None:
    """Megatron-Bridge counts causal attention; its windows (gpt-oss before 26.06) and scans count otherwise."""
    ratios = [
        computed / row.printed_tflops
        for row in table.shipped()
        if row.source == "Megatron-Bridge performance summary" and row.task == "pretrain" and row.printed_tflops
        and row.model.startswith(("llama", "deepseek-v3", "qwen", "kimi")) and not row.note
        and (computed := row.tflops_per_gpu()) is not None
    ]  # fmt: skip
    assert len(ratios) > 90
    assert statistics.median(ratios) == pytest.approx(1, abs=0.005)
    assert statistics.quantiles(ratios, n=20)[0] > 0.98 and statistics.quantiles(ratios, n=20)[-1] < 1.03


def test_the_change_of_a_convention_between_releases_is_gone(answer: Callable[..., Any]) -> None:
    """Printed TFLOP/s of gpt-oss rose by a fifth in 26.06, because its windows were counted as whole sequences."""
    rows = answer("atlas", "gpt-oss-120b", "--near", "0", "--gpu-type", "b300")["rows"]
    per_token = {row["release"]: row["printed_tflops"] / row["tokens_per_s_per_gpu"] for row in rows}
    same = {row["release"]: row["tflops_per_gpu"] / row["tokens_per_s_per_gpu"] for row in rows}
    assert per_token["26.06"] / per_token["26.04"] > 1.15
    assert same["26.06"] == pytest.approx(same["26.04"])


def test_a_workload_of_the_catalog_has_the_figures_of_its_model(answer: Callable[..., Any]) -> None:
    found = answer("atlas", "llama3.1", "--size", "405b", "--gpu-type", "gb200", "--near", "0")
    assert found["model"] == "llama3.1-405b" and found["flops_convention"] == "causal"
    (row,) = [r for r in found["rows"] if r["release"] == "26.06" and r["dtype"] == "fp8"]
    assert (row["gpus"], row["gbs"], row["tokens_per_s_per_gpu"]) == (256, 1536, 843)
    assert row["source"] == "Megatron-Bridge performance summary" and row["place"]
    assert {r["gpu_type"] for r in found["rows"]} == {"gb200"}


def test_the_atlas_says_who_is_behind_a_cell(answer: Callable[..., Any], llmbx: Command) -> None:
    """Llama 2 70B on H100 in BF16: NVIDIA's recipe and IBM's fms-fsdp."""
    words = ("atlas", "llama2-70b", "--gpu-type", "h100", "--dtype", "bf16", "--near", "0")
    found = answer(*words)
    assert {"IBM", "NVIDIA"} <= set(found["organizations"])
    assert "fms-fsdp README 24.05" in found["releases"]
    assert "llama2-70b h100 bf16: figures of IBM, NVIDIA (2) in" in llmbx(*words).stderr


def test_rows_come_nearest_first_and_those_of_other_models_last(answer: Callable[..., Any]) -> None:
    words = ("atlas", "llama3.1", "--size", "70b", "--gpu-type", "h100", "--gpus", "512", "--dtype", "bf16")
    rows = answer(*words)["rows"]
    own = [row for row in rows if row["model"] == "llama3.1-70b"]
    assert rows[: len(own)] == own and len(rows) == len(own) + 5
    assert [row["distance"] for row in own] == sorted(row["distance"] for row in own)
    assert all(("GPUs" in row["differs_in"]) == (row["gpus"] != 512) for row in own)


def test_the_percentile_of_a_rate_is_the_share_of_lower_figures(answer: Callable[..., Any]) -> None:
    words = ("atlas", "llama3.1", "--size", "405b", "--gpu-type", "gb300", "--dtype", "fp8", "--near", "0")
    rates = [r["tokens_per_s_per_gpu"] for r in answer(*words)["rows"] if r["task"] == "pretrain"]
    assert len(rates) > 3
    rate = sorted(rates)[2] + 0.01
    standing = answer(*words, "--rate", str(rate))["standing"]
    assert standing["percentile"] == pytest.approx(100 * sum(one < rate for one in rates) / len(rates))
    assert (standing["among"], standing["fastest"]) == (len(rates), max(rates))


def stored(tmp_path: Path, step_s: float, **asked: Any) -> RunSpec:
    """Store a finished run of Grok-1 with this step time."""
    spec = resolve_spec("grok1", launcher="slurm", runtime="pyxis", **asked)
    RunFactory(Install(root=str(tmp_path / "install"), origin="test"), spec).put([step_s] * spec.steps)
    return spec


def test_a_run_stands_among_the_figures_of_its_configuration(answer: Answer, tmp_path: Path) -> None:
    """Grok-1 on H100 in BF16: whole models were published from 20.83 s (25.01) to 15.933 s (25.05.02)."""
    spec = stored(tmp_path, 17.0, dtype="bf16", gpu_type="h100", gpus=512)
    found = answer("atlas", "--run", "last", "--near", "0")
    standing = found["standing"]
    assert (found["model"], found["gpu_type"], found["dtype"]) == ("grok1", "h100", "bf16")
    assert standing["tokens_per_s_per_gpu"] == pytest.approx(spec.global_batch_size * 8192 / 512 / 17.0, rel=1e-3)
    assert standing["slowest"] < standing["tokens_per_s_per_gpu"] < standing["fastest"]
    assert 50 < standing["percentile"] < 100


def test_a_mini_stands_nowhere(llmbx: Command, tmp_path: Path) -> None:
    stored(tmp_path, 0.1, size="mini", gpu_type="cpu", gpus=1)
    done = llmbx("atlas", "--run", "last")
    assert done.exit_code == 2 and "is a mini" in done.stderr


def test_a_measurement_that_is_printed_twice_counts_once(answer: Callable[..., Any]) -> None:
    """gpt-oss on GB300, 26.08: a card and the summary print the same run."""
    found = answer("atlas", "gpt-oss", "--gpu-type", "gb300", "--dtype", "mxfp8", "--rate", "30000", "--near", "0")
    printed = [row for row in found["rows"] if row["release"] == "26.08"]
    assert len(printed) == 2
    assert found["standing"]["among"] == len(found["rows"]) - 1


def test_the_figures_of_a_users_recipe_are_in_the_atlas(answer: Callable[..., Any]) -> None:
    """Llama 4 Maverick on 512 H100 in FP8: 3.855 s, 2,176,574 tokens/s in all."""
    found = answer("atlas", "llama4", "--gpu-type", "h100", "--dtype", "fp8")["rows"][0]
    assert (found["model"], found["gpus"], found["step_time_s"]) == ("llama4-maverick", 512, 3.855)
    assert found["tokens_per_s_per_gpu"] * 512 == pytest.approx(2_176_574, rel=1e-3)
    assert (found["tp"], found["ep"], found["etp"]) == (4, 128, 4)


def test_the_atlas_has_the_batches_of_the_catalogs_published_tables() -> None:
    """Two readings of the same pages: the atlas computes batches from rounded and misprinted tokens/s, the catalog has
    those of the recipes' configuration tables.
    """
    compared = 0
    for workload in load().workloads:
        for one in (one for one in workload.references if one.kind != "example" and one.step_time_s):
            if one.step_time_from == "tflops_per_gpu":  # by the framework's own count of FLOPs
                continue
            model = of_shape(workload.sizes[one.size].model, f"{workload.name}-{one.size}").name
            batches = {row.gbs for row in table.shipped()
                       if (row.model, row.gpu_type, row.gpus) == (model, one.gpu_type, one.gpus)
                       and row.step_time_s == pytest.approx(one.step_time_s, rel=2e-3)}  # fmt: skip
            assert one.global_batch_size is None or one.global_batch_size in batches, (workload.name, one)
            compared += 1
    assert compared > 100


def test_predictions_learn_nothing_from_figures_with_a_known_regression() -> None:
    """gpt-oss in release 26.06.01: its source calls it a regression, which the next release mended."""
    rows = [row for row in table.shipped() if row.note == "known regression"]
    assert {(row.model, row.gpu_type, row.release) for row in rows} == {
        ("gpt-oss-120b", "gb200", "26.06.01"), ("gpt-oss-120b", "gb300", "26.06.01")
    }  # fmt: skip
    assert not [row for row, *_ in usable(table.shipped()) if row in rows]


def test_what_a_source_does_not_print_is_called_assumed() -> None:
    rows = [row for row in table.shipped() if row.source == "Megatron-Bridge performance summary"]
    assumed = {row.release for row in rows if row.assumed == "fsdp"}
    assert assumed == {"26.06", "26.06.01", "26.08"}
    assert {row.model for row in rows if row.assumed == "fsdp" and row.fsdp} == {"nemotron3-ultra"}


def test_too_few_figures_have_no_percentile(answer: Callable[..., Any]) -> None:
    found = answer("atlas", "gpt-oss-20b", "--rate", "5000", "--near", "0")["standing"]
    assert found["among"] == 2 and found["percentile"] is None


def test_the_spread_of_organizations_on_the_same_gpus(answer: Callable[..., Any]) -> None:
    """MLPerf 5.1, Llama 3.1 8B on 8 B200 with batch 16: Lenovo 0.4438 s, University of Florida 0.5441 s."""
    found = answer("atlas", "--spread", "llama3.1", "--size", "8b", "--gpu-type", "b200", "--gpus", "8")
    (cell,) = [c for c in found if c["gbs"] == 16]
    assert cell["organizations"] == 6 and cell["fastest_by"] == "Lenovo"
    assert cell["fastest_s"] == pytest.approx(0.4438, rel=2e-3)
    assert cell["slowest_above_fastest_percent"] == pytest.approx(22.6, abs=0.2)


def test_the_list_of_models(llmbx: Command) -> None:
    shown = llmbx("atlas").stdout.splitlines()
    assert shown[0].startswith("model") and any(line.startswith("grok1 ") and "8-2048" in line for line in shown)


def test_csv_has_every_column_of_a_row(llmbx: Command) -> None:
    text = llmbx("atlas", "grok1", "--gpu-type", "gb200", "--near", "0", "--format", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert rows and {"place", "source", "release", "tp", "tflops_per_gpu", "assumed"} <= set(rows[0])


def test_the_page_draws_the_figures(llmbx: Command, tmp_path: Path) -> None:
    done = llmbx("atlas", "grok1", "--near", "0", "--html", "page.html")
    assert done.exit_code == 0, done.stderr
    page = (tmp_path / "page.html").read_text()
    assert "<svg" in page and "gb200 fp8" in page


def test_an_own_table_joins_the_published_ones(llmbx: Command, answer: Callable[..., Any], tmp_path: Path) -> None:
    add = write_table(tmp_path / "ours.csv", f"{HEADER},organization", "llama3.1-8b,h100,8,bf16,128,8192,12.5,us")
    assert llmbx(*add).stdout.startswith("1 row in ")
    rows = answer("atlas", "llama3.1-8b", "--gpu-type", "h100", "--near", "0")["rows"]
    (row,) = [row for row in rows if row["source"] == "ours"]
    assert row["tokens_per_s_per_gpu"] == pytest.approx(128 * 8192 / 8 / 12.5) and row["organization"] == "us"
    assert llmbx("atlas", "remove", "ours").exit_code == 0
    assert all(row["source"] != "ours" for row in answer("atlas", "llama3.1-8b", "--near", "0")["rows"])


@pytest.mark.parametrize(
    ("header", "line", "says"),
    [
        (f"{HEADER},stak", "llama3.1-8b,h100,8,bf16,128,8192,1,1", "unknown column 'stak' (did you mean 'stack'?)"),
        (HEADER, "llama3.1-8b,h100,many,bf16,128,8192,1", "line 2: gpus: expected an integer, got 'many'"),
        (HEADER, "llama3.1-8b,h100,8,bf16,128,8192,0", "must be > 0"),
        (HEADER, "llama3.1-8b,h100,8,bf16,128,8192,inf", "must be > 0"),
        (HEADER, "llama3.1-8b,h100,8,bf16,128,8192,", "expected step_time_s, tokens_per_s_per_gpu or memory_gb"),
        (HEADER, "llama3.1-8x,h100,8,bf16,128,8192,1", "no model named 'llama3.1-8x' (did you mean 'llama3.1-8b'"),
        (f"{HEADER},tp", "llama3.1-8b,h100,8,bf16,128,8192,1,0", "degrees of parallelism must be >= 1"),
        (f"{HEADER},when", "llama3.1-8b,h100,8,bf16,128,8192,1,26.5", "expected a date in years such as 2026.5"),
        (HEADER, "llama3.1-8b,h100,8,bf16,128,8192,0.001", "are more than the peak of h100 in bf16, 989"),
        (f"{HEADER},tokens_per_s_per_gpu", "llama3.1-8b,h100,8,bf16,128,8192,12.5,99",
         "step_time_s 12.5 contradicts tokens_per_s_per_gpu, gbs, seq and gpus, which give 1324 s"),
        (f"{HEADER},tp,pp,mbs", "llama3.1-405b,h100,512,fp8,256,8192,32,8,8,32", "the bubble of PP 8 takes"),
        (f"{HEADER},tp", "llama3.1-8b,h100,8,bf16,128,8192,12.5,3", "TP 3 x PP 1 x CP 1 = 3 does not divide 8 GPUs"),
        (HEADER, "llama3.1-8b,h100,8", "another number of cells than the header"),
        ("model,gpus", "llama3.1-8b,8", "the column 'gpu_type' is missing"),
        (HEADER, "", "the table has no rows"),
    ],
)  # fmt: skip
def test_a_table_that_is_not_valid_is_refused_in_one_line(
    llmbx: Command, tmp_path: Path, header: str, line: str, says: str
) -> None:
    done = llmbx(*write_table(tmp_path / "ours.csv", header, *([line] if line else [])))
    assert done.exit_code == 2
    assert says in done.stderr and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "install" / "atlas" / "ours.csv").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("deepsek-v3",), "did you mean 'deepseek-v3'?"),
        (("grok1", "--gpu-type", "hh100"), "did you mean 'h100'?"),
        (("llama3.1", "--size", "9b"), "llama3.1 has no size '9b'"),
        (("qwen3-8b", "--size", "8b"), "qwen3-8b is one model and has no sizes"),
        (("gpt-oss", "--rate", "nan"), "--rate nan: expected tokens/s per GPU"),
        (("gpt-oss", "--dtype", "int3"), "--dtype int3: no published figure has it (known: bf16, fp8, mxfp8, nvfp4)"),
        (("--rate", "5"), "--rate requires a WORKLOAD"),
        (("grok1", "--run", "last", "--rate", "5"), "--run cannot be combined with --rate"),
    ],
)  # fmt: skip
def test_a_wrong_question_is_answered_in_one_line(llmbx: Command, words: tuple[str, ...], says: str) -> None:
    done = llmbx("atlas", *words)
    assert done.exit_code == 2 and says in done.stderr and len(done.stderr.splitlines()) == 1
