"""The parsers for NeMo 2 and NeMo 1: the recipes' lines, labels, cut and joined lines, restarts."""

# ruff: noqa: E501 (log lines are as long as they are)

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmbx.logs.lines import LineReader
from llmbx.logs.parser import LogParser
from llmbx.run.collect import Log, collect
from llmbx_nemo.grammar import Nemo1Parser, Nemo2Parser

SEED = (
    "Training epoch 0, iteration 49/49 | lr: 7.496e-06 | global_batch_size: 128 | global_step: 49 |"
    " peak_memory_usage: 70833405952 | memory_allocated: 44271689728 | reduced_train_loss: 11.96 |"
    " train_step_timing in s: 12.39 | consumed_samples: 6400\n"
)
"""The line that the Llama 3.1 recipe (NeMo 2) quotes."""

TIMES = [98.13, 12.41, 12.39, 12.44, 12.38]


def line(number: int, time_s: float, style: str = "tflops samples") -> str:
    """One step; releases differ in the last fields, and the first step has no samples."""
    text = (
        f"Training epoch 0, iteration {number}/49 | lr: {1.5e-7 * (number + 1):.4g} | global_batch_size: 128 |"
        f" global_step: {number} | peak_memory_usage: 70833405952 | memory_allocated: 44271689728 |"
        f" reduced_train_loss: {12.1 - number / 10:.4g} | train_step_timing in s: {time_s:.4g}"
    )
    text += f" | TFLOPS_per_GPU: {5000 / time_s:.2e}" if "tflops" in style else ""
    text += f" | consumed_samples: {128 * (number + 1)}" if "samples" in style and number else ""
    return text + "\n"


def read(text: str, parser: LogParser | None = None) -> Log:
    reader = LineReader()
    return collect(parser or Nemo2Parser(), [*reader.feed(text.encode()), *reader.close()])


def by_step(log: Log) -> dict[int, tuple[float | None, float | None]]:
    return {step.number: (step.time_s, step.tflops_per_gpu) for step in log.steps}


def truth(style: str = "tflops samples", times: list[float] = TIMES) -> dict[int, tuple[float, float | None]]:
    return {k: (t, float(f"{5000 / t:.2e}") if "tflops" in style else None) for k, t in enumerate(times)}


def test_the_line_of_the_recipe() -> None:
    (step,) = read(SEED).steps
    assert (step.number, step.total, step.time_s, step.tflops_per_gpu) == (49, 49, 12.39, None)
    assert (step.loss, step.learning_rate, step.global_batch_size) == (11.96, 7.496e-06, 128)
    assert step.peak_memory_bytes == 70833405952


def test_values_in_scientific_notation_have_their_resolution() -> None:
    (step,) = read(
        SEED.replace(" | consumed", " | TFLOPS_per_GPU: 4.05e+02 | tokens_per_sec_per_gpu: 1.073e+04 | consumed")
    ).steps
    assert (step.tflops_per_gpu, step.tflops_resolution, step.tokens_per_s_per_gpu) == (405.0, 1.0, 10730.0)


@pytest.mark.parametrize("style", ["", "samples", "tflops", "tflops samples"])
@pytest.mark.parametrize(
    "label", ["", "0: ", " 0: ", "[default0]:", "job/0 [default0]:", "[2025-11-20T14:55:23+08:00] job/0 ", "n001: "]
)
def test_every_release_with_every_label(style: str, label: str) -> None:
    text = "".join(label + line(k, t, style) for k, t in enumerate(TIMES))
    assert by_step(read(text)) == truth(style)


def test_two_lines_in_one_and_text_glued_to_the_end() -> None:
    lines = [line(k, t).rstrip("\n") for k, t in enumerate(TIMES)]
    assert (
        by_step(
            read(
                lines[0]
                + lines[1]
                + "\n\n"
                + lines[2]
                + "[NeMo W 2025-05-14 09:00:00 x:1] warning\n"
                + "\n".join(lines[3:])
                + "\n"
            )
        )
        == truth()
    )
    old = [line(k, t, "").rstrip("\n") for k, t in enumerate(TIMES)]
    assert by_step(read("".join(old) + "\n"))[0] == (98.13, None)


def test_a_truncated_file_gives_only_complete_values() -> None:
    text = line(0, 98.13, "") + line(1, 12.41, "")
    assert by_step(read(text)) == {0: (98.13, None), 1: (12.41, None)}
    assert by_step(read(text[:-2])) == {0: (98.13, None), 1: (None, None)}
    # Four digits are all that NeMo prints: the value is whole even without the line's end.
    assert by_step(read(text[:-1])) == {0: (98.13, None), 1: (12.41, None)}
    assert by_step(read(line(0, 98.13) + line(1, 12.41, "tflops")[:-1]))[1] == (12.41, 403.0)
    assert by_step(read(line(0, 98.13) + line(1, 12.41, "tflops")[:-2]))[1] == (12.41, None)
    assert by_step(read(text + line(2, 12.39)[:30])) == {0: (98.13, None), 1: (12.41, None)}


def test_a_nan_loss_is_stored() -> None:
    assert math.isnan(read(SEED.replace("11.96", "nan")).steps[0].loss or 0.0)
    assert read(SEED.replace("11.96", "inf")).steps[0].loss == math.inf


