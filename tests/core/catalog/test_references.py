"""Published figures are rounded: how far the true value may be from the printed one."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmbx.catalog.references import load_references

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
    found = [row.step_time_rounding_s for row in load_references(tmp_path / "r.toml")]
    assert found == pytest.approx(half)


def test_a_computed_step_time_has_the_rounding_of_what_was_printed(tmp_path: Path) -> None:
    """14,000 tokens/s per GPU, rounded to one token: 1 part in 28,000 of 256 x 8,192 / (14,000 x 8) = 18.72 s."""
    table = "gpus = [8]\nglobal_batch_size = [256]\nsequence_length = 8192\ntokens_per_s_per_gpu = [14000]\n"
    (tmp_path / "r.toml").write_text(f"[[tables]]\n{HEAD}{table}")
    (row,) = load_references(tmp_path / "r.toml")
    assert row.step_time_s == pytest.approx(18.7246, rel=1e-4)
    assert row.step_time_rounding_s == pytest.approx(18.7246 / 28_000, rel=1e-4)
