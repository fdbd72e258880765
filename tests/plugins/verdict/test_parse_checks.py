"""`llmbx parse` makes the checks of a run: the same log is read as a run's and as a stranger's.

Logs of each format with their lines reversed, shuffled, or put together from parts are refused.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.logs.parser import LogFormat
from llmbx.measure.figures import measure
from llmbx.model import RunSpec
from llmbx.plugins.manager import load
from llmbx.run.assess import gather
from llmbx.run.checks import run_checks
from llmbx.run.collect import collect_file
from llmbx_parse.find import find_logs
from llmbx_parse.rows import Row, parse_logs
from llmbx_parse.table import as_json
from llmbx_verdict.checks import GROUPS
from llmbx_verdict.checks.common import NO_SPEC
from llmbx_verdict.judge import IntervalJudge

COMPARED = {
    "loss-start", "batch", "tokens", "steps", "ranks", "stated-batch", "micro-batch", "sequence", "layers",
    "hidden-size", "shape", "vocabulary", "parameters", "dtype", "over-peak", "near-peak", "fast-step", "restarted",
    "gpu-type", "gpu-count", "gpu-power", "gpu-clock", "gpu-mixed", "gpu-driver", "gpu-unseen", "backend",
    "gpu-unused", "node-mixed", "same-host",
}  # fmt: skip
"""Checks that compare a log with what was asked for."""


def line(k: int, **changes: object) -> str:
    values = {
        "stamp": f"2026-01-01 10:{k // 60:02}:{k % 60:02}", "number": k, "consumed": 64 * k, "time": 1000.0 + k % 3,
        "lr": "1.0E-05", "batch": 64, "loss": f"{11 - k / 10:.6E}", "grad": 1.5, "skipped": 0, "nan": 0, **changes,
    }  # fmt: skip
    return (
        " [{stamp}] iteration {number}/ 50 | consumed samples: {consumed} | elapsed time per iteration (ms): {time} | "
        "learning rate: {lr} | global batch size: {batch} | lm loss: {loss} | grad norm: {grad} | "
        "number of skipped iterations: {skipped} | number of nan iterations: {nan} |"
    ).format(**values)


BEGUN = "[after megatron is initialized] datetime: 2026-01-01 10:00:00"
END = "[after training is done] datetime: 2026-01-01 10:01:00"


def log(change: Callable[[int], dict[str, object]] = lambda k: {}, end: tuple[str, ...] = (END,)) -> list[str]:
    return [*(line(k, **change(k)) for k in range(1, 51)), *end]


NAME = "megatron-lm"

FAULTS: dict[str, tuple[list[str], str | None]] = {
    "none": (log(), None),
    "nan": (log(lambda k: {"loss": "NaN", "nan": 1} if k == 30 else {}), "loss-not-finite"),
    "constant": (log(lambda k: {"loss": "1.0E+01"}), "loss-constant"),
    "negative": (log(lambda k: {"loss": "-1.0E+00"} if k == 9 else {}), "loss-negative"),
    "rising": (log(lambda k: {"loss": f"{5 + k / 10:.6E}"}), "loss-rising"),
    "gradients": (log(lambda k: {"grad": 0.0}), "gradient-zero"),
    "rates": (log(lambda k: {"lr": "0.0E+00"}), "rate-zero"),
    "skipped": (log(lambda k: {"skipped": 1} if k < 5 else {}), "some-skipped"),
    "consumed": (log(lambda k: {"consumed": 32 * k}), "consumed-samples"),
    "clock": (log(lambda k: {"time": 100.0}), "clock-long"),
    "fast clock": (log(lambda k: {"time": 2000.0}), "clock-short"),
    "share": (log(lambda k: {"skipped": 1} if k > 38 else {}), "window-share"),
    "gap": ([text for k, text in enumerate(log()) if k != 20], "step-gap"),
    "twice": ([*log()[:20], line(20, loss="9.9E+00"), *log()[20:]], "step-twice"),
    "writers": ([text for k in range(1, 51) for text in (line(k), line(k, loss="1.2E+01"))] + [END], "two-writers"),
    "number": (log(lambda k: {"number": 3} if k == 30 else {}), "out-of-order"),
    "no end": ([BEGUN, *log(end=())], "last-line"),
    "crash": (log(end=(END, "RuntimeError: CUDA error: an illegal memory access was encountered")), "crash-at-end"),
    "inside": ([*log()[:10], "torch.OutOfMemoryError: CUDA out of memory.", *log()[10:]], "failure-inside"),
    "reversed": (log()[::-1], "out-of-order"),
    "mixed": ([*log()[::-1], *log()[::-1]], "out-of-order"),
}


@pytest.fixture
def format_() -> LogFormat:
    return next(found for found in load().log_formats() if found.name == NAME)


def as_stranger(path: Path, format_: LogFormat) -> Row:
    (row,) = parse_logs(find_logs([path]), [format_], load(), "35-44")
    return row


def as_run(path: Path, spec: RunSpec, format_: LogFormat) -> dict[str, str]:
    """The findings about the same log, if a run of llmbx asked for exactly this job."""
    parser = format_.parser()
    read = collect_file(parser, path)
    figures = measure(spec, read.steps, None, "35-44", 1)
    found = gather(None, read, parser.prints, figures, first=1, ended_well=True)
    outcomes = run_checks(found.replace(spec=spec), IntervalJudge().checks())
    return {each.check: each.outcome for each in outcomes if each.outcome != "not possible"}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_strangers_log_has_the_findings_of_a_run(
    tmp_path: Path, make_spec: Callable[..., RunSpec], format_: LogFormat, fault: str
) -> None:
    lines, check = FAULTS[fault]
    path = tmp_path / "log-x.out"
    path.write_text("\n".join(lines) + "\n")
    spec = make_spec(global_batch_size=64, steps=50, window="35-44")
    row = as_stranger(path, format_)
    mine = {each.check: each.outcome for each in row.checks if each.outcome != "not possible"}
    theirs = {name: outcome for name, outcome in as_run(path, spec, format_).items() if name not in COMPARED}
    assert mine == theirs
    assert (check in mine) if check else mine == {}
    assert row.valid == ("invalid" not in mine.values())
    if row.valid and "failed" in mine.values():
        assert row.status == "Failed (after its last step)" and row.cause


def test_an_excerpt_of_the_last_steps_shows_no_divergence(tmp_path: Path, format_: LogFormat) -> None:
    path = tmp_path / "log-x.out"
    known_by_heart = log(lambda k: {"loss": "1.0E-01" if k % 4 else "9.0E-01"})
    path.write_text("\n".join(known_by_heart[21:]) + "\n")
    assert [each for each in as_stranger(path, format_).checks if each.outcome == "invalid"] == []


@pytest.mark.parametrize("count", [50, 47])
def test_an_excerpt_is_no_failure(tmp_path: Path, format_: LogFormat, count: int) -> None:
    path = tmp_path / "log-x.out"
    path.write_text("\n".join(log(end=())[:count]) + "\n")
    row = as_stranger(path, format_)
    assert (row.status, row.figures.steps_measured) == ("Success", 10)
    assert any("excerpt" in line for line in row.warnings) == (count == 50)  # else the note says where the log ends


def test_only_checks_that_compare_with_what_was_asked_for_need_a_run(tmp_path: Path, format_: LogFormat) -> None:
    path = tmp_path / "log-x.out"
    path.write_text("\n".join(log()) + "\n")
    need = {each.check for each in as_stranger(path, format_).checks if each.text == NO_SPEC.reason}
    assert need == COMPARED - {"loss-start"}  # which says that the vocabulary is not known
    assert {check.id for group in GROUPS.values() for check in group} > COMPARED


def test_the_warnings_about_the_measured_steps_are_those_of_a_run(
    tmp_path: Path, make_spec: Callable[..., RunSpec], format_: LogFormat
) -> None:
    path = tmp_path / "log-x.out"
    path.write_text("".join(f"{text}\n" for text in log() if not re.search(r"iteration +(38|41)/", text)))
    spec = make_spec(global_batch_size=64, steps=50, window="35-44")
    notes = measure(spec, collect_file(format_.parser(), path).steps, None, "35-44", 1).warnings
    assert notes and set(notes) <= set(as_stranger(path, format_).warnings)


def test_a_log_that_ends_before_its_announced_last_step_says_so(tmp_path: Path, format_: LogFormat) -> None:
    path = tmp_path / "log-x.out"
    path.write_text("".join(f"{text}\n" for text in log()[:47]))
    row = as_stranger(path, format_)
    assert row.valid, "the training may go on"
    (found,) = (line for line in row.warnings if "the log ends with step" in line)
    assert re.match(r"the log ends with step 4\d of 50: the training failed, or continues", found)


def test_a_log_that_ends_with_a_failure_before_its_announced_last_step_failed(
    tmp_path: Path, format_: LogFormat
) -> None:
    path = tmp_path / "log-x.out"
    end = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    path.write_text("".join(f"{text}\n" for text in [*log()[:47], end]))
    row = as_stranger(path, format_)
    assert re.fullmatch(r"Failed \(ended with step 4\d of 50\)", row.status)
    assert not row.valid and row.cause == end
    assert row.figures.step_time_s.mean, "what was measured is shown all the same"


def test_a_log_without_the_steps_of_the_window_says_so_and_what_to_do(tmp_path: Path, format_: LogFormat) -> None:
    path = tmp_path / "log-x.out"
    path.write_text("".join(f"{text}\n" for text in log() if not re.search(r"iteration +(3[5-9]|4[0-4])/", text)))
    row = as_stranger(path, format_)
    assert not row.valid
    assert "nothing was measured in the window 35-44: no step in it has a time; try --window auto" in row.warnings


@pytest.mark.parametrize("end", ["", "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory"])
def test_a_log_that_ends_with_a_failure_failed_even_if_it_announces_no_last_step(end: str, tmp_path: Path) -> None:
    """MaxText does not say how many steps there will be."""
    line = "completed step: {}, seconds: {:.3f}, TFLOP/s/device: 1.0, Tokens/s/device: 2048.0, loss: {:.3f}"
    lines = [line.format(k, 1 + k % 3 / 100, 11 - k / 10) for k in range(40)]
    (tmp_path / "log.out").write_text("\n".join([*lines, end]) + "\n")
    (row,) = parse_logs(find_logs([tmp_path / "log.out"]), load().log_formats(), load())
    assert row.status == ("Failed (ended with step 39)" if end else "Success")
    assert row.cause == (end or None)


def test_a_failure_inside_a_log_that_announces_no_last_step_is_found(tmp_path: Path) -> None:
    line = "completed step: {}, seconds: {:.3f}, TFLOP/s/device: 1.0, Tokens/s/device: 2048.0, loss: {:.3f}"
    lines = [line.format(k, 1 + k % 3 / 100, 11 - k / 10) for k in range(40)]
    lines.insert(20, "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.")
    (tmp_path / "log.out").write_text("\n".join(lines) + "\n")
    (row,) = parse_logs(find_logs([tmp_path / "log.out"]), load().log_formats(), load())
    assert row.status == "Success" and any("fallen off the bus" in warning for warning in row.warnings)


def test_another_batch_inside_the_window_of_a_strangers_log(tmp_path: Path, format_: LogFormat) -> None:
    def ramped(first: int) -> Row:
        consumed = {"consumed": 0}

        def change(k: int) -> dict[str, object]:
            batch = 64 if k >= first else 32
            consumed["consumed"] += batch
            return {"batch": batch, **consumed}

        path = tmp_path / "log-x.out"
        path.write_text("\n".join(log(change)) + "\n")
        return as_stranger(path, format_)

    assert [each.check for each in ramped(20).checks if each.outcome != "not possible"] == []
    (found,) = (each for each in ramped(40).checks if each.outcome != "not possible")
    assert (found.check, found.outcome) == ("work-changes", "not comparable")
    assert found.text == "step 40 has 64 samples, step 35 has 32"


EXPERIMENTS = Path(__file__).parents[2] / "fixtures" / "logs" / "experiments"


def fixture(name: str) -> list[str]:
    (path,) = EXPERIMENTS.rglob(f"log-*{name}*.out")
    return path.read_text().splitlines()


def maxtext(stamp: bool = False) -> list[str]:
    """The lines of a MaxText run of 50 steps, whose times differ; with absl's stamps, if asked for."""
    lines, at = [], 0.0
    for k in range(50):
        seconds = 7.9 + 0.001 * (k * 7 % 50)
        at += seconds
        head = f"I1121 07:{int(at // 60):02}:{at % 60:09.6f} 1403 metric_logger.py:265] " if stamp else ""
        tail = f"Tokens/s/device: 1035.970, total_weights: 524288, loss: {11 - k / 10:.3f}"
        lines.append(f"{head}completed step: {k}, seconds: {seconds:.3f}, TFLOP/s/device: {460 + k / 10:.3f}, {tail}")
    return lines


