"""The parser for Megatron-Bridge and Megatron-LM: captured logs, damaged logs, and two interleaved writers."""

# ruff: noqa: E501 (log lines are as long as they are)

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from llmbx.logs.lines import LineReader
from llmbx.logs.parser import LogParser
from llmbx.run.collect import Log, collect, collect_file
from llmbx_nemo.grammar import MegatronParser, Nemo1Parser, Nemo2Parser, facts

LOGS = Path(__file__).parents[2] / "fixtures" / "logs"
WORK = 4.2164e14 * 128 / 8 / 1e12
"""TFLOP per step on one GPU: Llama 3.1 8B with 128 samples on 8 GPUs, causal convention."""


def figure(time_s: float) -> str:
    """The output of rank 0 for a step."""
    return f"Step Time : {time_s:.2f}s GPU utilization: {WORK / time_s:.1f}MODEL_TFLOP/s/GPU\n"


def iteration(number: int, time_s: float, total: int = 50, loss: str = "9.364245E-03") -> str:
    """The output of the last rank for a step."""
    return (
        f" [2026-03-27 23:13:07] iteration {number:8d}/{total:8d} | consumed samples: {number * 128:12d} |"
        f" elapsed time per iteration (ms): {time_s * 1000:.1f} | learning rate: 4.027626E-05 |"
        f" global batch size:   128 | lm loss: {loss} | load_balancing_loss: 1.000000E+00 | loss scale: 1.0 |"
        " grad norm: 0.049 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    )


def read(text: str | bytes, parser: LogParser | None = None) -> Log:
    reader = LineReader()
    data = text if isinstance(text, bytes) else text.encode()
    return collect(parser or MegatronParser(), [*reader.feed(data), *reader.close()])


def by_step(log: Log) -> dict[int, tuple[float | None, float | None]]:
    """Time and TFLOP/s by step."""
    return {step.number: (step.time_s, step.tflops_per_gpu) for step in log.steps}


def truth(times: list[float]) -> dict[int, tuple[float, float]]:
    return {k: (round(t, 4), round(WORK / t, 1)) for k, t in enumerate(times, 1)}


def run(times: list[float]) -> list[str]:
    return [line for k, t in enumerate(times, 1) for line in (figure(t), iteration(k, t, len(times)))]


TIMES = [21.3042, 5.7102, 5.6813, 5.7333, 5.7051, 5.6944]


def test_every_member_of_a_step() -> None:
    (step,) = read(figure(5.7102) + iteration(45, 5.7102)).steps
    assert (step.number, step.total, step.attempt, step.skipped) == (45, 50, 0, False)
    assert (step.time_s, step.tflops_per_gpu, step.tflops_resolution) == (5.7102, 1181.4, 0.1)
    assert (step.loss, step.grad_norm, step.learning_rate) == (0.009364245, 0.049, 4.027626e-05)
    assert step.global_batch_size == 128


@pytest.mark.parametrize(
    ("line", "kind", "facts"),
    [
        ("Time spent in CUDA Graphs capture on rank 0: 12.5s", "graph_capture", {"seconds": 12.5}),
        ("> built 4 cuda graph(s) in 3.25 sec", "graph_capture", {"seconds": 3.25}),
        ("AUTOTUNE benchmarking takes 0.75 seconds", "compilation", {"seconds": 0.75}),
        ("V0304 [__recompiles] Recompiling function forward in model.py:12", "compilation", {}),
    ],
)
def test_what_takes_time_between_steps_is_an_event(line: str, kind: str, facts: dict[str, float]) -> None:
    events = read(iteration(44, 5.7) + f"{line}\n" + iteration(45, 5.7)).events
    assert [(event.kind, event.facts) for event in events] == [(kind, facts)]


def test_a_captured_cpu_run() -> None:
    log = collect_file(MegatronParser(), LOGS / "bridge-cpu-grok1.out")
    assert [step.number for step in log.steps] == list(range(1, 51))
    # What grep finds in the file.
    text = (LOGS / "bridge-cpu-grok1.out").read_text()
    found = re.findall(r"iteration +(\d+)/.*?\(ms\): ([\d.]+) .*?GPU\): ([\d.]+) .*?lm loss: (\S+) ", text)
    expected = [(int(n), float(ms) / 1000, float(f), float(loss)) for n, ms, f, loss in found]
    assert len(expected) == 50
    for step, (number, time, tflops, loss) in zip(log.steps, expected, strict=True):
        assert (step.number, step.tflops_per_gpu, step.loss) == (number, tflops, loss)
        assert step.time_s == pytest.approx(time)
    assert [e.kind for e in log.events if e.kind != "fact"] == ["started", "finished"]
    assert {"rank_parameters": 13773056, "tp_rank": 0, "pp_rank": 0} in [e.facts for e in log.events]


def test_a_captured_run_of_two_ranks_in_one_pipe() -> None:
    """Half of its iteration lines precede their Step Time line."""
    text = (LOGS / "bridge-cpu-two-ranks.out").read_text()
    printed = re.findall(r"iteration +(\d+)/.*?\(ms\): ([\d.]+) ", text)
    assert by_step(read(text)) == {int(n): (pytest.approx(float(ms) / 1000), 0.0) for n, ms in printed}
    assert len(printed) == 12
    # The same order of lines, with the figures of a GPU: the ranks' clocks agree to a millisecond.
    times = [21.3042, *(round(5.7 + 0.03 * math.sin(3 * k), 4) for k in range(11))]
    ours, theirs = iter(times), iter(times)
    text = re.sub(r"Step Time : .*GPU\n", lambda _: figure(next(ours)), text)
    text = re.sub(r"\(ms\): [\d.]+ \| throughput[^|]*\|", lambda _: f"(ms): {next(theirs) * 1000:.1f} |", text)
    assert by_step(read(text)) == truth(times)


def test_the_interleavings_that_users_reported() -> None:
    """Eight joined lines with blank ones after them, an iteration before its Step Time, text glued to the last line."""
    text = (LOGS / "bridge-b200-two-writers.out").read_text()
    log = collect_file(MegatronParser(), LOGS / "bridge-b200-two-writers.out")
    assert len(log.steps) == 50
    for step in log.steps:
        printed = re.search(rf"iteration +{step.number}/ .*?\(ms\): ([\d.]+) ", text)
        assert printed and step.time_s == pytest.approx(float(printed[1]) / 1000)
        assert step.tflops_per_gpu == pytest.approx(WORK / step.time_s, abs=0.08)
    assert [e.kind for e in log.events] == ["started", "config_fallback", "fact", "fact", "finished"]
    assert log.events[2].facts == {"parameters": 8.03e9, "resolution": 1e7}
    assert log.events[3].facts == {"peak_memory_bytes": 116_450_000_000, "iteration": 1}
    assert log.steps[0].peak_memory_bytes == 116_450_000_000
    assert log.events[1].facts["used"] == "LLAMA3_8B_PRETRAIN_CONFIG_B200_BF16_V1"


@pytest.mark.parametrize("prefix", ["{rank}: ", " {rank}: ", "[default{rank}]:", "[rank{rank}]: ", "n00{rank}: ", "[1,{rank}]<stdout>:",
                                    "2026-03-27T23:13:07.1Z {rank}: ", "job/{rank} [default{rank}]:", "\x1b[32m{rank}: \x1b[0m"])  # fmt: skip
def test_labels_do_not_matter(prefix: str) -> None:
    lines = run(TIMES)
    labelled = [prefix.format(rank=0 if line.startswith("Step") else 7) + line for line in lines]
    assert by_step(read("".join(labelled))) == truth(TIMES)


def test_labelled_parts_of_cut_lines_are_joined() -> None:
    a, b = iteration(1, 21.3042), figure(21.3042)
    text = f"7: {a[:90]}\n0: {b[:30]}\n7: {a[90:]}0: {b[30:]}"
    assert by_step(read(text)) == {1: (21.3042, round(WORK / 21.3042, 1))}


@pytest.mark.parametrize("end", ["\r\n", "\r", "\r\r\n", "\n\n"])
def test_line_ends_do_not_matter(end: str) -> None:
    assert by_step(read("".join(run(TIMES)).replace("\n", end) + "\n")) == truth(TIMES)


def test_invalid_utf_8_and_nul_bytes_do_not_matter() -> None:
    data = b"\xff\xfe\x80 ".join(line.encode().replace(b"\n", b"\xff\n") for line in run(TIMES))
    assert by_step(read(data)) == truth(TIMES)
    assert by_step(read("\0".join("".join(run(TIMES))))) == truth(TIMES)


def test_a_truncated_file_gives_only_complete_values() -> None:
    text = "".join(run(TIMES))
    end = text.index("iteration        6/")
    at = text.index("elapsed time per iteration (ms): ", end) + len("elapsed time per iteration (ms): ")
    cut = read(text[: at + 3]).steps[-1]
    assert (cut.number, cut.time_s, cut.loss) == (6, None, None)
    whole = read(text[: at + 8]).steps[-1]
    assert (whole.number, whole.time_s, whole.loss) == (6, 5.6944, None)


@pytest.mark.parametrize("lost", range(2, 6))
def test_a_lost_step_time_line_does_not_shift_the_others(lost: int) -> None:
    lines = [line for line in run(TIMES) if line != figure(TIMES[lost - 1])]
    assert by_step(read("".join(lines))) == {**truth(TIMES), lost: (TIMES[lost - 1], None)}


@pytest.mark.parametrize("lost", range(2, 6))
def test_a_lost_iteration_does_not_shift_the_step_time_lines(lost: int) -> None:
    lines = [line for line in run(TIMES) if line != iteration(lost, TIMES[lost - 1], len(TIMES))]
    assert by_step(read("".join(lines))) == {k: v for k, v in truth(TIMES).items() if k != lost}


def test_late_step_time_lines() -> None:
    order = [0, 1, 3, 2, 5, 4, 7, 6, 8, 10, 9, 11]
    lines = run(TIMES)
    assert by_step(read("".join(lines[k] for k in order))) == truth(TIMES)


def test_a_step_time_line_with_another_time_is_not_paired() -> None:
    assert by_step(read(figure(9.0) + iteration(1, 5.7))) == {1: (5.7, None)}


def test_tflops_in_the_iterations_line_and_pairs_of_current_and_mean() -> None:
    line = (
        " iteration      4/   50 | consumed samples: 512 | elapsed time per iteration (ms): 13372.8/13364.7 |"
        " throughput per GPU (TFLOP/s/GPU): 612.7/613.1 | tokens per GPU (tokens/s/GPU): 4901.2/4904.2 |"
        " learning rate: 1.0E-05 | global batch size: 128 | lm loss: 1.1E+01 | grad norm: 2.5 |"
        " number of skipped iterations: 0 | number of nan iterations: 0 |\n"
    )
    (step,) = read(figure(13.3728) + line).steps
    assert (step.time_s, step.tflops_per_gpu, step.tokens_per_s_per_gpu, step.loss) == (13.3728, 612.7, 4901.2, 11.0)


def test_a_nan_loss_is_stored() -> None:
    line = iteration(3, 5.7)
    assert math.isnan(read(iteration(3, 5.7, loss="nan")).steps[0].loss or 0.0)
    assert read(iteration(3, 5.7, loss="INF")).steps[0].loss == math.inf
    # Megatron leaves out a loss that is not above zero; the counts beside it tell.
    without = line.replace(" lm loss: 9.364245E-03 |", "")
    assert read(without).steps[0].loss is None
    assert math.isnan(read(without.replace("nan iterations:   0", "nan iterations:   1")).steps[0].loss or 0.0)
    bad = read(without.replace("grad norm: 0.049", "grad norm: nan")).steps[0]
    assert math.isnan(bad.loss or 0.0) and math.isnan(bad.grad_norm or 0.0)


def test_skipped_iterations() -> None:
    (step,) = read(iteration(3, 5.7).replace("skipped iterations:   0", "skipped iterations:   1")).steps
    assert step.skipped


@pytest.mark.parametrize(
    "marker", ["", "Starting training loop at iteration 2\n", "[after megatron is initialized] datetime: x\n"]
)
def test_a_restart_inside_the_file(marker: str) -> None:
    again = [21.9, 5.8, 5.81]
    resumed = [line for k, t in enumerate(again, 3) for line in (figure(t), iteration(k, t, 6))]
    log = read("".join(run(TIMES)) + "RuntimeError: NCCL error\n" + marker + "".join(resumed))
    assert by_step(log) == {k: (t, round(WORK / t, 1)) for k, t in enumerate(again, 3)}
    assert log.attempts == 2
    assert [e.kind for e in log.earlier] == ["nccl_error"]


def test_a_step_time_line_is_not_paired_with_an_earlier_attempt() -> None:
    first = [line for line in run(TIMES) if line != figure(TIMES[4])]
    log = read("".join(first[:-2]) + iteration(1, 9.9) + figure(TIMES[4]) + iteration(2, 8.8))
    assert by_step(log) == {1: (9.9, None), 2: (8.8, None)}


def test_a_line_without_its_beginning_is_not_joined_to_another() -> None:
    lines = run(STEADY)
    cut = lines[3][lines[3].index("/      50") if "/      50" in lines[3] else 40 :]
    text = lines[0] + lines[1][:-30] + "\n" + cut + "".join(lines[4:])
    assert by_step(read(text))[1] == (STEADY[0], round(WORK / STEADY[0], 1))
    assert 2 not in by_step(read(text))


def test_digits_of_another_writer_do_not_change_an_iterations_number() -> None:
    lines = run(STEADY)
    at = lines[5].index("iteration") + len("iteration        ")
    lines[5] = lines[5][:at] + "1: foreign\n" + lines[5][at:]
    assert by_step(read("".join(lines))) == truth(STEADY)


def test_the_log_of_rank_0_alone_counts_its_steps() -> None:
    text = "Starting training loop at iteration 20\n" + "".join(figure(t) for t in TIMES)
    assert by_step(read(text)) == {20 + k: (round(t, 2), round(WORK / t, 1)) for k, t in enumerate(TIMES, 1)}


@pytest.mark.parametrize(
    ("line", "kind", "facts"),
    [
        ("[after training is done] datetime: 2026-03-27 23:14:10 ", "finished", {}),
        ("  successfully saved checkpoint from iteration      50 to /ckpt [ t 1/1, p 1/1 ]", "checkpoint_saved", {"iteration": 50, "path": "/ckpt"}),
        ("  successfully saved local checkpoint from iteration      50", "checkpoint_saved", {"iteration": 50}),
        ("    save-checkpoint ................................: (24895.07, 24895.13)", "checkpoint_saved", {"seconds": 24.89513}),
        ("  successfully loaded checkpoint from /ckpt [ t 0/1, p 0/1 ] at iteration 50", "checkpoint_loaded", {"iteration": 50, "path": "/ckpt"}),
        ("    load-checkpoint ................................: (9712.00, 9712.10)", "checkpoint_loaded", {"seconds": 9.7121}),
        ("[Rank 3] (after 10 iterations) memory (MB) | allocated: 1.5 | max allocated: 1464.5 | reserved: 1576.0", "fact",
         {"peak_memory_bytes": 1535639552, "iteration": 10}),
    ],
)  # fmt: skip
def test_events_besides_steps(line: str, kind: str, facts: dict[str, object]) -> None:
    (event,) = read(line + "\n").events
    assert (event.kind, event.facts, event.fatal) == (kind, facts, False)


@pytest.mark.parametrize(
    "line",
    [
        "ERROR:megatron.core.rerun_state_machine:Unexpected result nan on rank 3 at iteration #12 invocation #1 (message='found NaN in local forward loss calculation')",
        "RuntimeError: Rank 3, node n1, device 3, iteration 12: Unexpected result nan (message='found NaN in local forward loss calculation')",
    ],
)  # fmt: skip
def test_a_failed_validation_of_the_loss_is_fatal(line: str) -> None:
    found = [e for e in read(line + "\n").events if e.kind == "nan"]
    assert len(found) == 1 and found[0].fatal
    assert found[0].facts["iteration"] == 12
    spiky = read(line.replace("nan (", "9.5 (").replace("nan on", "9.5 on") + "\n").events
    assert [(e.kind, e.fatal) for e in spiky if e.kind != "exception"] == [("unexpected_result", False)]


def test_a_crash_after_the_end() -> None:
    text = "".join(run(TIMES)) + "[after training is done] datetime: x \nSegmentation fault (core dumped)\n"
    crash = read(text).events[-1]
    assert (crash.kind, crash.fatal, crash.facts) == ("segfault", True, {"after": "finished"})


# Two writers, one of each line cut once, in every order. The line of one step may meet the figure of the next.

NOISE = [
    "WARNING:megatron.core:CPU RNG state changed within GPU RNG context\n",
    "[rank3]:[W327 23:13:07.1 ProcessGroupNCCL.cpp:1250] Warning: foo | bar\n",
    "node1:4711:4799 [3] NCCL INFO Channel 03/0 : 3[3] -> 4[4] via P2P/CUMEM/read\n",
    "saving checkpoint at iteration      10 to /x in torch_dist format\n",
]
STEADY = [5.7102, 5.6813, 5.7333, 5.6944]


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 6), st.integers(1, 60), st.integers(1, 420), st.sampled_from(["ABAB", "BABA", "ABBA", "BAAB"]))
@example(2, 44, 26, "ABAB")
@example(0, 36, 137, "ABAB")
def test_two_writers_cut_each_other(place: int, cut_one: int, cut_other: int, order: str) -> None:
    lines = run(STEADY)
    a, b = lines[place], lines[place + 1]
    short, long = min(cut_one, cut_other), max(cut_one, cut_other)
    at_a, at_b = (short, long) if len(a) < len(b) else (long, short)
    at_a, at_b = min(at_a, len(a) - 1), min(at_b, len(b) - 1)
    parts = {"A": [a[:at_a], a[at_a:]], "B": [b[:at_b], b[at_b:]]}
    lines[place : place + 2] = ["".join(parts[which].pop(0) for which in order)]
    log = read("".join(lines))
    assert by_step(log) == truth(STEADY)
    assert log.attempts == 1


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 7), st.integers(1, 420), st.sampled_from(NOISE))
def test_a_line_cut_by_another_ranks_output(place: int, cut: int, noise: str) -> None:
    lines = run(STEADY)
    cut = min(cut, len(lines[place]) - 1)
    lines[place] = lines[place][:cut] + noise + lines[place][cut:]
    assert by_step(read("".join(lines))) == truth(STEADY)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(NOISE), max_size=8), st.randoms(use_true_random=False))