def test_a_restart_inside_the_file() -> None:
    first, second = TIMES, [77.0, 12.5, 12.6]
    text = "".join(line(k, t) for k, t in enumerate(first)) + "".join(line(k, t) for k, t in enumerate(second))
    log = read(text)
    assert (by_step(log), log.attempts) == (truth(times=second), 2)
    marked = read(
        "".join(line(k, t) for k, t in enumerate(first))
        + "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/8\n"
        + line(4, 12.5)
    )
    assert (list(by_step(marked)), marked.attempts) == ([4], 2)


def test_a_second_epoch_is_not_a_restart() -> None:
    text = line(48, 12.4) + line(49, 12.4) + line(0, 12.5).replace("epoch 0", "epoch 1").replace("step: 0", "step: 50")
    log = read(text)
    assert (list(by_step(log)), log.attempts) == ([48, 49, 50], 1)


def test_a_line_without_its_beginning_is_not_joined_to_another() -> None:
    text = line(0, 98.13) + line(1, 12.41)[40:] + line(2, 12.39)
    assert by_step(read(text)) == {0: (98.13, 51.0), 2: (12.39, 404.0)}


def test_events_besides_steps() -> None:
    events = read(
        "[NeMo I 2025-04-11 14:46:18 nemo_logging:393] Global Checkpoint Load : Rank : 0 : Start time : 1744407969.270s : "
        "Time spent in load_checkpoint: 9.712s\n"
        "8.0 B     Total params\n"
        "[NeMo I 2025-04-11 14:48:45 nemo_logging:393] Global Checkpoint Save : Rank: 0 : Iteration: 50 : Start time: "
        "1744408121.151s : Save duration: 4.389s\n"
        "`Trainer.fit` stopped: `max_steps=50` reached.\n"
        "Segmentation fault\n"
    ).events
    assert [(e.kind, e.facts) for e in events] == [
        ("checkpoint_loaded", {"seconds": 9.712}),
        ("fact", {"parameters": 8_000_000_000, "resolution": 1e8, "local": 1}),
        ("checkpoint_saved", {"iteration": 50, "seconds": 4.389}),
        ("finished", {}),
        ("segfault", {"after": "finished"}),
    ]


NOISE = [
    "WARNING:megatron.core:CPU RNG state changed within GPU RNG context\n",
    "[rank3]:[W327 23:13:07.1 ProcessGroupNCCL.cpp:1250] Warning: foo | bar\n",
    "node1:4711:4799 [3] NCCL INFO Channel 03/0 : 3[3] -> 4[4] via P2P/CUMEM/read\n",
    "[NeMo W 2025-08-19 14:27:47 rerun_state_machine:1263] Implicit initialization\n",
]


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, 4),
    st.integers(1, 300),
    st.sampled_from(NOISE),
    st.sampled_from(["", "samples", "tflops", "tflops samples"]),
)
def test_a_line_cut_by_another_ranks_output(place: int, cut: int, noise: str, style: str) -> None:
    lines = [line(k, t, style) for k, t in enumerate(TIMES)]
    cut = min(cut, len(lines[place]) - 1)
    lines[place] = lines[place][:cut] + noise + lines[place][cut:]
    assert by_step(read("".join(lines))) == truth(style)


@pytest.mark.parametrize("shown", ["1", "12.", "12.3"])
@pytest.mark.parametrize("style", ["samples", "tflops samples"])
def test_a_number_at_the_end_of_a_line_that_was_cut_is_not_used(shown: str, style: str) -> None:
    lines = [line(k, t, style) for k, t in enumerate(TIMES)]
    head, _, _ = lines[3].partition("12.44")
    log = read("".join([*lines[:3], f"{head}{shown}\n", *lines[4:]]))
    assert [step.time_s for step in log.steps] == [*TIMES[:3], None, *TIMES[4:]]


def test_the_last_number_of_a_line_is_used_if_it_is_whole() -> None:
    lines = [line(k, t, "tflops samples") for k, t in enumerate(TIMES)]
    cut = lines[3].partition(" | TFLOPS")[0]
    assert read("".join([*lines[:3], f"{cut}\n", *lines[4:]])).steps[3].time_s == 12.44


BAR = "Epoch 0: : {percent}%|{bar}| {done}/50 [23:22<00:00, reduced_train_loss=0.{k:03d}, global_step={k}.00, consumed_samples=512e2, train_step_timing in s={t}]"


def bars() -> str:
    return "\r".join(
        BAR.format(percent=2 * k, bar="\N{FULL BLOCK}" * k, done=k + 1, k=k, t=24 + k / 100) for k in range(50)
    )


def test_a_progress_bar_of_nemo_1() -> None:
    log = read(bars() + "\n`Trainer.fit` stopped: `max_steps=50` reached.\n", Nemo1Parser())
    assert [(s.number, s.time_s, s.loss, s.total) for s in log.steps] == [
        (k, 24 + k / 100, k / 1000, 49) for k in range(50)
    ]
    assert [e.kind for e in log.events] == ["finished"]


def test_a_progress_bar_that_is_cut_off() -> None:
    last = read(bars()[:-2], Nemo1Parser()).steps[-1]
    assert (last.number, last.time_s, last.loss) == (49, None, 0.049)