LOGS: dict[str, Callable[[], list[str]]] = {
    "megatron": lambda: fixture("658572"),
    "nemo2": lambda: fixture("388660"),
    "maxtext": maxtext,
    "maxtext-stamps": lambda: maxtext(stamp=True),
}


def reverse(lines: list[str]) -> list[str]:
    return lines[::-1]


def two_shuffled(lines: list[str]) -> list[str]:
    return shuffled(lines * 2)


def shuffled(lines: list[str]) -> list[str]:
    return random.Random(7).sample(lines, len(lines))


def second_half_first(lines: list[str]) -> list[str]:
    return [*lines[len(lines) // 2 :], *lines[: len(lines) // 2]]


def parsed(folder: Path, lines: list[str], window: str = "35-44") -> Row:
    path = folder / "log-x.out"
    path.write_text("\n".join(lines) + "\n")
    (row,) = parse_logs(find_logs([path]), load().log_formats(), load(), window)
    return row


@pytest.mark.parametrize("format_", LOGS)
@pytest.mark.parametrize(
    "change", [lambda lines: lines[::-1], shuffled, second_half_first, lambda lines: shuffled(lines * 2)]
)
@pytest.mark.parametrize("window", ["35-44", "auto", "last"])
def test_a_log_out_of_order_gives_no_figure_and_names_its_first_lines(
    tmp_path: Path, format_: str, change: Callable[[list[str]], list[str]], window: str
) -> None:
    lines = LOGS[format_]()
    assert parsed(tmp_path, lines, window).valid
    row = parsed(tmp_path, change(lines), window)
    assert re.fullmatch(r"Failed \(out of order, lines \d+ and \d+\)", row.status)
    assert not row.valid
    empty = as_json(row)
    figures = ("step_time_mean_s", "step_time_min_s", "step_time_cv", "tflops_per_gpu_mean", "tokens_per_s")
    assert [empty[name] for name in figures] == [None] * 5 and row.figures.steps_measured == 0
    assert row.figures.loss.last is None and row.figures.peak_memory_gb is None
    assert [check.check for check in row.checks] == ["out-of-order"] and row.warnings == ()


@pytest.mark.parametrize("format_", ["megatron", "nemo2", "maxtext"])
def test_a_training_that_starts_again_in_the_same_log_counts_from_its_last_start(tmp_path: Path, format_: str) -> None:
    lines = LOGS[format_]()
    row = parsed(tmp_path, [*lines[: len(lines) // 2], *lines])
    assert row.valid and row.attempts == 2 and row.figures == parsed(tmp_path, lines).figures
    assert (
        "the log has 2 trainings, one after the other; the last one is measured (check several-trainings)"
        in row.warnings
    )
