"""Measure the error of predictions for figures that are left out, beside three simple baselines.

Usage: python benchmarks/predict/errors.py [FOLDER] [--write]

FOLDER has the tables that are not shipped (vtrain/, megatron_lm_golden_values.csv); the default is the variable
PREDICT_DATA. Each group is left out and the prediction calibrated again without it: coefficients and outliers are
learned from the rest; the scales of the kernel and the widths of the intervals are those that ship. `--write` puts the
output into docs/prediction.md.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path

import by_group
import folds
import numpy as np
from folds import Used, groups, series
from sources import BRIDGE

from llmbx.api import RunSpec, UsageError, Workload
from llmbx.config.profiles import Config
from llmbx.config.request import Request
from llmbx.plugins.manager import Plugins, load
from llmbx.resolve import resolve
from llmbx_prediction.atlas import table
from llmbx_prediction.atlas.row import HELD_OUT, Row
from llmbx_prediction.case import Case
from llmbx_prediction.cost.model import of_shape
from llmbx_prediction.prediction import Predictor
from llmbx_prediction.regression.shipped import Calibration, calibration, usable
from llmbx_prediction.specification import of_spec

Predicted = dict[int, tuple[float, float, float]]
"""Index of a figure -> predicted seconds, and the ends of the interval."""
Subset = Callable[[Row], bool]


def left_out(used: Used, keys: Sequence[Hashable], wanted: Sequence[bool], shipped: Calibration) -> Predicted:
    """The prediction of every wanted figure by the figures of all other groups, with its interval.

    Figures of models that would be unknown are left out.
    """
    found: Predicted = {}
    for index, (mean, deviation, known) in folds.left_out(
        used, keys, wanted, shipped.coefficients, shipped.scales
    ).items():
        factor = shipped.width(used[index][1], known)
        if factor is None:
            continue
        width = float(np.exp(deviation * factor))
        found[index] = mean, mean / width, mean * width
    return found


def line(name: str, used: Used, found: Predicted) -> None:
    """Print the error of predictions: mean, median, 90th percentile of the absolute error, and the coverage."""
    if not found:
        return
    errors = [abs(mean / used[index][2] - 1) for index, (mean, _, _) in found.items()]
    inside = [low <= used[index][2] <= high for index, (_, low, high) in found.items()]
    known = any(low < high for _, low, high in found.values())
    coverage = f"{100 * statistics.mean(inside):9.1f}" if known else f"{'-':>9}"
    widths = [high / low for _, low, high in found.values()]
    print(f"  {name:34} {len(errors):5} {100 * statistics.mean(errors):7.1f} {100 * statistics.median(errors):7.1f} "
          f"{100 * float(np.quantile(errors, 0.9)):7.1f} {coverage} {statistics.median(widths):7.2f}")  # fmt: skip


def heading(text: str) -> None:
    """Print the heading of a table of errors."""
    print(f"\n{text}\n  {'':34} {'n':>5} {'mean':>7} {'median':>7} {'p90':>7} {'coverage':>9} {'width':>7}")


def exactly(seconds: dict[int, float]) -> Predicted:
    """Predictions without an interval."""
    return {index: (value, value, value) for index, value in seconds.items()}


def constant(used: Used, keys: Sequence[Hashable], wanted: Sequence[bool]) -> Predicted:
    """The median TFLOP/s of the other groups on the same GPU with the same dtype."""
    rates = [row.tflops_per_gpu() or 0.0 for row, *_ in used]
    found = {}
    for index, (_, case, seconds) in enumerate(used):
        same = [
            rates[other] for other, (_, c, _) in enumerate(used)
            if keys[other] != keys[index] and (c.gpu_type, c.dtype) == (case.gpu_type, case.dtype) and wanted[other]
        ]  # fmt: skip
        if wanted[index] and same:
            found[index] = seconds * rates[index] / statistics.median(same)
    return exactly(found)


def additive(used: Used, keys: Sequence[Hashable], wanted: Sequence[bool]) -> Predicted:
    """Least squares of log TFLOP/s with one effect for each model, GPU type and dtype."""
    rates = np.log([row.tflops_per_gpu() or 1.0 for row, *_ in used])
    names: dict[Hashable, int] = {}
    keyed = [("all", ("model", row.model), ("gpu", case.gpu_type), ("dtype", case.dtype)) for row, case, _ in used]
    effects = [[names.setdefault(key, len(names)) for key in one] for one in keyed]
    design = np.zeros((len(used), len(names)))
    for index, columns in enumerate(effects):
        design[index, columns] = 1
    found = {}
    for key in dict.fromkeys(keys):
        rest = [i for i in range(len(used)) if keys[i] != key and wanted[i]]
        inner = design[rest].T @ design[rest] + 1e-3 * np.eye(len(names))
        effect = np.linalg.solve(inner, design[rest].T @ rates[rest])
        for index in (i for i in range(len(used)) if keys[i] == key and wanted[i]):
            found[index] = used[index][2] * float(np.exp(rates[index] - design[index] @ effect))
    return exactly(found)


def previous(used: Used, wanted: Sequence[bool]) -> Predicted:
    """The same cell's figure of the release before, with the same tokens/s."""
    cells: dict[Hashable, list[int]] = defaultdict(list)
    for index, (row, case, _) in enumerate(used):
        if wanted[index]:
            cells[row.source, row.model, case.gpu_type, case.gpus, case.dtype, row.task].append(index)
    found = {}
    for members in cells.values():
        ordered = sorted(members, key=lambda index: used[index][0].when)
        for before, after in itertools.pairwise(ordered):
            rate = used[before][1].tokens_per_gpu / used[before][2]
            found[after] = used[after][1].tokens_per_gpu / rate
    return exactly(found)


