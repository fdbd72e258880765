"""The published results: every number of the recipes' tables, with its source."""

from __future__ import annotations

from pathlib import Path

import pytest

import llmbx_nemo
from llmbx.catalog.references import Published
from llmbx.catalog.workloads import load_workload
from llmbx.config.profiles import Config
from llmbx.config.request import Request
from llmbx.errors import UsageError
from llmbx.model import Reference
from llmbx.plugins.manager import load as load_plugins
from llmbx.resolve import resolve
from llmbx_nemo.settings import NemoSettings

ROOT = Path(llmbx_nemo.__path__[0])

# As printed: size, dtype and GPU type; GPUs; seconds a step; tokens per second; MFU in percent; days for 1T tokens.
TABLES = {
    "llama3.1": """
8b bf16 h100
8 16 32 64 128
12.27 12.3 12.32 12.33 12.33
85459 170500 340447 680341 1360683
62.47 62.31 62.21 62.16 62.16
135.43 67.88 34 17.01 8.51

8b fp8 h100
8 16 32 64 128
9.33 9.36 9.43 9.48 9.54
112388 224055 444783 884874 1758618
41.07 40.94 40.64 40.42 40.17
102.98 51.66 26.02 13.08 6.58

70b bf16 h100
64 128 256 512 1024 2048
14.66 14.67 14.68 14.67 14.65 14.66
71526 142955 285716 571821 1145202 2288843
54.32 54.29 54.25 54.29 54.36 54.32
161.82 80.96 40.51 20.24 10.11 5.06

70b fp8 h100
64 128 256 512 1024 2048
9.86 9.95 10 10.07 10.08 10.15
106346 210769 419430 833030 1664406 3305855
40.38 40.02 39.82 39.54 39.50 39.23
108.83 54.91 27.59 13.89 6.95 3.5

405b bf16 h100
32 64 128 512 1024 2048
5.4 10.1 19.62 19.78 19.84 19.87
97090 51910 53444 106024 211406 422175
55.23 52.52 55.31 55.47 55.31 55.22
n/a n/a n/a 109.16 54.75 27.42

405b fp8 h100
32 64 128 512 1024 2048
3.53 6.32 12.18 12.37 12.42 12.56
148524 82957 86090 169535 337706 667883
42.24 41.97 44.55 44.35 44.17 43.68
n/a n/a n/a 68.27 34.27 17.33
""",
    "llama4": """
400b bf16 gb200
128 256 512
7.781 7.859 7.992
1077749 2135388 4197507
18.71 37.1 36.4
10.74 5.422 2.76

400b fp8 gb200
128 256 512
6.093 6.223 6.327
1376867 2695569 5306935
23.9 23.4 23
8.414 4.295 2.18

400b bf16 h100
512
4.426
1895847
40.8
6.10

400b fp8 h100
512
3.855
2176574
23.4
5.32
""",
    "grok1": """
314b bf16 gb200
128 256 512
7.325 7.39 7.324
286300.61 567564.82 572679
47.59 47.17 47.6
40.43 20.39 20.2

314b fp8 gb200
128 256 512
5.298 5.224 5.193
395838.43 802891.27 807684
32.90 33.36 33.6
29.24 14.41 14.33

314b bf16 h100
512
15.933
526493
54.2
21.98

314b fp8 h100
512
13.433
624478
32.2
18.53
""",
}

KEYS = ("step_time_s", "tokens_per_s", "mfu", "days_per_1t_tokens")


def load(workload: str) -> list[Reference]:
    return list(Published.read(ROOT / "references" / f"{workload}.toml").references)


def printed(workload: str) -> dict[tuple[str, str, str, int], dict[str, float | None]]:
    """The values of the tables above by size, dtype, GPU type and scale."""
    found: dict[tuple[str, str, str, int], dict[str, float | None]] = {}
    for block in TABLES[workload].strip().split("\n\n"):
        (size, dtype, gpu_type), scales, *figures = [line.split() for line in block.splitlines()]
        for column, gpus in enumerate(map(int, scales)):
            name = "405b-proxy" if size == "405b" and gpus < 512 else size
            row = [None if line[column] == "n/a" else float(line[column]) for line in figures]
            row[2] = round((row[2] or 0) / 100, 6)
            found[name, dtype, gpu_type, gpus] = dict(zip(KEYS, row, strict=True))
    return found


