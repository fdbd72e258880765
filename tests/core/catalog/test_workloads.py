"""Catalog files: validation, error messages, and the choice of the row for a request."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx.catalog import workloads
from llmbx.catalog.scales import admits, evaluate, scales
from llmbx.config.settings import read_settings
from llmbx.errors import UsageError
from llmbx.model import Natural, Option, Scalar, Settings, Workload

from ...rows import find

FILE = """
name = "toy"
title = "Toy"
folder = "toy"
default_dtype = "bf16"
minimum_gpu_memory_gb = { big = 200, small = 80 }

[settings]
lr = { default = 0.1, help = "learning rate" }
mode = { default = "a", choices = ["a", "b"], help = "mode" }

[sizes.1b.model]
layers = 2
hidden_size = 8
ffn_hidden_size = 16
heads = 2
query_groups = 1
vocab_size = 32
sequence_length = 16

[sizes.mini.model]
layers = 1
hidden_size = 8
ffn_hidden_size = 16
heads = 2
query_groups = 1
vocab_size = 32
sequence_length = 16

[[recipes]]
name = "old"
title = "Old"
released = "25.04.02"
source = "book"
driver = "toy"
walltime_minutes = { default = 30, small = 60, 1b = 90 }
rows = [
  { size = "1b", dtypes = ["fp8", "bf16"], gpu_types = ["big"], gpus = ["8-32"], gbs = "GPUs*2" },
  { size = "1b", dtypes = ["fp8"], gpu_types = ["small"], gpus = ["8-32", "512"], gbs = "GPUs*2" },
]

[[recipes]]
name = "new"
title = "New"
released = "25.10"
source = "book"
driver = "toy"
env = { A = "1", B = "1" }
rows = [
  { size = "1b", dtypes = ["fp8"], gpu_types = ["big"], gpus = ["8"], tp = 2, gbs = "GPUs", fsdp = true },
  { size = "mini", dtypes = ["fp32", "fp16"], gpu_types = ["any"], gpus = ["any"], gbs = 4 },
]

[[recipes.exports]]
gpu_types = ["big"]
env = { B = "2" }

[[recipes.exports]]
gpu_types = ["big"]
sizes = ["mini"]
env = { C = "3" }

