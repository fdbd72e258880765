"""Compare the same cell on each node alone: with the other nodes, and with the prediction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from llmbx.api import Expected, Result, RunSpec
from llmbx_verdict.statistics.outliers import PRIOR_OF_RUNS, places

from .cells import Cell
from .state import Slot
from .summary import Row


def compared(
    cells: Sequence[Cell],
    rows: Sequence[Row],
    results: Mapping[Slot, Result],
    predict: Callable[[RunSpec], Expected],
) -> list[Row]:
    """The rows with how slow each node is. `predict` says what a cell is expected to take."""
    families: dict[str, list[int]] = defaultdict(list)
    for number, cell in enumerate(cells):
        if cell.node:
            families[cell.key.replace(f" node={cell.node}", "")].append(number)
    judged = list(rows)
    for numbers in families.values():
        times = {str(cells[number].node): _times(cells[number], results) for number in numbers}
        standing = places({node: values for node, values in times.items() if values}, prior=PRIOR_OF_RUNS)
        expected = predict(cells[numbers[0]].spec).step_time_s
        for number in numbers:
            row = rows[number].replace(predicted_step_time_s=expected.value)
            place = standing.get(str(cells[number].node))
            if place is not None:
                row = row.replace(slower=place.slower, slower_low=place.low, slower_high=place.high, slow=place.slow)
            if row.step_time_s is not None and expected.low is not None and expected.high is not None:
                row = row.replace(against_prediction=_side(row.step_time_s, expected.low, expected.high))
            judged[number] = row
    return judged


def _times(cell: Cell, results: Mapping[Slot, Result]) -> list[float]:
    """The mean step times of the repeats that measured something."""
    done = [results.get((cell.key, number + 1)) for number in range(cell.repeats)]
    means = [result.step_time_s.mean for result in done if result is not None and result.data_valid]
    return [mean for mean in means if mean]


def _side(measured: float, low: float, high: float) -> str:
    return "slower" if measured > high else "faster" if measured < low else "within"