@pytest.mark.parametrize("workload", TABLES)
def test_every_published_value_is_stored_as_printed(workload: str) -> None:
    tables = [r for r in load(workload) if r.kind == "table"]
    assert {(r.size, r.dtype, r.gpu_type, r.gpus): {key: getattr(r, key) for key in KEYS} for r in tables} == printed(
        workload
    )


# Llama 3.1 on nemo:25.09, per GPU, of the framework's performance summary for that image.
SUMMARY = {
    ("8b", "gb200", 8): (31357, 1614),
    ("8b", "b200", 8): (29994, 1544),
    ("70b", "gb200", 64): (3986, 1791),
    ("70b", "h100", 64): (1619, 727),
    ("405b", "gb200", 128): (729, 1840),
    ("405b", "h100", 1024): (302, 763),
}


def test_the_summary_of_the_image_fills_rows_that_the_recipe_prints_no_figures_for() -> None:
    rows = {(r.size, r.gpu_type, r.gpus): r for r in load("llama3.1") if r.kind == "other" and r.recipe == "mbridge"}
    assert {key: (r.tokens_per_s_per_gpu, r.tflops_per_gpu) for key, r in rows.items()} == SUMMARY
    plugins = load_plugins()
    for (size, gpu_type, gpus), (rate, tflops) in SUMMARY.items():
        request = Request(workload="llama3.1", size=size, dtype="fp8", gpu_type=gpu_type, gpus=gpus, recipe="mbridge")
        spec = resolve(request, plugins, Config(), {}, {})
        found = spec.exact_row(plugins.workload("llama3.1", "nemo"))
        assert found is not None and found.step_time_s is not None
        seconds = spec.global_batch_size * 8192 / (rate * gpus)
        if (size, gpu_type) == ("405b", "gb200"):
            assert (found.kind, found.step_time_s) == ("example", 5.741470)  # the recipe's own figure comes first
        else:
            assert (found.step_time_from, found.step_time_s) == ("tokens_per_s_per_gpu", pytest.approx(seconds))
        flops = plugins.framework("nemo").compute_flops(spec)
        assert flops.causal * spec.global_batch_size / seconds / gpus / 1e12 == pytest.approx(tflops, rel=2e-3)


EXAMPLES = {  # workload, dtype, GPU type and scale: what the recipes print as examples
    ("llama3.1", "fp8", "gb200", 128): (5.741470, 0.068670, 1636.80, 20.89, 91339, 0.334, 126.72),
    ("llama3.1", "fp8", "h100", 8): (12.39, None, None, None, 84631, 0.3093, 136.76),
    ("llama4", "fp8", "h100", 512): (3.685, 0.008, 527.78, 1.11, None, None, None),
    ("llama4", "bf16", "gb200", 128): (7.781, None, None, None, 1077749, 0.1871, 10.74),
    ("grok1", "bf16", "gb200", 256): (7.382, 0.040, 1192.94, 6.53, None, None, None),
    ("grok1", "fp8", "gb200", 128): (6.631, None, None, None, None, 0.263, None),
}


def test_the_examples_are_marked_as_examples() -> None:
    found = {
        (w, r.dtype, r.gpu_type, r.gpus): (
            r.step_time_s,
            r.step_time_std_s,
            r.tflops_per_gpu,
            r.tflops_per_gpu_std,
            r.tokens_per_s,
            r.mfu,
            r.days_per_1t_tokens,
        )
        for w in TABLES
        for r in load(w)
        if r.kind == "example"
    }
    assert found == EXAMPLES


@pytest.mark.parametrize("workload", TABLES)
def test_every_value_has_a_source_and_a_row_of_the_catalog(workload: str) -> None:
    catalog = load_workload(
        ROOT / "catalog" / f"{workload}.toml", ROOT / "references" / f"{workload}.toml", NemoSettings
    )
    recipes = {recipe.name: recipe for recipe in catalog.recipes}
    assert catalog.references == tuple(load(workload))
    for reference in catalog.references:
        assert reference.recipe is not None
        recipe = recipes[reference.recipe]
        assert reference.source.startswith(recipe.title) or reference.kind == "other"
        assert reference.convention == recipe.flops_convention


