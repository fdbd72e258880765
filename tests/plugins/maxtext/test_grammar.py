"""Step lines of every version of MaxText, and everything around them that must not confuse the parser."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx.logs.lines import LineReader
from llmbx.measure.window import choose
from llmbx.model import RunSpec, Step
from llmbx.plugins.manager import load
from llmbx.run.collect import Log, collect
from llmbx_maxtext.grammar import formats, parser, untimed
from llmbx_maxtext.grammar.steps import MaxTextParser
from llmbx_parse.find import find_logs
from llmbx_parse.rows import parse_logs

Spec = Callable[..., RunSpec]

ABSL = "I1121 07:20:25.853725 140349491260288 metric_logger.py:265] "
RECIPE = (
    "completed step: 49, seconds: 7.908, TFLOP/s/device: 460.480, Tokens/s/device: 1035.970, "
    "total_weights: 524288, loss: 0.000"
)
TODAY = (
    "completed step: 49, seconds: 0.350, TFLOP/s/device: 0.033, Tokens/s/device: 1464.665, total_weights: 512, "
    "loss: 5.048, lm_loss: 5.048, perplexity: 155.744"
)


def read(*lines: str, spec: RunSpec | None = None) -> Log:
    """The log that a new parser reads from a file with these lines."""
    reader = LineReader()
    clean = [*reader.feed("".join(line + "\n" for line in lines).encode()), *reader.close()]
    return collect(parser(spec), clean)


def only(*lines: str) -> Step:
    (step,) = read(*lines).steps
    return step


def test_the_line_of_the_recipe() -> None:
    assert only(RECIPE) == Step(
        number=49,
        time_s=7.908,
        tflops_per_gpu=460.48,
        tflops_resolution=0.001,
        tokens_per_s_per_gpu=1035.97,
        loss=0.0,
        tokens=4096 * 128,
    )


VERSIONS = {
    "2023": ("completed step: 7, seconds: 1.250, TFLOP/s: 61.003, loss: 9.104", (7, 1.25, 61.003, None, 9.104)),
    "2024-03": (
        "completed step: 7, seconds: 1.250, TFLOP/s/device: 61.003, loss: 9.104",
        (7, 1.25, 61.003, None, 9.104),
    ),
    "2024-08": (
        "completed step: 7, seconds: 1.250, TFLOP/s/device: 61.003, Tokens/s/device: 88.000, loss: 9.104",
        (7, 1.25, 61.003, 88.0, 9.104),
    ),
    "2024-12": (RECIPE, (49, 7.908, 460.48, 1035.97, 0.0)),
    "mtp": (RECIPE + ", main_model_loss: 0.100, mtp_loss: 0.200", (49, 7.908, 460.48, 1035.97, 0.0)),
    "0.2.5": (ABSL + TODAY, (49, 0.35, 0.033, 1464.665, 5.048)),
    "0.2.5, experts": (ABSL + TODAY + ", moe_lb_loss: 0.000000", (49, 0.35, 0.033, 1464.665, 5.048)),
    "rampup": (
        ABSL + "[Rampup Batch Size Phase], completed step: 3, seconds: 0.350, total_weights: 512, loss: 5.048",
        (3, 0.35, None, None, 5.048),
    ),
    "profiler boundary": (
        ABSL + "completed profiler activation/deactivation step: 46, total_weights: 512, loss: 5.048, lm_loss: 5.048",
        (46, None, None, None, 5.048),
    ),
    "elastic": (
        ABSL + TODAY.replace("TFLOP/s/device", "live slice count: 2, TFLOP/s/device"),
        (49, 0.35, 0.033, 1464.665, 5.048),
    ),
}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version(version: str) -> None:
    line, (number, seconds, tflops, tokens, loss) = VERSIONS[version]
    found = only(line)
    assert (found.number, found.time_s, found.loss) == (number, seconds, loss)
    assert (found.tflops_per_gpu, found.tokens_per_s_per_gpu) == (tflops, tokens)
    assert found.tflops_resolution == (None if tflops is None else 0.001)


def test_forks_add_learning_rate_and_gradient_norm() -> None:
    found = only(RECIPE + ", lr: 3.000e-05, grad_norm: 1.234")
    assert (found.learning_rate, found.grad_norm, found.loss) == (3e-05, 1.234, 0.0)


@pytest.mark.parametrize("word", ["nan", "inf"])
def test_a_loss_that_is_none(word: str) -> None:
    log = read(ABSL + RECIPE.replace("loss: 0.000", f"loss: {word}"), ABSL + "Aborting training due to NaN loss.")
    assert not math.isfinite(log.steps[0].loss or 0.0)
    (event,) = [event for event in log.events if event.fatal]
    assert event.kind == "nan"


@pytest.mark.parametrize(
    "prefix",
    ["", ABSL, "0: ", "12: " + ABSL, "[rank0]:", "2025-11-20T14:55:23Z ", "\x1b[32m", "node-1: ", "garbage � "],
)
def test_prefixes(prefix: str) -> None:
    assert only(prefix + RECIPE).replace(printed_at=None) == only(RECIPE)


def test_two_writers_on_one_line() -> None:
    log = read(RECIPE.replace("49", "48", 1) + ABSL + RECIPE)
    assert [(step.number, step.time_s, step.loss) for step in log.steps] == [(48, 7.908, 0.0), (49, 7.908, 0.0)]


def test_a_value_that_another_writer_cuts_is_none() -> None:
    log = read(
        "completed step: 48, seconds: 7.9completed step: 49, seconds: 7.908, TFLOP/s/device: 460.480, loss: 1.000"
    )
    assert [(step.number, step.time_s) for step in log.steps] == [(48, None), (49, 7.908)]


def test_a_line_that_is_cut_by_the_end_of_the_log() -> None:
    reader = LineReader()
    lines = [*reader.feed((RECIPE + "\ncompleted step: 50, seconds: 7.9").encode()), *reader.close()]
    log = collect(parser(None), lines)
    assert [(step.number, step.time_s) for step in log.steps] == [(49, 7.908), (50, None)]


def test_another_writers_number_is_never_glued_to_a_value() -> None:
    torn = ("completed step: 412 new requests", "completed step: 43, seconds: 1012 new requests, loss: 1.0007 of 8")
    log = read(*(numbered(number) for number in range(43)), *torn, *(numbered(number) for number in range(44, 50)))
    assert (log.attempts, [step.number for step in log.steps]) == (1, list(range(50)))
    assert (log.steps[43].time_s, log.steps[43].loss) == (None, None)
    assert only(TODAY + ", lr: 1.234e-05, grad_norm: 12").learning_rate == 1.234e-05


@given(st.integers(0, len(TODAY)))
def test_a_cut_line_never_gives_a_wrong_value(length: int) -> None:
    reader = LineReader()
    whole = only(TODAY)
    for step in collect(parser(None), [*reader.feed(TODAY[:length].encode()), *reader.close()]).steps:
        if step.number == whole.number:
            assert step.time_s in (None, whole.time_s) and step.loss in (None, whole.loss)
            assert step.tflops_per_gpu in (None, whole.tflops_per_gpu)
            assert step.tokens_per_s_per_gpu in (None, whole.tokens_per_s_per_gpu)
        else:
            assert step.time_s is None and step.loss is None


def numbered(number: int, seconds: float = 1.0, stamp: str = "") -> str:
    return f"{stamp}completed step: {number}, seconds: {seconds:.3f}, TFLOP/s/device: 1.000, loss: 1.000"


def test_every_process_prints_every_step_and_the_last_line_counts() -> None:
    log = read(*(numbered(number, seconds) for number in range(5) for seconds in (1.0, 1.25)))
    assert [step.time_s for step in log.steps] == [1.25] * 5 and log.attempts == 1


def test_a_process_may_lag_by_a_step() -> None:
    assert read(*(numbered(number) for number in (0, 1, 0, 2, 1, 3, 2, 3))).attempts == 1


def stamped(second: int) -> str:
    return f"I1121 07:20:{second:02d}.000000 140349491260288 metric_logger.py:265] "


def test_late_lines_of_a_process_are_not_a_restart() -> None:
    early = [numbered(number, 1.0, stamped(number)) for number in range(6)]
    late = [numbered(number, 1.0, stamped(number)) for number in range(6)]
    assert read(*early, *late).attempts == 1


def test_the_recipes_two_phases_are_two_attempts() -> None:
    """Its scripts write the profiled run of 15 steps and the measured run of 50 into one log."""
    log = read(*(numbered(n, 9.0) for n in range(15)), *(numbered(n, 7.0) for n in range(50)))
    assert log.attempts == 2 and len(log.steps) == 50 and {step.time_s for step in log.steps} == {7.0}


def test_a_restart_is_detected_by_its_time() -> None:
    log = read(
        *(numbered(n, 9.0, stamped(n)) for n in range(10)), *(numbered(n, 7.0, stamped(20 + n)) for n in range(5))
    )
    assert log.attempts == 2 and [step.number for step in log.steps] == [0, 1, 2, 3, 4]


def phases(*roles: tuple[str, int, float]) -> Iterable[str]:
    for role, steps, seconds in roles:
        yield f"llmbx: phase {role} begins (1 rank)"
        yield from (numbered(number, seconds) for number in range(steps))


def test_the_collect_phase_is_reported_and_not_measured(spec: Spec) -> None:
    log = read(*phases(("collect", 15, 9.0), ("measure", 20, 7.0)), spec=spec("llama2", steps=20))
    assert log.attempts == 1 and [step.number for step in log.steps] == list(range(20))
    assert {step.time_s for step in log.steps} == {7.0}
    (event,) = [event for event in log.events if event.kind == "phase_time"]
    assert event.facts == {"role": "collect", "step_time_s": 9.0, "steps": 6}


def test_a_cached_profile_reports_the_step_time_of_its_collect_phase(spec: Spec) -> None:
    lines = ("0: llmbx: using cached PGLE profile /llmb/pgle/0123; skipping phases collect and convert",
            "0: llmbx: its collect phase took 9.250 s a step")  # fmt: skip
    log = read(*lines, *phases(("measure", 5, 7.0)), spec=spec("llama2", steps=5))
    (event,) = [event for event in log.events if event.kind == "phase_time"]
    assert event.facts == {"role": "collect", "step_time_s": 9.25} and len(log.steps) == 5


def test_a_run_that_ends_in_the_collect_phase_has_no_steps(spec: Spec) -> None:
    error = "llmbx: error: cannot create a PGLE profile: the trace contains no XLA operations"
    log = read(*phases(("collect", 15, 9.0)), error, spec=spec("llama2", steps=10))
    assert log.steps == []
    assert [event.kind for event in log.events if event.fatal] == ["entry"]
    assert [event.kind for event in log.events if event.kind == "phase_time"]


def test_a_requeued_job_begins_again() -> None:
    log = read(*phases(("train", 10, 9.0), ("train", 5, 7.0)))
    assert log.attempts == 2 and {step.time_s for step in log.steps} == {7.0}


def test_step_times_after_a_profile_are_none(spec: Spec) -> None:
    run = spec("llama2", steps=18, profile_steps="6-9")
    assert untimed(run) == {9, 10}
    log = read(*(numbered(number) for number in range(18)), spec=run)
    assert [step.number for step in log.steps if step.time_s is None] == [9, 10]
    assert all(step.loss == 1.0 for step in log.steps)


def test_the_recipes_own_profile_leaves_the_last_step(cluster: Spec) -> None:
    run = cluster("bf16", 64, settings={"profile_measured": "true"})
    log = read(*(numbered(number, number + 1.0) for number in range(50)), spec=run)
    assert [step.number for step in log.steps if step.time_s is None] == list(range(9, 14))
    window, measured = choose(log.steps, run.window)
    assert (window.first, window.last, measured[0].time_s) == (49, 49, 50.0)
    assert run.profile is None


def test_the_run_knows_its_last_step(spec: Spec) -> None:
    log = read(numbered(0), spec=spec("llama2", steps=20))
    assert log.steps[0].total == 19 and read(numbered(0)).steps[0].total is None


def test_facts() -> None:
    log = read(
        ABSL + "System Information: Jax Version: 0.12.0.1",
        ABSL + "number parameters: 68.977 billion",
        ABSL + "[train] Total estimated memory size: 71.3 GB, estimated output size: 0.0 GB",
        "E1121 07:20:25.853725 140349491260288 pyconfig.py:1] MAXTEXT CONFIG ERROR: 'stepz' not in 'run_name'",
        "llmbx: using cached PGLE profile /llmb/pgle/0123; skipping phases collect and convert",
    )
    facts = {key: value for event in log.events for key, value in event.facts.items()}
    assert facts == {"jax": "0.12.0.1", "parameters": 68_977_000_000, "resolution": 1e6, "estimated_memory_gb": 71.3}
    assert [event.kind for event in log.events if event.fatal] == ["config_error"]
    assert "note" in [event.kind for event in log.events]


@pytest.mark.parametrize(
    ("printed", "dtype"),
    [("", "bf16"), ("None", "bf16"), ("fp8", "fp8"), ("QuantizationType.FP8", "fp8"), ("int8", "int8")],
)
def test_the_data_type_is_that_of_the_quantization(printed: str, dtype: str) -> None:
    """MaxText 0.2.5 prints the name of its enumeration, as an H200 showed."""
    log = read("Config param dtype: bfloat16", f"Config param quantization: {printed}")
    assert [event.facts for event in log.events] == [{"dtype": dtype}]


def test_out_of_memory_is_told() -> None:
    log = read(
        numbered(3),
        "Traceback (most recent call last):",
        '  File "train.py", line 1, in <module>',
        "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9663676416 bytes.",
    )
    assert [event.kind for event in log.events if event.fatal] == ["out_of_memory"]


def test_the_format_is_detected() -> None:
    (format,) = formats()
    assert format.sniff(f"{RECIPE}\n{ABSL}{TODAY}\n") == 2
    assert (
        format.sniff("iteration 1/50 | elapsed time per iteration (ms): 1.0 |\nCompleted eval step: 3, seconds: 1") == 0
    )


@pytest.mark.parametrize(
    ("experiment", "policy"),
    [
        ("maxtext-64_70b", "last"),
        ("pretrain_maxtext_llama2_70b_bf16_64_tp1", "last"),
        ("pretrain_maxtext_llama2_mini_bf16_1", "auto"),
    ],
)
def test_default_windows(experiment: str, policy: str) -> None:
    (format,) = formats()
    assert format.window(experiment) == policy


def test_the_log_of_the_recipes_scripts_is_measured_as_the_recipe_does(tmp_path: Path) -> None:
    """Both phases in one file, eight ranks a node that each print every step, and the steady state beside the last."""
    folder = tmp_path / "results" / "25.01" / "bf16" / "70b" / "64"
    folder.mkdir(parents=True)
    collect_phase = [numbered(number, 9.0) for number in range(15)]
    measured = [numbered(number, 20.0 if number < 3 else 7.9) for number in range(49)]
    lines = [*collect_phase, *(line for line in measured for _ in range(8)), RECIPE]
    (folder / "log-maxtext-64_70b_1407993.out").write_text("".join(f"{line}\n" for line in lines))
    (row,) = parse_logs(find_logs([tmp_path / "results"]), formats(), load())
    assert (row.experiment, row.format, row.status, row.attempts) == ("maxtext-64_70b_1407993", "maxtext", "Success", 2)
    figures, steady = row.figures, row.steady
    assert (figures.window.first, figures.window.last, figures.window.policy) == (49, 49, "last")
    assert (figures.steps_measured, figures.steps_seen, figures.step_time_s.mean) == (1, 50, 7.908)
    assert (figures.tflops_per_gpu.mean, figures.tflops_per_gpu.source) == (460.48, "log")
    assert steady is not None and steady.step_time_s.median == 7.9 and steady.steps_measured > 30


def test_the_last_step_of_a_strangers_log_is_the_one_that_its_configuration_states() -> None:
    line = "completed step: {}, seconds: 1.000, TFLOP/s/device: 1.000, Tokens/s/device: 2.000, loss: 9.000"
    stranger = MaxTextParser()
    stranger.feed("Config param steps: 100")
    (step,) = [record for record in stranger.feed(line.format(3)) if isinstance(record, Step)]
    assert step.total == 99
    known = MaxTextParser(last=29)
    known.feed("Config param steps: 100")
    (step,) = [record for record in known.feed(line.format(3)) if isinstance(record, Step)]
    assert step.total == 29, "the run's own specification says it"