def scaling(used: Used, shipped: Calibration) -> None:
    """Weak scaling: the smallest scale of each series predicts the larger ones."""
    keys = groups(used, "scale")
    counts: dict[Hashable, set[int]] = defaultdict(set)
    first: dict[Hashable, int] = {}
    for index, (row, case, _) in enumerate(used):
        key = series(row, case)
        counts[key].add(row.gpus)
        if key not in first or row.gpus < used[first[key]][0].gpus:
            first[key] = index
    wanted = [len(counts[series(row, case)]) > 1 and first[series(row, case)] != index and case.gpus >= 8
              and _same_work(case, used[first[series(row, case)]][1])
              for index, (row, case, _) in enumerate(used)]  # fmt: skip
    heading("Weak scaling: the larger scales of each series, by its smallest one")
    line("llmbx", used, left_out(used, keys, wanted, shipped))
    same = {index: used[index][1].tokens_per_gpu * used[start][2] / used[start][1].tokens_per_gpu
            for index, (row, case, _) in enumerate(used) if wanted[index]
            for start in [first[series(row, case)]]}  # fmt: skip
    line("the same tokens/s per GPU", used, exactly(same))


def _same_work(case: Case, first: Case) -> bool:
    names = ("model", "tp", "pp", "cp", "ep", "vp", "mbs")
    same = all(getattr(case, name) == getattr(first, name) for name in names)
    return same and abs(case.tokens_per_gpu / first.tokens_per_gpu - 1) < 0.1


def published(used: Used, shipped: Calibration) -> None:
    """The errors on the shipped table, for the newest source and for all."""
    subsets: dict[str, Subset] = {
        "Megatron-Bridge, pre-training": lambda row: row.source == BRIDGE and row.task == "pretrain",
        "all published figures": lambda row: True,
    }
    for name in ("model and GPU", "release", "model", "GPU"):
        keys = groups(used, name)
        ours = left_out(used, keys, [True] * len(used), shipped)
        for title, subset in subsets.items():
            wanted = [subset(row) for row, *_ in used]
            heading(f"{title}: {name} left out")
            line("llmbx", used, {index: one for index, one in ours.items() if wanted[index]})
            line("constant TFLOP/s by GPU and dtype", used, constant(used, keys, wanted))
            line("log-additive in model, GPU, dtype", used, additive(used, keys, wanted))
            if name == "release":
                before = previous(used, wanted)
                line("llmbx, where one was before", used, {index: ours[index] for index in before})
                line("the release before", used, before)


def held_out() -> None:
    """The figures that predictions never learn from: by all others, and by those of other models."""
    print("\nFigures that are held out")
    for row in (row for row in table.shipped() if row.note == HELD_OUT):
        case, seconds = row.case(), row.step_time_s
        assert case is not None and seconds is not None
        print(f"  {row.model} on {row.gpus} x {row.gpu_type} {row.dtype}, {row.organization}: {seconds:.4g} s")
        others = [other for other in table.shipped() if other.model != row.model]
        for title, rows in (("all", table.shipped()), ("of other models", others)):
            step = Predictor(rows).predict(case, "").step_time_s
            if step.value is None:
                print(f"    by figures {title}: unknown")
                continue
            print(f"    by figures {title}: {step.value:.4g} s ({step.low:.4g} to {step.high:.4g}), "
                  f"{100 * (step.value / seconds - 1):+.1f} %")  # fmt: skip


