"""The program that judges Megatron-LM's golden values."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "golden_stability.py"


def golden(folder: Path, name: str, times: Any, interval: int = 1) -> None:
    values = {"iteration-time": {"start_step": 1, "step_interval": interval, "values": times}}
    (folder / f"golden_values_{name}.json").write_text(json.dumps(values))


def test_real_series_are_judged_as_runs_are(tmp_path: Path) -> None:
    """One series is even, of one every tenth iteration is slow, and the others are short, sparse or no JSON."""
    golden(tmp_path, "even", {str(number): 1.0 + 1e-4 * (number % 3) for number in range(1, 51)})
    golden(tmp_path, "slow", [1.0 + 1e-4 * (number % 3) + (number % 10 == 0) for number in range(1, 51)])
    golden(tmp_path, "short", [1.0] * 10)
    golden(tmp_path, "sparse", [1.0] * 50, interval=5)
    (tmp_path / "golden_values_empty.json").write_text("")
    done = subprocess.run([sys.executable, PROGRAM, tmp_path], capture_output=True, text=True, check=True).stdout
    assert done.startswith("2 series of 5 files\n")
    assert "stable: 1 (50 %)" in done and "outliers: 1 (50 %)" in done
    assert done.endswith("with a figure: 1 by the mean alone, 2 with the median\n")
