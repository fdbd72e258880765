"""Published figures are rounded: how far the true value may be from the printed one."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmbx.catalog.references import Published
from llmbx.config.profiles import Config
from llmbx.config.request import Request
from llmbx.errors import UsageError
from llmbx.plugins.manager import load
from llmbx.resolve import resolve

HEAD = 'source = "s"\nsize = "8b"\ndtype = "bf16"\ngpu_type = "h100"\n'


@pytest.mark.parametrize(
    ("printed", "half"),
    [
        ("[9.86, 9.95, 10, 10.07]", [0.005] * 4),  # 10 was printed as 10.00
        ("[0.3, 0.4]", [0.05, 0.05]),
        ("[12, 13]", [0.5, 0.5]),
        ("[5.741470, 5.7]", [0.000005] * 2),
    ],
)
def test_half_a_unit_of_the_last_printed_place(tmp_path: Path, printed: str, half: list[float]) -> None:
    gpus = list(range(8, 8 + len(half)))
    (tmp_path / "r.toml").write_text(f"[[tables]]\n{HEAD}gpus = {gpus}\nstep_time_s = {printed}\n")
    found = [row.step_time_rounding_s for row in Published.read(tmp_path / "r.toml").references]
    assert found == pytest.approx(half)


def test_a_computed_step_time_has_the_rounding_of_what_was_printed(tmp_path: Path) -> None:
    """14,000 tokens/s per GPU, rounded to one token: 1 part in 28,000 of 256 x 8,192 / (14,000 x 8) = 18.72 s."""
    table = "gpus = [8]\nglobal_batch_size = [256]\nsequence_length = 8192\ntokens_per_s_per_gpu = [14000]\n"
    (tmp_path / "r.toml").write_text(f"[[tables]]\n{HEAD}{table}")
    (row,) = Published.read(tmp_path / "r.toml").references
    assert row.step_time_s == pytest.approx(18.7246, rel=1e-4)
    assert row.step_time_rounding_s == pytest.approx(18.7246 / 28_000, rel=1e-4)


def test_tokens_of_whole_samples_per_second_are_less_exact(tmp_path: Path) -> None:
    """8 x 39,936 / 8,192 = 39 samples/s of all GPUs, which may have been 38.5 to 39.5."""
    table = "gpus = [8]\nglobal_batch_size = [512]\nsequence_length = 8192\ntokens_per_s_per_gpu = [39936]\n"
    (tmp_path / "r.toml").write_text(f"[[tables]]\n{HEAD}{table}whole_samples = true\n")
    (row,) = Published.read(tmp_path / "r.toml").references
    assert row.step_time_s == pytest.approx(512 / 39)
    assert row.step_time_rounding_s == pytest.approx(512 / 39 * 0.5 / 39)


def test_a_figure_of_another_layout_is_that_of_another_job(tmp_path: Path) -> None:
    """The recipe has EP 8 now; the figure was measured with EP 64."""
    workload = load().workload("nemotron3", "nemo")
    asked = Request(workload="nemotron3", size="120b-a12b", dtype="mxfp8", gpu_type="b200", gpus=64)
    spec = resolve(asked, load(), Config(), {}, {})
    assert spec.exact_row(workload) is None
    assert spec.why_no_figure(workload) == (
        "the published figures are those of another job: the EP differs (64 was published, 8 was run)"
    )
    as_published = spec.replace(parallelism=spec.parallelism.replace(ep=64))
    row = as_published.exact_row(workload)
    assert row is not None and row.tokens_per_s_per_gpu == pytest.approx(6400)


def test_a_layout_has_known_degrees(tmp_path: Path) -> None:
    text = f"[[tables]]\n{HEAD}gpus = [8]\nstep_time_s = [1.5]\nlayout = {{ xp = 2 }}\n"
    (tmp_path / "r.toml").write_text(text)
    with pytest.raises(UsageError, match="expected tp, pp, cp, ep, vp, mbs >= 1, got xp = 2"):
        Published.read(tmp_path / "r.toml")