@pytest.mark.parametrize("workload", TABLES)
def test_mfu_follows_from_the_stated_flops_batch_and_peak(workload: str) -> None:
    """GBS x FLOPs / (time x GPUs x peak), within the rounding of the printed values, without disputed rows."""
    checked = 0
    for r in load(workload):
        if None in (r.model_flops, r.mfu, r.peak_tflops, r.step_time_s) or r.disputed:
            continue
        mfu = r.global_batch_size * r.model_flops / (r.step_time_s * r.gpus * r.peak_tflops * 1e12)  # type: ignore[operator]
        assert mfu == pytest.approx(r.mfu, rel=3e-3), r
        checked += 1
    assert checked >= 6


@pytest.mark.parametrize("workload", TABLES)
def test_tokens_and_days_follow_from_step_time_and_batch(workload: str) -> None:
    for r in load(workload):
        if r.tokens_per_s is None or r.disputed:
            continue
        assert r.global_batch_size is not None and r.step_time_s is not None
        assert 8192 * r.global_batch_size / r.step_time_s == pytest.approx(r.tokens_per_s, rel=3e-3), r
        if r.days_per_1t_tokens is not None:
            assert 1e12 / r.tokens_per_s / 86400 == pytest.approx(r.days_per_1t_tokens, rel=3e-3), r


@pytest.mark.parametrize("workload", sorted(TABLES))
def test_a_run_of_every_published_row_is_compared_with_the_table(workload: str) -> None:
    plugins = load_plugins()
    for (size, dtype, gpu_type, gpus), figures in printed(workload).items():
        tables = [r for r in load(workload) if r.kind == "table"]
        recipe = next(r.recipe for r in tables if (r.size, r.dtype, r.gpu_type) == (size, dtype, gpu_type))
        request = Request(workload=workload, size=size, dtype=dtype, gpu_type=gpu_type, gpus=gpus, recipe=recipe)
        spec = resolve(request, plugins, Config(), {}, {})
        found = spec.exact_row(plugins.workload(workload, "nemo"))
        assert found is not None and found.kind == "table", request
        assert found.step_time_s == figures["step_time_s"]
        changed = resolve(request.replace(settings={"gbs": str(2 * spec.global_batch_size)}), plugins, Config(), {}, {})
        assert changed.exact_row(plugins.workload(workload, "nemo")) is None


def test_contradictory_values_are_marked() -> None:
    disputed = {(w, r.dtype, r.gpus, r.kind) for w in TABLES for r in load(w) if r.disputed}
    assert disputed == {
        ("llama4", "bf16", 128, "table"),
        ("llama4", "bf16", 128, "example"),
        ("grok1", "bf16", 512, "table"),
        ("grok1", "fp8", 512, "table"),
        *(("llama3.1", dtype, gpus, "table") for dtype in ("bf16", "fp8") for gpus in (32, 64, 128, 512, 1024, 2048)),
        ("llama3.1", "bf16", 512, "other"),
        ("llama3.1", "fp8", 512, "other"),
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("tokens_per_s_per_gpu = [1.0, 2.0]", "global_batch_size and sequence_length are required"),
        ("step_time_s = [1.0]", r"at tables\[0\]\.step_time_s: 1 values for 2 scales"),
        ("step_time = [1.0, 2.0]", r"at tables\[0\]: unknown key 'step_time' \(did you mean 'step_time_s'"),
        ('disputed = { 16 = "why" }', r"at tables\[0\]\.disputed: the table has no scale '16'"),
    ],
)
def test_a_mistake_in_a_table_is_reported(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "figures.toml"
    head = '[[tables]]\nsource = "s"\nsize = "1b"\ndtype = "bf16"\ngpu_type = "h100"\ngpus = [8, 64]\n'
    path.write_text(head)
    assert [r.gpus for r in Published.read(path).references] == [8, 64]
    path.write_text(head + line)
    with pytest.raises(UsageError, match=message) as error:
        Published.read(path)
    assert str(error.value).startswith(str(path))