[[recipes.exports]]
pipelined = true
env = { P = "2" }
"""


def load(tmp_path: Path, text: str = FILE, settings: type[Settings] | None = None) -> Workload:
    path = tmp_path / "toy.toml"
    path.write_text(text)
    return workloads.load_workload(path, settings=settings)


@pytest.fixture
def toy(tmp_path: Path) -> Workload:
    return load(tmp_path)


def test_a_file_becomes_a_workload(toy: Workload) -> None:
    assert [recipe.name for recipe in toy.recipes] == ["old", "new"]
    row = toy.recipes[1].rows[0]
    assert (row.size, row.tp, row.fsdp, row.gbs, row.mbs, row.ep) == ("1b", 2, True, "GPUs", 1, None)
    assert toy.sizes["1b"].model.vocab_size == 32


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ("tp = 2,", "tpp = 2,", r"at recipes\[1\]\.rows\[0\]: unknown key 'tpp' \(did you mean 'tp'\?\)"),
        ("tp = 2,", 'tp = "2",', r"at recipes\[1\]\.rows\[0\]\.tp: .*int"),
        ("heads = 2\nquery_groups = 1", "query_groups = 1", r"at sizes\.1b\.model: the key 'heads' is missing"),
        ('driver = "toy"', 'drivr = "toy"', r"at recipes\[0\]: unknown key 'drivr' \(did you mean 'driver'\?\)"),
        ('size = "mini", dt', 'size = "minni", dt', r"recipes\[1\]\.rows\[1\]\.size: .*'minni' \(did you mean 'mini'"),
        ('gpus = ["8"]', 'gpus = ["8-33"]', r"recipes\[1\]\.rows\[0\]: '8-33' is not a valid scale: doubling 8"),
        ('gpus = ["8"]', "gpus = []", r"recipes\[1\]\.rows\[0\]\.gpus: must not be empty"),
        ('gbs = "GPUs",', 'gbs = "GPUs/3",', r"recipes\[1\]\.rows\[0\]: 'GPUs/3' is not an integer for 8 GPUs"),
        ('gbs = "GPUs",', 'gbs = "GPU*2",', r"recipes\[1\]\.rows\[0\]: 'GPU\*2' is not a valid expression"),
        ('released = "25.10"', 'released = "soon"', r"recipes\[1\]\.released: 'soon' is not a valid release"),
        ('name = "new"', 'name = "old"', "two recipes are named 'old'"),
        ('default = "a",', 'default = "c",', r"settings\.mode: the default 'c' is not one of its choices"),
        (
            "tp = 2,",
            "tp = 2, settings = { lrr = 1 },",
            r"rows\[0\]\.settings: no setting named 'lrr' \(did you mean 'lr'",
        ),
        ('sizes = ["mini"]', 'sizes = ["2b"]', r"exports\[1\]\.sizes: no size named '2b' \(known: 1b, mini\)"),
        ("default_dtype", 'default_size = "7b"\ndefault_dtype', "default_size: no size named '7b'"),
        ("[settings]", "[settings", "not valid TOML"),
        ("lr = {", "tp = {", r"at settings\.tp: llmbx already defines a key of this name"),
        ("heads = 2", "heads = 0", r"at sizes\.1b\.model\.heads: expected an integer >= 1, got 0"),
        ('driver = "toy"', 'driver = "toy"\nwindow = "18-11"', r"recipes\[0\]\.window: .*did you mean 11-18"),
        ('driver = "toy"', 'driver = "toy"\nsteps = 0', r"recipes\[0\]\.steps: expected an integer >= 1, got 0"),
        (
            'driver = "toy"',
            'driver = "toy"\nprofile_steps = "5"',
            r"profile_steps: expected a range .* got '5'",
        ),
        (
            'driver = "toy"',
            'driver = "toy"\nprofile_name = "p_{rnak}"',
            r"recipes\[0\]\.profile_name: no field named 'rnak' \(did you mean 'rank'",
        ),
        (
            "{ default = 30,",
            "{ defualt = 30,",
            r"walltime_minutes: no size or GPU type named 'defualt' \(did you mean 'd",
        ),
        ("{ default = 30,", "{ default = 0,", r"walltime_minutes\.default: expected an integer >= 1, got 0"),
    ],
)
def test_a_mistake_is_reported_with_file_and_place(tmp_path: Path, right: str, wrong: str, says: str) -> None:
    assert right in FILE
    with pytest.raises(UsageError, match=says) as error:
        load(tmp_path, FILE.replace(right, wrong, 1))
    assert str(error.value).startswith(str(tmp_path / "toy.toml"))


class Shared(Settings, frozen=True):
    plugin: ClassVar[str] = "toy"

    seed: Annotated[Natural, Option(help="Seed.")] = 7
    limit: Annotated[int | None, Option(help="Limit.")] = None
    table: Annotated[dict[str, Scalar], Option(help="A table.")] = {}


ROW = 'gpus = ["8-32"], gbs = "GPUs*2"'


def test_the_fields_of_a_settings_class_are_settings_of_the_workload(tmp_path: Path) -> None:
    text = FILE.replace(ROW, ROW + ", settings = { seed = 3 }", 1)
    with pytest.raises(UsageError, match=r"rows\[0\]\.settings: no setting named 'seed'"):
        load(tmp_path, text)
    found = load(tmp_path, text, Shared)
    assert [*found.settings] == ["seed", "limit", "lr", "mode"]
    assert (found.settings["seed"].default, found.settings["limit"].type) == (7, "int")
    assert read_settings({"seed": "4", "limit": "none"}, found) == {"seed": 4, "limit": None}
    assert read_settings({"limit": "5"}, found) == {"limit": 5}
    assert workloads.with_declared(found, Shared, "again") == found


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ("lr = {", "seed = {", r"toy\.toml: at settings\.seed: Shared has a field of this name"),
        (
            ROW,
            ROW + ", settings = { seed = -1 }",
            r"at recipes\[0\]\.rows\[0\]\.settings: at seed: expected an integer >= 0",
        ),
        (
            'driver = "toy"',
            'driver = "toy"\nsettings = { limit = "x" }',
            r"recipes\[0\]\.settings: at limit: expected an integer",
        ),
    ],
)
def test_a_file_that_contradicts_the_settings_class_is_refused(
    tmp_path: Path, right: str, wrong: str, says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        load(tmp_path, FILE.replace(right, wrong, 1), Shared)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.toml: cannot be read: No such file"):
        workloads.load_workload(tmp_path / "none.toml")


def test_the_newest_recipe_that_has_the_combination_is_found(toy: Workload) -> None:
    recipe, row = find(toy, size="1b", dtype="fp8", gpu_type="big", gpus=8)
    assert (recipe.name, row.tp) == ("new", 2)
    for dtype, gpu_type, gpus in [("bf16", "big", 8), ("fp8", "big", 16), ("fp8", "small", 512)]:
        recipe, row = find(toy, size="1b", dtype=dtype, gpu_type=gpu_type, gpus=gpus)
        assert (recipe.name, row.gbs) == ("old", "GPUs*2")


def test_the_named_recipe_is_found(toy: Workload) -> None:
    recipe, row = find(toy, size="1b", dtype="fp8", gpu_type="big", gpus=8, recipe="old")
    assert (recipe.name, row.tp) == ("old", 1)


def test_a_mini_takes_any_gpu_type_and_scale(toy: Workload) -> None:
    for gpu_type, gpus in [("cpu", 1), ("big", 3)]:
        assert find(toy, size="mini", dtype="fp32", gpu_type=gpu_type, gpus=gpus)[1].gbs == 4


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"size": "mina"}, r"toy has no size 'mina' \(did you mean 'mini'\?\)"),
        ({"gpu_type": "bigg"}, r"no configuration for bigg: use --gpu-type big or small"),
        ({"dtype": "fp9"}, r"toy 1b on big has no fp9 configuration: use --dtype fp8 or bf16"),
        ({"gpus": 0}, "--gpus 0: expected a number >= 1"),
        ({"recipe": "nwe"}, r"toy has no recipe 'nwe' \(did you mean 'new'\?\)"),
        ({"recipe": "old", "size": "mini"}, r"recipe old of toy has no size mini \(recipes with it: new\)"),
        ({"gpu_type": "c", "dtype": "x"}, "has no configuration for c: use .*; toy 1b on c has no x configuration"),
    ],
)  # fmt: skip
def test_unknown_values_are_reported_with_the_known_ones(toy: Workload, asked: dict[str, object], says: str) -> None:
    combination = {"size": "1b", "dtype": "fp8", "gpu_type": "big", "gpus": 8, **asked}
    with pytest.raises(UsageError, match=says):
        find(toy, **combination)  # type: ignore[arg-type]


def test_choose_gives_the_nearest_row_with_its_findings(toy: Workload) -> None:
    choice = workloads.choose(toy, size="1b", dtype="fp8", gpu_type="small", gpus=400)
    assert (choice.recipe.name, choice.row.gpu_types) == ("old", ("small",))
    assert [finding.rule for finding in choice.findings] == ["scaled"]
    assert (choice.scaled_from, choice.row.gbs) == (512, 800)
    elsewhere = workloads.choose(toy, size="1b", dtype="fp8", gpu_type="unheard", gpus=8)
    assert elsewhere.row.gpu_types == ("small",), "the GPU with the least memory"
    assert [finding.rule for finding in elsewhere.findings] == ["gpu_type"]


def test_a_combination_that_exists_has_no_findings(toy: Workload) -> None:
    assert workloads.choose(toy, size="1b", dtype="fp8", gpu_type="big", gpus=32).findings == ()


def test_the_default_dtype_is_that_of_the_newest_matching_recipe(toy: Workload) -> None:
    assert workloads.default_dtype(toy, "1b", "big", 8) == "fp8", "the only one that recipe new has"
    assert workloads.default_dtype(toy, "1b", "big", 16) == "bf16", "recipe old has the workload's default"
    assert workloads.default_dtype(toy, "1b", "big", 8, recipe="old") == "bf16"
    assert workloads.default_dtype(toy, "mini", "cpu") == "fp32", "the first of a mini"
    assert workloads.default_dtype(toy.replace(default_dtype=None), "1b", "big", 16) is None, "two, and none preferred"
    assert workloads.default_dtype(toy, "1b", "unheard") is None


def test_known_values_are_listed_newest_first(toy: Workload) -> None:
    assert workloads.known_gpu_types(toy, "1b") == ["big", "small"]
    assert workloads.known_gpu_types(toy, "mini") == ["any"]
    assert workloads.known_dtypes(toy, "1b", "big") == ["fp8", "bf16"]
    assert workloads.known_scales(toy, "1b", "fp8", "small") == [8, 16, 32, 512]
    assert workloads.known_scales(toy, "mini", "fp32", "cpu") == []


def test_releases_are_ordered_as_numbers(toy: Workload) -> None:
    first = toy.recipes[0]
    recipes = [first.replace(released=text) for text in ("25.9", "25.10", "25.04.02", "26.1")]
    assert [r.released for r in workloads.newest_first(recipes)] == ["26.1", "25.10", "25.9", "25.04.02"]


def test_time_limits_are_by_size_then_gpu_type_then_default(toy: Workload) -> None:
    old, new = toy.recipes
    assert workloads.walltime_minutes(old, "1b", "small") == 90
    assert workloads.walltime_minutes(old, "mini", "small") == 60
    assert workloads.walltime_minutes(old, "mini", "big") == 30
    assert workloads.walltime_minutes(new, "mini", "big") is None


def test_exports_apply_where_they_say(toy: Workload) -> None:
    new = toy.recipes[1]
    row = new.rows[0]
    assert new.exported(row, "1b", "fp8", "small", 8, pp=1) == {"A": "1", "B": "1"}
    assert new.exported(row, "1b", "fp8", "big", 8, pp=1) == {"A": "1", "B": "2"}
    assert new.exported(row, "mini", "fp8", "big", 8, pp=1) == {"A": "1", "B": "2", "C": "3"}
    assert new.exported(row, "1b", "fp8", "small", 8, pp=2) == {"A": "1", "B": "1", "P": "2"}
    own = row.replace(env={"B": "4", "R": "5"})
    assert new.exported(own, "1b", "fp8", "big", 8, pp=1) == {"A": "1", "B": "4", "R": "5"}


@pytest.mark.parametrize(
    ("texts", "counts"),
    [
        (("128-1024",), (128, 256, 512, 1024)),
        (("512",), (512,)),
        (("512", "8-32"), (8, 16, 32, 512)),
        (("24-96",), (24, 48, 96)),
        (("any",), ()),
    ],
)
def test_scales(texts: tuple[str, ...], counts: tuple[int, ...]) -> None:
    assert scales(texts) == counts


@pytest.mark.parametrize("text", ["8-", "8-12", "0", "-8", "eight", "16-8", "8 - 16", ""])
def test_an_invalid_scale(text: str) -> None:
    with pytest.raises(UsageError, match="is not a valid scale"):
        scales([text])


@given(first=st.integers(1, 100), doublings=st.integers(0, 8), other=st.integers(1, 30000))
def test_a_range_admits_exactly_its_doublings(first: int, doublings: int, other: int) -> None:
    text = [f"{first}-{first << doublings}"]
    assert scales(text) == tuple(first << n for n in range(doublings + 1))
    assert admits(text, other) == (other in {first << n for n in range(doublings + 1)})
    assert admits(["any"], other)


@given(gpus=st.integers(1, 4096), factor=st.integers(1, 64))
def test_expressions_of_gpus(gpus: int, factor: int) -> None:
    assert evaluate("GPUs", gpus) == gpus
    assert evaluate(f"GPUs*{factor}", gpus) == gpus * factor
    assert evaluate(f"GPUs / {factor}", gpus * factor) == gpus
    assert evaluate(str(factor), gpus) == evaluate(factor, gpus) == factor
    if gpus % factor:
        with pytest.raises(UsageError, match=f"multiple of {factor}"):
            evaluate(f"GPUs/{factor}", gpus)


@pytest.mark.parametrize("text", ["GPUs+1", "gpus*2", "2*GPUs", "GPUs*", "GPUs*-1", "", "GPUs*2*2", "GPUs/0"])
def test_an_invalid_expression(text: str) -> None:
    with pytest.raises(UsageError):
        evaluate(text, 8)


def test_a_size_that_needs_a_gpu_says_why(toy: Workload) -> None:
    size = toy.sizes["1b"].replace(needs_gpu="its kernels need CUDA")
    changed = toy.replace(sizes={**toy.sizes, "1b": size})
    with pytest.raises(UsageError, match=r"toy 1b has no configuration for cpu \(its kernels need CUDA\): use --gpu"):
        find(changed, size="1b", dtype="fp8", gpu_type="cpu", gpus=1)
    with pytest.raises(UsageError, match="toy 1b has no configuration for huge: use --gpu-type"):
        find(changed, size="1b", dtype="fp8", gpu_type="huge", gpus=1)
