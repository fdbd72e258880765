"""Reference files of users, and the command `audit`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmbx.catalog.references import STATES
from llmbx.config.profiles import Config
from llmbx.errors import UsageError
from llmbx.model import Recipe, Row, Size, Workload
from llmbx.plugins import manager as plugins_module
from llmbx.plugins.manager import Plugins
from llmbx_analysis.audit import audit_file
from llmbx_analysis.cli.audit import command

from .conftest import SHAPE, flops

RIGHT_MFU = 100 * 128 * flops(SHAPE).full / 1.7 / 64 / 989e12

FILE = f"""
[[tables]]
source = "my cluster"
size = "1b"
dtype = "bf16"
gpu_type = "h100"
gpus = [64, 128]
global_batch_size = [128, 256]
step_time_s = [1.7, 1.7]
tokens_per_s = [154202, 154202]
mfu_percent = [{RIGHT_MFU:.4f}, {RIGHT_MFU / 1979 * 989:.4f}]

[[examples]]
source = "my cluster, notes"
text = "2048 * 128 / 1.7 = 145202"
"""


def toy() -> Workload:
    row = Row(size="1b", dtypes=("bf16", "fp8"), gpu_types=("h100",), gpus=("64-128",), gbs="GPUs*2")
    recipe = Recipe(name="r", title="R", released="1.0", source="s", driver="d", rows=(row,))
    return Workload(name="toy", title="Toy", folder="toy", sizes={"1b": Size(model=SHAPE)}, recipes=(recipe,))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.toml"
    path.write_text(FILE)
    return path


def test_the_workload_of_a_file_is_detected(path: Path, framework: Callable[..., Plugins]) -> None:
    found = audit_file(path, framework([toy()]), Config())
    assert found.cells == 4
    rate, mfu = found.disputed
    assert (rate.workload, rate.gpus, rate.field) == ("toy", 128, "tokens_per_s")
    assert rate.recomputed == pytest.approx(2048 * 256 / 1.7)
    assert (mfu.gpus, mfu.field) == (128, "mfu")
    assert mfu.recomputed == pytest.approx(RIGHT_MFU / 100)
    (example,) = found.examples
    assert (example.kind, example.published) == ("arithmetic", 145202)
    assert example.recomputed == pytest.approx(154202.35, abs=0.01)


def test_without_a_workload_only_the_values_of_the_file_are_used(path: Path, framework: Callable[..., Plugins]) -> None:
    own = f"sequence_length = 2048\nmodel_flops = {flops(SHAPE).full}\n"
    path.write_text(FILE.replace("[[examples]]", f"{own}\n[[examples]]"))
    found = audit_file(path, framework([]), Config())
    assert found.cells == 4
    assert [(d.workload, d.gpus, d.field) for d in found.disputed] == [
        ("cluster", 128, "tokens_per_s"),
        ("cluster", 128, "mfu"),
    ]


def test_cells_that_cannot_be_recomputed_give_a_warning(path: Path, framework: Callable[..., Plugins]) -> None:
    path.write_text(FILE.replace("[[examples]]", "sequence_length = 2048\n\n[[examples]]"))
    said: list[str] = []
    assert audit_file(path, framework([]), Config(), warn=said.append).cells == 2
    assert [line.partition(": ")[2][:35] for line in said] == ["2 of 4 cells cannot be recomputed; "]


def test_a_file_without_a_recomputable_figure_is_an_error(path: Path, framework: Callable[..., Plugins]) -> None:
    path.write_text(FILE.partition("[[examples]]")[0])
    with pytest.raises(UsageError, match=r"cluster\.toml: no figure can be recomputed; set sequence_length"):
        audit_file(path, framework([]), Config())
    path.write_text(FILE)
    with pytest.raises(UsageError, match="no figure can be recomputed"):
        audit_file(path, framework([]), Config())


def test_a_file_that_matches_several_workloads_is_an_error(path: Path, framework: Callable[..., Plugins]) -> None:
    both = framework([toy(), toy().replace(name="other")])
    with pytest.raises(UsageError, match="select one with --workload toy or other"):
        audit_file(path, both, Config())
    assert audit_file(path, both, Config(), "other").cells == 4
    path.write_text('workload = "toy"\n' + FILE)
    assert audit_file(path, both, Config()).disputed[0].workload == "toy"
    with pytest.raises(UsageError, match="--workload: no workload named 'toyy'"):
        audit_file(path, both, Config(), "toyy")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("states = { step_time = 3 }", r"examples\[0\]\.states: unknown metric 'step_time' \(did you mean 'step"),
        ('txt = "a"', r"examples\[0\]: unknown key 'txt' \(did you mean 'text'\?\)"),
    ],
)  # fmt: skip
def test_a_mistake_in_an_example_is_named(path: Path, framework: Callable[..., Plugins], line: str, says: str) -> None:
    path.write_text(FILE + line)
    with pytest.raises(UsageError, match=says):
        audit_file(path, framework([toy()]), Config())


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("gpus = [64, 128]", "gpus = [64, 0]", r"at tables\[0\]\.gpus: expected a number > 0, got 0"),
        ("[1.7, 1.7]", "[1.7, nan]", r"at tables\[0\]\.step_time_s: expected a number > 0, got nan"),
        ("[1.7, 1.7]", "[1.7, -1]", r"at tables\[0\]\.step_time_s: expected a number > 0, got -1"),
        ("[154202, 154202]", "[154202, inf]", r"at tables\[0\]\.tokens_per_s: expected a number > 0, got inf"),
        ("[1.7, 1.7]", "[1.7]", r"at tables\[0\]\.step_time_s: 1 values for 2 scales"),
    ],
)
def test_an_invalid_figure_is_named(
    path: Path, framework: Callable[..., Plugins], before: str, after: str, says: str
) -> None:
    path.write_text(FILE.replace(before, after))
    with pytest.raises(UsageError, match=says):
        audit_file(path, framework([toy()]), Config())


numbers = st.one_of(st.integers(-2, 10**18), st.floats(allow_nan=True, allow_infinity=True))
texts = st.text(max_size=20)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=st.dictionaries(st.sampled_from(["gpus", "step_time_s", "tokens_per_s", "mfu_percent", "gpu_type", "size",
                                              "global_batch_size", "days_per_1t_tokens", "dtype", "peak_tflops",
                                              "model_flops", "sequence_length", "tflops_per_gpu", "kind"]),
                             st.one_of(numbers, texts, st.lists(numbers, max_size=2))),
       text=texts, states=st.dictionaries(st.sampled_from(STATES), numbers, max_size=3))  # fmt: skip
def test_any_file_is_audited_or_rejected(
    path: Path, framework: Callable[..., Plugins], table: dict[str, Any], text: str, states: dict[str, Any]
) -> None:
    run = {"source": "s", "size": "1b", "dtype": "bf16", "gpu_type": "h100", "gpus": [64, 128]}
    base = {**run, "step_time_s": [1.5, 2.5], "global_batch_size": [8, 16], "mfu_percent": [30, 40]}
    example = {"source": "s", "text": text, "states": states, "gpu_type": "h100", "dtype": "bf16", "size": "1b"}
    file = {"tables": [base | table], "examples": [example]}
    path.write_bytes(_toml(file))
    try:
        found = audit_file(path, framework([toy()]), Config())
    except UsageError as error:
        assert str(error)
    else:
        assert json.loads(msgspec.json.encode(found))["cells"] == found.cells


def _toml(file: dict[str, Any]) -> bytes:
    """Write plain values as TOML; JSON strings and lists are valid TOML."""
    lines = []
    for name, items in file.items():
        for item in items:
            lines.append(f"[[{name}]]")
            for key, value in item.items():
                inline = isinstance(value, dict)
                lines.append(f"{key} = " + (_inline(value) if inline else _plain(value)))
    return "\n".join(lines).encode()


def _inline(value: dict[str, Any]) -> str:
    return "{ " + ", ".join(f"{key} = {_plain(item)}" for key, item in value.items()) + " }"


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_plain, value)) + "]"
    return json.dumps(value).replace("NaN", "nan").replace("Infinity", "inf")


def test_an_example_without_a_figure_is_an_error(path: Path, framework: Callable[..., Plugins]) -> None:
    path.write_text(FILE.replace("2048 * 128 / 1.7 = 145202", "it is fast"))
    with pytest.raises(UsageError, match=r"example 'it is fast' .*: nothing can be computed"):
        audit_file(path, framework([toy()]), Config())


@pytest.mark.parametrize(
    ("states", "kind", "recomputed"),
    [
        ("peak_tflops = 1979", "peak", 989),
        ("model_flops = 1e15", "formula", flops(SHAPE).full),
        ("step_time_s = 1.8, gpus = 0", "table", 1.7),
        ("mfu_percent = 12.5", "table", round(RIGHT_MFU, 4)),
    ],
)
def test_stated_figures_are_compared_with_known_ones(
    path: Path, framework: Callable[..., Plugins], states: str, kind: str, recomputed: float
) -> None:
    figures = states.replace(", gpus = 0", "")
    path.write_text(
        FILE.replace("145202", "154202")
        + f'size = "1b"\ndtype = "bf16"\ngpu_type = "h100"\ngpus = 64\nstates = {{ {figures} }}\n'
    )
    (example,) = audit_file(path, framework([toy()]), Config()).examples
    assert (example.kind, example.field) == (kind, figures.split(" = ")[0])
    assert example.recomputed == pytest.approx(recomputed)


@pytest.mark.parametrize(("peak", "right"), [(1000, 1000), (1979, 989), (98.9, 989)])
def test_an_example_is_recomputed_with_its_own_peak_only_if_that_is_near_the_data_sheets(
    path: Path, framework: Callable[..., Plugins], peak: float, right: float
) -> None:
    example = FILE.partition("[[examples]]")[0]
    table = example.replace("bf16", "fp8")
    path.write_text(f'{table}{example}peak_tflops = {peak}\nkind = "example"\n')
    found = audit_file(path, framework([toy()]), Config(), tolerance=0.001).examples
    figures = [item.recomputed for item in found if item.field == "mfu"]
    assert figures and figures == [pytest.approx(RIGHT_MFU / 100 * 989 / right)] * len(figures)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, shipped: Plugins, tmp_path: Path) -> Callable[..., str]:
    (tmp_path / "llmbx.toml").touch()
    monkeypatch.setattr(plugins_module, "load", lambda: shipped)
    monkeypatch.setenv("LLMBX_CONFIG", str(tmp_path / "llmbx.toml"))

    def invoke(*arguments: str) -> str:
        done = CliRunner().invoke(command, list(arguments), catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    return invoke


def test_the_json_is_one_object_with_these_members(run: Callable[..., str]) -> None:
    found = json.loads(run("--format", "json"))
    assert list(found) == ["cells", "disputed", "rows", "examples"]
    assert found["cells"] == 243
    assert list(found["disputed"][0]) == [
        "source", "workload", "size", "dtype", "gpu_type", "gpus", "field", "published", "recomputed",
        "difference_percent", "reason",
    ]  # fmt: skip
    assert len(json.loads(run("-w", "grok1", "--format", "json"))["disputed"]) == 4
    assert json.loads(run("--plugin", "maxtext", "--format", "json"))["disputed"] == []
    assert len(json.loads(run("--tolerance", "2%", "--format", "json"))["disputed"]) == 14


def test_the_table_and_the_csv_list_all_findings(run: Callable[..., str]) -> None:
    text = run("-w", "llama4")
    assert "18.71 %" in text and "37.43 %" in text and "-50.0 %" in text
    assert "the MFU is computed with the FP8 peak (4900 TFLOPS) for a BF16 run" in text
    assert text.index("Cells") < text.index("Configuration rows") < text.index("Worked examples")
    lines = run("-w", "llama4", "--format", "csv").splitlines()
    assert lines[0].startswith("kind,source,workload,recipe,size")
    assert {line.split(",")[0].strip('"') for line in lines[1:]} == {"cell", "row", "example"}


def test_a_copy_of_the_file_of_a_plugin_is_recognized(run: Callable[..., str], tmp_path: Path) -> None:
    import llmbx_nemo

    source = Path(llmbx_nemo.__path__[0]) / "references" / "grok1.toml"
    copy = tmp_path / "copy.toml"
    copy.write_text(source.read_text().replace("286300.61", "296300.61"))
    found = json.loads(run(str(copy), "--format", "json"))
    assert found["cells"] == 24
    assert found["disputed"][0]["published"] == 296300.61
    assert len(found["disputed"]) == 5


BARE = """
[[tables]]
source = "my cluster"
size = "{size}"
dtype = "bf16"
gpu_type = "{gpu_type}"
gpus = [64]
step_time_s = [1.7]
tokens_per_s = [154202]
"""


@pytest.mark.parametrize(
    ("head", "size", "gpu_type", "says"),
    [
        ("", "1bb", "h100", r"no workload has a size '1bb' \(did you mean '1b'\?\)"),
        ('workload = "toi"', "1b", "h100", r"no workload named 'toi' \(did you mean 'toy'\?\)"),
        ('workload = "toy"', "1bb", "h100", r"toy has no size '1bb' \(did you mean '1b'\?\)"),
        ('workload = "toy"', "1b", "h10", r"no GPU type named 'h10' \(known: a10, "),
    ],
)
def test_the_name_that_prevents_recomputing_is_named(
    head: str, size: str, gpu_type: str, says: str, tmp_path: Path, framework: Callable[..., Plugins]
) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text(head + BARE.format(size=size, gpu_type=gpu_type))
    with pytest.raises(UsageError, match=f"no figure can be recomputed: {says}.*; set sequence_length"):
        audit_file(path, framework([toy()]), Config())