def commonest(used: Used) -> None:
    """Llama 3.1 8B in FP8 on 8 H100 by sequences of 8,192: the figures inside, without their release and their cell."""
    asked = [figure for figure in used if (figure[0].model, figure[1].gpu_type, figure[1].dtype, figure[1].gpus,
             figure[1].seq) == ("llama3.1-8b", "h100", "fp8", 8, 8192)]  # fmt: skip
    print("\nLlama 3.1 8B in FP8 on 8 H100")
    rests: dict[str, Callable[[Row, Row], bool]] = {
        "release": lambda row, other: (row.source, row.release) == (other.source, other.release),
        "cell": lambda row, other: (row.model, row.gpu_type, row.gpus) == (other.model, other.gpu_type, other.gpus),
    }
    for name, same in rests.items():
        inside, errors = 0, []
        for row, case, seconds in asked:
            step = Predictor([other for other, *_ in used if not same(row, other)]).predict(case, "").step_time_s
            inside += step.low is not None and step.high is not None and step.low <= seconds <= step.high
            errors.append("unknown" if step.value is None else f"{100 * (step.value / seconds - 1):+.1f}")
        print(f"  {name} left out: {inside} of {len(asked)} inside; errors in percent: {', '.join(errors)}")


ROUNDED = 1e-5
"""The table has seven digits of a figure."""


def catalog() -> None:
    """The catalog's configurations with a published step time, as `llmbx predict` asks for them.

    Most of these figures are in the table, so the errors are not those of unseen configurations. They show that the
    catalog's configuration and the published one are taken for the same.
    """
    plugins, predictor = load(), Predictor(table.shipped())
    errors, inside, outside = [], 0, []
    for workload in plugins.workloads:
        for spec, printed in _cells(plugins, workload):
            model = of_shape(spec.model, f"{workload.name}-{spec.size}")
            step = predictor.predict(of_spec(spec, model, workload), "").step_time_s
            if step.value is None or step.low is None or step.high is None:
                continue
            errors.append(abs(step.value / printed - 1))
            within = step.low * (1 - ROUNDED) <= printed <= step.high * (1 + ROUNDED)
            inside += within
            if not within:
                outside.append(f"{workload.name} {spec.size} {spec.dtype} {spec.gpus} x {spec.gpu_type} "
                               f"({spec.recipe}): {step.value:.4g} s, published {printed:.4g} s")  # fmt: skip
    print(f"\nConfigurations of the catalog with a published step time, most of them known\n  "
          f"{len(errors)} configurations: mean error {100 * statistics.mean(errors):.1f} %, "
          f"{inside} within their interval")  # fmt: skip
    for text in outside:
        print(f"  outside: {text}")


def _cells(plugins: Plugins, workload: Workload) -> Iterator[tuple[RunSpec, float]]:
    """Each configuration on GPUs with a published step time, once."""
    asked = {(one.size, one.dtype, one.gpu_type, one.gpus, one.recipe): None
             for one in workload.references if one.step_time_s}  # fmt: skip
    for size, dtype, gpu_type, gpus, recipe in asked:
        request = Request(workload=workload.name, plugin=workload.plugin, size=size, dtype=dtype, gpu_type=gpu_type,
                          gpus=gpus, recipe=recipe)  # fmt: skip
        try:
            spec = resolve(request, plugins, Config(), {}, {})
        except UsageError:
            continue
        printed = spec.exact_row(workload)
        if printed is not None and printed.step_time_s is not None and not spec.mini:
            yield spec, printed.step_time_s


def main(folder: str | None) -> None:
    """Print all tables."""
    used, shipped = usable(table.shipped()), calibration()
    published(used, shipped)
    scaling(used, shipped)
    held_out()
    commonest(used)
    catalog()
    if folder is None:
        print("\nvTrain and golden values: not measured; name the folder or set PREDICT_DATA")
        return
    import vtrain

    vtrain.measure(Path(folder), used, shipped)
    import golden

    golden.measure(Path(folder))


def write(folder: str | None) -> None:
    """Put what is printed into docs/prediction.md."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        main(folder)
    by_group.write(["```text", printed.getvalue().strip("\n"), "```"], "<!-- errors.py -->")


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--write"]
    (write if "--write" in sys.argv else main)(words[0] if words else os.environ.get("PREDICT_DATA"))
