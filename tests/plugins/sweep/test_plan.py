"""Plans: the product of lists, parts with common defaults, and errors with suggestions."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx.cli.options import RUN_OPTIONS
from llmbx.errors import InfraError, LlmbxError, UsageError
from llmbx.model import RunSpec
from llmbx_nccltrace.settings import TraceSettings
from llmbx_slurm.settings import SlurmSettings
from llmbx_sweep.cells import resolve_cells
from llmbx_sweep.plan import CellRequest, Part, expand, read_plan

PLAN = """
workload = "grok1"
gpu_type = "gb200"
dtype = ["bf16", "fp8"]
repeats = 3
slurm = { account = "bench", exclusive = true }
with = ["nccltrace"]

[set]
mbs = 1

[[part]]
size = "314b"
gpus = [64, "128-512"]
set = { tp = [1, 2], mode = "a,b" }

[[part]]
name = "small"
size = "mini"
dtype = "fp32"
repeats = 1
slurm = { account = "mine" }
"""


KINDS = {"slurm": SlurmSettings, "nccltrace": TraceSettings}


def write(folder: Path, text: str) -> Path:
    path = folder / "plan.toml"
    path.write_text(text)
    return path


def test_a_plan_is_the_product_of_its_lists(tmp_path: Path) -> None:
    wanted = read_plan(write(tmp_path, PLAN), KINDS)
    large, small = wanted[:-1], wanted[-1]
    assert [(one.request.dtype, one.request.gpus, one.settings["tp"]) for one in large] == [
        (dtype, gpus, tp) for dtype in ("bf16", "fp8") for gpus in (64, 128, 256, 512) for tp in ("1", "2")
    ]
    first = large[0].request
    assert (first.workload, first.size, first.gpu_type, large[0].repeats) == ("grok1", "314b", "gb200", 3)
    assert first.settings == {"mbs": "1", "tp": "1", "mode": "a,b"}
    assert first.plugin_settings == {"slurm": {"account": "bench", "exclusive": True}}
    assert first.wrappers == ("nccltrace",)
    assert (small.request.size, small.request.dtype, small.request.gpus) == ("mini", "fp32", None)
    assert (small.repeats, small.part, small.settings) == (1, "small", {"mbs": "1"})
    assert small.request.plugin_settings == {"slurm": {"account": "mine", "exclusive": True}}


def test_a_part_can_override_with_false_zero_and_empty_lists(tmp_path: Path) -> None:
    file = (
        "retries = 2\npreflight = true\nforce = true\ntags = ['a']\nworkload = 'line'\nslurm = { exclusive = true }\n"
    )
    part = "retries = 0\npreflight = false\nforce = false\ntags = []\nslurm = { exclusive = false, requeue = false }\n"
    own, whole = read_plan(write(tmp_path, f"{file}[[part]]\n{part}[[part]]\nname = 'b'\n"), KINDS)
    assert (own.request.retries, own.request.force, own.request.tags) == (0, False, ())
    assert own.request.plugin_settings == {"slurm": {"preflight": False, "exclusive": False, "requeue": False}}
    assert (whole.request.retries, whole.request.force) == (2, True)
    assert whole.request.tags == ("a",)
    assert whole.request.plugin_settings == {"slurm": {"preflight": True, "exclusive": True}}


@pytest.mark.parametrize(
    "line",
    ["retries = -3", "walltime_minutes = 0", "steps = -1", "gpus_per_node = 0", "stall_timeout_s = -5",
     "stall_timeout_s = nan", "stall_timeout_s = inf"],
)  # fmt: skip
def test_an_invalid_number_is_rejected_with_its_position(line: str, tmp_path: Path) -> None:
    key = line.split()[0]
    with pytest.raises(
        UsageError, match=rf"plan\.toml: at part\[0\]\.{key}: expected (an integer|a number) [<>]=? \S+$"
    ):
        read_plan(write(tmp_path, f"workload = 'line'\n[[part]]\n{line}\n"), KINDS)


def test_a_plan_has_all_options_of_run() -> None:
    elsewhere = {"names": "workload", "settings": "set", "wrappers": "with_"}
    assert {elsewhere.get(name, name) for name in RUN_OPTIONS} <= set(Part.__struct_fields__)


def test_settings_of_one_plugin_are_allowed_at_the_top_level_of_a_part(tmp_path: Path) -> None:
    text = "workload = 'line'\ntrace_subsystems = 'INIT'\n[nccltrace]\ntrace_file_per_rank = true\n"
    (one,) = read_plan(write(tmp_path, text), KINDS)
    assert one.request.plugin_settings == {"nccltrace": {"trace_subsystems": "INIT", "trace_file_per_rank": True}}
    with pytest.raises(UsageError, match="unknown key 'trace_subsystem'"):
        read_plan(write(tmp_path, "workload = 'line'\ntrace_subsystem = 'INIT'\n"), KINDS)


@given(
    gpus=st.lists(st.integers(1, 4096), min_size=1, max_size=4, unique=True),
    dtypes=st.lists(st.sampled_from(["bf16", "fp8", "fp32"]), min_size=1, unique=True),
    values=st.dictionaries(
        st.text("abc", min_size=1, max_size=3), st.lists(st.integers(), min_size=1, max_size=3, unique=True), max_size=2
    ),
)
def test_every_combination_occurs_once(gpus: list[int], dtypes: list[str], values: dict[str, list[int]]) -> None:
    lists = {key: tuple(numbers) for key, numbers in values.items()}
    wanted = expand(Part(workload="w", gpus=tuple(gpus), dtype=tuple(dtypes), set=lists))
    expected = len(gpus) * len(dtypes)
    for numbers in values.values():
        expected *= len(numbers)
    seen = {(one.request.gpus, one.request.dtype, tuple(sorted(one.settings.items()))) for one in wanted}
    assert len(wanted) == len(seen) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('workload = "w"\nrepeat = 3', "unknown key 'repeat' (did you mean 'repeats'?)"),
        (
            'workload = "w"\n[[part]]\ngpu = 3',
            "at part[0]: unknown key 'gpu' (did you mean 'gpu_type', 'gpus' or 'gpus_per_node'?)",
        ),
        ("gpus = 3", "no workload given"),
        ('workload = "w"\ngpus = "3-4"', "gpus: '3-4' is not a valid scale: doubling 3 does not reach 4"),
        ('workload = "w"\ngpus = "any"', "gpus: 'any' is not a scale"),
        ('workload = "w"\ngpus = []', "gpus: the list is empty"),
        ('workload = "w"\nset.tp = []', "set.tp: the list is empty"),
        ('workload = "w"\nset.tp = [1, 1]', "set.tp: duplicate value 1; set repeats"),
        ('workload = "w"\nrepeats = 0', "repeats: expected an integer >= 1, got 0"),
        ('workload = "w"\nwalltime_minutes = "1h"', "expected an integer"),
        ("workload =", "not valid TOML"),
    ],
)
def test_errors_name_their_position(tmp_path: Path, text: str, says: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(UsageError, match=re.escape(says)) as caught:
        read_plan(path, KINDS)
    assert str(caught.value).startswith(f"{path}: ")


def test_every_bad_cell_is_named_before_anything_starts(make_spec: Callable[..., RunSpec]) -> None:
    def check(wanted: CellRequest) -> RunSpec:
        if wanted.settings["tp"] == "3":
            raise UsageError("it cannot run (2 problems):\n  TP 3 is odd\n  the number of heads is none of its")
        if wanted.request.gpus == 4:
            raise InfraError("no runtime works here")
        return make_spec(gpus=wanted.request.gpus)

    wanted = expand(Part(workload="line", gpus=(2, 4), set={"tp": (1, 3)}))
    with pytest.raises(UsageError) as caught:
        resolve_cells(wanted, check)
    assert str(caught.value).splitlines() == [
        "3 of 4 cells cannot run; nothing was submitted:",
        "  line 2 GPUs tp=3: it cannot run (2 problems): TP 3 is odd; the number of heads",
        "    is none of its",
        "  line 4 GPUs tp=1: no runtime works here",
        "  line 4 GPUs tp=3: it cannot run (2 problems): TP 3 is odd; the number of heads",
        "    is none of its",
    ]
    with pytest.raises(InfraError, match="1 of 2 cells cannot run"):
        resolve_cells([one for one in wanted if one.settings["tp"] == "1"], check)
    cells = resolve_cells(wanted[:1], check)
    assert [cell.key for cell in cells] == ["line mini bf16 h100 2 tp=1"]


def test_duplicate_cells_are_rejected(make_spec: Callable[..., RunSpec]) -> None:
    twice = expand(Part(workload="line", gpus=2)) * 2
    with pytest.raises(UsageError, match="the plan has 1 duplicate cells: line mini bf16 h100 2; set repeats"):
        resolve_cells(twice, lambda wanted: make_spec())
    named = [twice[0], twice[1].replace(part="other")]
    assert len(resolve_cells(named, lambda wanted: make_spec())) == 2
    with pytest.raises(UsageError, match="the plan has no cells"):
        resolve_cells([], lambda wanted: make_spec())


def test_cells_of_one_node_use_the_launcher_of_larger_ones(make_spec: Callable[..., RunSpec]) -> None:
    def check(cell: CellRequest) -> RunSpec:
        gpus = cell.request.gpus or 8
        launcher = cell.request.launcher or ("slurm" if gpus > 8 else "local")
        return make_spec(gpus=gpus, gpus_per_node=8, launcher=launcher)

    small, large = expand(Part(workload="line", gpus="8-16"))
    assert [cell.spec.launcher for cell in resolve_cells([small, large], check)] == ["slurm", "slurm"]
    assert [cell.spec.launcher for cell in resolve_cells([small], check)] == ["local"]
    local = small.replace(request=small.request.replace(launcher="local"))
    with pytest.raises(LlmbxError, match=r"different launchers: local .*, slurm"):
        resolve_cells([local, large], check)