def test_complete_lines_of_other_writers(noise: list[str], random: object) -> None:
    lines = run(STEADY)
    for line in noise:
        lines.insert(random.randrange(len(lines)), line)  # type: ignore[attr-defined]
    assert by_step(read("".join(lines))) == truth(STEADY)


@pytest.mark.parametrize("unbuffered", [True, False])
def test_text_and_line_end_written_separately(unbuffered: bool) -> None:
    text = "".join(
        a.rstrip("\n") + b.rstrip("\n") + "\n\n" for a, b in zip(run(STEADY)[::2], run(STEADY)[1::2], strict=True)
    )
    assert by_step(read(text if unbuffered else text.replace("\n\n", "\n"))) == truth(STEADY)


GENUINE = "".join(run(STEADY)).encode() + b"Training epoch 0, iteration 3/49 | lr: 1e-6 | train_step_timing in s: 5.1\n"
PIECES = st.one_of(
    st.binary(max_size=20),
    st.integers(0, len(GENUINE)).flatmap(
        lambda a: st.integers(a, min(len(GENUINE), a + 300)).map(lambda b: GENUINE[a:b])
    ),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=12).map(b"".join), st.sampled_from([MegatronParser, Nemo2Parser, Nemo1Parser]))
def test_any_bytes_are_read_and_chunks_make_no_difference(data: bytes, grammar: type[LogParser]) -> None:
    once, reader = read(data, grammar()), LineReader()
    again = collect(
        grammar(), [line for k in range(0, len(data), 7) for line in reader.feed(data[k : k + 7])] + reader.close()
    )
    assert repr(once) == repr(again)
    assert all(step.time_s is None or step.time_s > 0 for step in once.steps)


def test_a_hostile_line_is_parsed_quickly() -> None:
    """Long lines of the first letters of a record, while a record is open, could make joining cut lines slow."""
    text = iteration(1, 5.7)[:100] + "\n" + ("S" * 60_000 + " iteration 1/2 | Step Time\n") * 20
    assert [step.number for step in read(text).steps][:1] == [1]


def test_zero_memory_without_a_device_is_unknown() -> None:
    """Megatron-Bridge 0.1.0rc3 prints it on a CPU."""
    line = "[Rank 0] (after 1 iterations) memory (MB) | allocated: 0.0 | max allocated: 0.0 | reserved: 0.0"
    assert facts.memory(line) is None
    used = facts.memory(line.replace("max allocated: 0.0", "max allocated: 1464.5"))
    assert used and used.facts["peak_memory_bytes"] == round(1464.5 * 2**20)
