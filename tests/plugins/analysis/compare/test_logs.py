"""The command `compare` with logs: of two strangers, beside a run, a baseline and a published row."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from llmbx.errors import UsageError
from llmbx.logs.parser import LogFormat, LogParser, Record
from llmbx.model import Reference, Step
from llmbx.plugins.manager import Plugins
from llmbx_history.tags import change_tags
from llmbx_parse import plugin as parse_plugin

from ....run_factory import RunFactory, Toy, noise
from .test_compare import Compare, compare, read, verdict_of

__all__ = ["compare"]


class Lines(LogParser):
    """`toy step N of TOTAL: S s[, batch B][, T TFLOPS][, loss L]`."""

    first_step = 0

    def feed(self, line: str) -> Iterable[Record]:
        pattern = r"toy step (\d+) of (\d+): (\S+) s(?:, batch (\d+))?(?:, (\S+) TFLOPS)?(?:, loss (\S+))?$"
        if match := re.match(pattern, line):
            number, total, time, batch, tflops, loss = match.groups()
            yield Step(
                number=int(number),
                total=int(total),
                time_s=float(time),
                global_batch_size=int(batch) if batch else None,
                tflops_per_gpu=float(tflops) if tflops else None,
                loss=float(loss) if loss else None,
            )


def policy_of(experiment: str) -> str:
    return "last" if "single" in experiment else "11-44" if "recipe" in experiment else "auto"


@pytest.fixture(autouse=True)
def formats(toy: Toy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, plugins: Plugins) -> None:
    found = [
        LogFormat("toy", "Toy", lambda text: text.count("toy step"), Lines, policy_of),
        LogFormat("other", "Other", lambda text: 2 * text.count("other toy"), Lines, policy_of),
    ]
    monkeypatch.setattr(plugins, "log_formats", lambda: found)
    monkeypatch.setattr("llmbx.plugins.manager.load", lambda: plugins)
    plugins.manager.register(parse_plugin, name="parse")
    monkeypatch.chdir(tmp_path)


def log(name: str, times: Sequence[float], more: str = ", loss L", last: int | None = None, head: str = "") -> str:
    """Write a log into the current folder; its name."""
    total = len(times) - 1 if last is None else last
    lines = [
        f"toy step {k} of {total}: {time:.6f} s{more.replace('loss L', f'loss {2 - k / 100:.2f}')}"
        for k, time in enumerate(times)
    ]
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text("\n".join([head, *lines]) + "\n")
    return name


UNKNOWN = ["workload", "size", "dtype", "gpu_type", "gpus", "global_batch_size", "sequence_length", "model",
           "instrumentation"]  # fmt: skip


@pytest.mark.parametrize(
    ("mean", "verdict", "code"),
    [(1.08, "slower", 3), (0.9, "faster", 0), (1.0, "equivalent", 0), (1.05, "inconclusive", 5)],
)
def test_two_logs_have_a_verdict_with_its_interval(compare: Compare, mean: float, verdict: str, code: int) -> None:
    done = compare(log("a.log", noise(3, 1.0)), log("b.log", noise(4, mean)), "--format", "json")
    found = read(done)
    assert (done.exit_code, found["verdict"]) == (code, verdict)
    assert found["change"]["low"] < mean - 1 < found["change"]["high"]
    assert [found[side]["kind"] for side in "ab"] == ["log", "log"]
    assert (found["a"]["runs"], found["b"]["label"]) == (["a.log"], "b.log")


def test_logs_give_the_verdict_of_the_same_runs(run_factory: RunFactory, compare: Compare) -> None:
    sides = noise(3, 1.0), noise(4, 1.08)
    runs = [run_factory.put(times).record.run_id for times in sides]
    logs = [log(f"log-{name}-recipe.out", times) for name, times in zip("ab", sides, strict=True)]
    of_runs, of_logs = (read(compare(*named, "--format", "json")) for named in (runs, logs))
    for bound in ("fraction", "low", "high"):
        assert of_logs["change"][bound] == pytest.approx(of_runs["change"][bound], abs=1e-5)
    assert of_logs["verdict"] == of_runs["verdict"]
    assert of_logs["a"]["windows"] == of_runs["a"]["windows"] == ["11-44"]


def test_what_the_logs_do_not_say_is_unknown(compare: Compare) -> None:
    names = log("a.log", noise(3, 1.0), ", batch 64, loss L"), log("b.log", noise(4, 1.0))
    found = read(compare(*names, "--format", "json"))
    assert found["b"]["unknown"] == UNKNOWN
    assert found["a"]["unknown"] == [key for key in UNKNOWN if key != "global_batch_size"]
    assert verdict_of(compare(*names)).endswith(
        "unknown: workload, size, dtype, GPU type, number of GPUs, sequence length, shape of the model, profiling and "
        "tracing (A and B); global batch size (B)"
    )


def test_nothing_is_unknown_of_runs(run_factory: RunFactory, compare: Compare) -> None:
    a, b = (run_factory.put(noise(seed, 1.0)).record.run_id for seed in (3, 4))
    found = read(compare(a, b, "--format", "json"))
    assert (found["a"]["unknown"], found["b"]["unknown"]) == ([], [])
    assert "unknown" not in found["reason"]


def test_what_both_sides_say_must_agree(run_factory: RunFactory, compare: Compare) -> None:
    a, b = log("a.log", noise(3, 1.0), ", batch 64, loss L"), log("b.log", noise(4, 1.0), ", batch 32, loss L")
    done = compare(a, b)
    assert (done.exit_code, "the global batch size differs (64 and 32)" in verdict_of(done)) == (5, True)
    run = run_factory.put(noise(4, 1.0)).record.run_id  # its batch is 64
    assert compare(run, a).exit_code == 0
    assert "the global batch size differs (64 and 32)" in verdict_of(compare(run, b))


def test_a_batch_that_changes_in_the_window_is_not_comparable(compare: Compare) -> None:
    grown = log("b.log", noise(4, 1.0), ", batch 32, loss L")
    text = Path(grown).read_text()
    Path(grown).write_text(re.sub(r"(toy step [34]\d of .*)batch 32", r"\1batch 64", text))
    assert "not comparable: b.log states several global batch sizes (32, 64)" in verdict_of(
        compare(log("a.log", noise(3, 1.0)), grown)
    )


def test_a_log_beside_a_run_is_measured_over_the_runs_window(run_factory: RunFactory, compare: Compare) -> None:
    run = run_factory.put(noise(3, 1.0)).record.run_id
    found = read(compare(run, log("b.log", noise(4, 1.08)), "--format", "json"))
    assert (found["verdict"], found["a"]["unknown"], found["b"]["unknown"]) == ("slower", [], UNKNOWN)
    assert (found["a"]["windows"], found["b"]["windows"]) == (["11-44"], ["11-44"])
    turned = read(compare("b.log", run, "--format", "json"))
    assert (turned["verdict"], turned["a"]["windows"]) == ("faster", ["11-44"])


def test_the_window_applies_to_both_sides(compare: Compare) -> None:
    names = log("a.log", noise(3, 1.0)), log("b-recipe.log", noise(4, 1.0))
    default = read(compare(*names, "--format", "json"))
    assert [default[side]["windows"] for side in "ab"] == [["16-49"], ["16-49"]]  # not the recipe's of one side only
    found = read(compare(*names, "--window", "20-44", "--format", "json"))
    assert [found[side]["windows"] for side in "ab"] == [["20-44"], ["20-44"]]


def test_a_recipe_that_measures_one_step_is_not_followed(compare: Compare) -> None:
    names = log("a-single.log", noise(3, 1.0)), log("b-single.log", noise(4, 1.0))
    assert compare(*names).exit_code == 0
    assert "only one step was measured" in verdict_of(compare(*names, "--window", "last"))


def test_what_the_user_says_about_the_logs_is_known(run_factory: RunFactory, compare: Compare) -> None:
    names = log("a.log", noise(3, 1.0)), log("b.log", noise(4, 1.0))
    found = read(compare(*names, "--workload", "mine", "--gpus", "8", "--format", "json"))
    assert found["a"]["unknown"] == [key for key in UNKNOWN if key not in ("workload", "gpus")]
    run = run_factory.put(noise(3, 1.0)).record.run_id
    assert "the number of GPUs differs (8 and 16)" in verdict_of(compare(run, "b.log", "--gpus", "16"))
    other = run_factory.put(noise(4, 1.0)).record.run_id
    with pytest.raises(UsageError, match="--gpus is for logs: a run states it"):
        compare(run, other, "--gpus", "8")


def test_a_published_figure_needs_to_know_what_the_log_trained(toy: Toy, row: Reference, compare: Compare) -> None:
    toy.references = (row,)
    b = log("b.log", noise(3, 1.08))
    with pytest.raises(UsageError, match=r"b\.log does not say what it trained: add --size, --dtype, --gpu-type"):
        compare(b, "--reference", "--workload", "line", "--gpus", "8")
    stated = ("--workload", "line", "--size", "1b", "--dtype", "BF16", "--gpu-type", "h100", "--gpus", "8")
    done = compare(b, "--reference", *stated, "--format", "json")
    found = read(done)
    assert (done.exit_code, found["verdict"], found["a"]["kind"]) == (3, "slower", "reference")
    assert found["b"]["unknown"] == ["global_batch_size", "sequence_length", "model", "instrumentation"]
    log("b.log", noise(3, 1.0), ", batch 32, loss L")
    assert "the global batch size differs (64 and 32)" in verdict_of(compare(b, "--reference", *stated))


def test_a_log_with_a_baseline(run_factory: RunFactory, compare: Compare) -> None:
    run = run_factory.put(noise(3, 1.0))
    change_tags(run, add=("good",))
    b = log("b.log", noise(4, 1.08), ", batch 64, loss L")
    for arguments in ((b, "--baseline", "good"), ("@good", b)):
        done = compare(*arguments, "--format", "json")
        assert (done.exit_code, read(done)["a"]["runs"]) == (3, [run.record.run_id])
        assert read(done)["a"]["windows"] == read(done)["b"]["windows"]


def test_the_logs_of_a_folder_are_repeats(compare: Compare) -> None:
    for k in range(3):
        log(f"one/log-{k}.out", noise(k, 1.0))
        log(f"two/log-{k}.out", noise(k + 9, 1.08))
    done = compare("one", "two", "--format", "json")
    found = read(done)
    assert (done.exit_code, found["a"]["kind"], found["change"]["over"]) == (3, "logs", "repeats")
    assert found["a"]["runs"] == [f"one/log-{k}.out" for k in range(3)]
    assert "A: 3 logs of one folder are taken for repeats of one training" in found["warnings"]
    Path("two/log-0.out").unlink()
    Path("two/log-1.out").unlink()
    assert read(compare("one", "two", "--format", "json"))["b"]["kind"] == "log"


def test_a_log_in_the_folder_of_a_run_is_the_run(run_factory: RunFactory, compare: Compare) -> None:
    a, b = (run_factory.put(noise(seed, 1.0)) for seed in (3, 4))
    main = b.path / f"log-{b.path.name}.out"
    main.write_text("toy step 0 of 0: 9 s\n")
    found = read(compare(a.record.run_id, str(main), "--format", "json"))
    assert (found["b"]["kind"], found["b"]["runs"]) == ("run", [b.record.run_id])
    with pytest.raises(UsageError, match="has 2 runs: name one"):
        compare(a.record.run_id, str(b.path.parents[1]))


def test_a_pipe_is_read_once(compare: Compare) -> None:
    log("a.log", noise(3, 1.0))
    log("b.log", noise(4, 1.08))
    os.mkfifo("pipe")
    content = Path("b.log").read_bytes()
    threading.Thread(target=Path("pipe").write_bytes, args=(content,), daemon=True).start()  # waits for the reader
    assert compare("a.log", "pipe", "--format", "json").exit_code == 3


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("c.log", b"nothing to see here\n", r"^c\.log: no log format recognizes a line of the file"),
        ("c.log", b"", r"^c\.log: the file is empty$"),
        ("c.log", b"\x1f\x8b1234", r"^c\.log: the file is compressed \(gzip\)"),
        ("folder/c.log", b"toy step", r"^folder: no training log \(\*\.out\) in this folder: name the log$"),
        ("folder/log-c.out", b"hello\n", r"^folder/log-c\.out: no log format recognizes a line"),
    ],
)  # fmt: skip
def test_what_is_no_log_is_said_in_one_line(compare: Compare, name: str, content: bytes, message: str) -> None:
    log("a.log", noise(3, 1.0))
    Path("folder").mkdir()
    Path(name).write_bytes(content)
    with pytest.raises(UsageError, match=message):
        compare("a.log", name.partition("/")[0])


def test_a_name_that_is_neither(compare: Compare) -> None:
    a = log("a.log", noise(3, 1.0))
    for name in ("nosuch.log", "no/such"):
        with pytest.raises(UsageError, match=f"^{name}: no such file or folder, and no run '{name}'"):
            compare(a, name)
    with pytest.raises(UsageError, match=r"^no run 'nosuch'"):
        compare(a, "nosuch")
    for same in (a, f"./{a}"):
        with pytest.raises(UsageError, match=r"^cannot compare a\.log with itself"):
            compare(a, same)
    with pytest.raises(UsageError, match=r"^--gate exposed_communication: a\.log is a log without a profile"):
        compare(a, log("b.log", noise(4, 1.0)), "--gate", "exposed_communication")


@pytest.mark.parametrize(
    ("times", "why"),
    [
        ([1.0] * 20, r"b\.log has no valid data \(failed: nothing was measured in the window 30-44: the log ends at "
                     r"step 19; try --window auto\)"),
        ([], r"b\.log has no valid data \(failed: 0 iterations"),
    ],
)  # fmt: skip
def test_a_log_without_a_measurement_is_not_comparable(compare: Compare, times: list[float], why: str) -> None:
    b = log("b.log", times, head="toy step is what this program prints")
    done = compare(log("a.log", noise(3, 1.0)), b, "--window", "30-44", "--force", "--format", "json")
    found = read(done)
    assert (done.exit_code, found["verdict"], found["change"]) == (5, "not comparable", None)
    assert re.search(why, found["reason"])
    assert len(found["not_comparable_because"]) == 1


@pytest.mark.parametrize("time", [1e12, -1.0, 0.0])
def test_impossible_times_give_no_verdict(compare: Compare, time: float) -> None:
    done = compare(log("a.log", noise(3, 1.0)), log("b.log", [time] * 50))
    assert done.exit_code == 5
    assert verdict_of(done).startswith("not comparable: b.log has no valid data (failed: nothing was measured")


def test_the_differences_that_two_logs_state(compare: Compare) -> None:
    a, b = log("a.log", noise(3, 1.0)), log("b.log", noise(4, 1.0), last=49, head="other toy " * 50)
    found: dict[str, Any] = read(compare(a, b, "--format", "json"))
    assert [(d["what"], d["a"], d["b"]) for d in found["differences"]] == [("log format", "toy", "other")]
    assert "no differences that the logs state" in compare(a, log("c.log", noise(4, 1.0))).stdout


def test_tflops_are_compared_as_printed(compare: Compare) -> None:
    a, b = log("a.log", noise(3, 1.0), ", 400 TFLOPS, loss L"), log("b.log", noise(4, 1.0), ", 380 TFLOPS, loss L")
    rows = {m["name"]: m for m in read(compare(a, b, "--format", "json"))["metrics"]}
    assert (rows["tflops_per_gpu"]["a"], rows["tflops_per_gpu"]["b"]) == (400, 380)
    assert rows["tflops_per_gpu"]["note"] == "as the logs print it"
    assert "mfu" not in rows and "tokens_per_s" not in rows


def test_the_page_has_the_logs(run_factory: RunFactory, compare: Compare) -> None:
    run = run_factory.put(noise(5, 1.0)).record.run_id
    for a in (log("a.log", noise(3, 1.0)), run):
        assert compare(a, log("b.log", noise(4, 1.08)), "--html", "page.html").exit_code == 3
        assert "b.log" in Path("page.html").read_text()
