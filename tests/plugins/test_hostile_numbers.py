"""Every log format of every plugin with numbers that cannot be true: null with a warning, and no other step is lost."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from llmbx.logs.parser import LogFormat
from llmbx.plugins.manager import load
from llmbx.run.assess import gather
from llmbx.run.checks import run_checks
from llmbx.run.collect import Log, collect_file
from llmbx_verdict.judge import IntervalJudge

LINES = {
    "megatron-bridge": (
        " [2026-03-27 23:13:{second:02}] iteration {number:>8}/      10 | consumed samples: {count:>12} | elapsed time "
        "per iteration (ms): {time} | learning rate: 1.0E-05 | global batch size: {batch:>5} | lm loss: {loss} | "
        "loss scale: 1.0 | grad norm: {value} | number of skipped iterations:   0 | number of nan iterations:   0 |",
        "MODEL_TFLOP/s/GPU: see the line of each iteration",
    ),
    "nemo2": (
        "Training epoch 0, iteration {number}/10 | lr: {value} | global_batch_size: {batch} | global_step: {number} | "
        "reduced_train_loss: {loss} | train_step_timing in s: {time} | consumed_samples: {count}",
        "[NeMo I 2026-03-27 23:13:07] a line",
    ),
    "nemo1": (
        "Epoch 0: : 10%|#    | 3/10 [00:10<00:00, reduced_train_loss={loss}, global_step={number}.0, lr={value}, "
        "train_step_timing in s={time}]",
        "",
    ),
    "maxtext": (
        "completed step: {number}, seconds: {time}, TFLOP/s/device: 460.480, Tokens/s/device: 1035.970, "
        "total_weights: {count}, loss: {loss}, lr: {value}",
        "",
    ),
}
GOOD = {"time": "5.710", "count": "128", "batch": "128", "loss": "9.500", "value": "0.5"}
HUGE = "9" * 5000
ATTACKS = [
    HUGE,
    f"{HUGE}.{HUGE}",
    f"{HUGE}.125",
    "1e400",
    "-1e400",
    "-5.710",
    "nan",
    "inf",
    "-0.0",
    "1e999999999",
    "\u0665",
    "²",
    f"1e{HUGE}",
    "1.2.3",
    "0x1F",
    "1_0",
    "10" * 9,
    str(10**18),
    str(2**63),
    "1" * 400 + ".125",
]


def read(folder: Path, name: str, texts: list[str]) -> Log:
    log = folder / "log.out"
    log.write_text("\n".join([LINES[name][1], *texts, ""]))
    return collect_file(formats()[name].parser(), log)


def formats() -> dict[str, LogFormat]:
    return {found.name: found for found in load().log_formats()}


def line(name: str, number: object, **values: str) -> str:
    second = number if isinstance(number, int) else 5
    return LINES[name][0].format(number=number, second=second, **{**GOOD, **values})


def warned(log: Log) -> list[str]:
    return [o.text for o in run_checks(gather(None, log, None), IntervalJudge().checks()) if o.check == "odd-number"]


FIELDS = ("number", "time", "count", "batch", "loss", "value")
PRINTED = [(name, field) for name, (text, *_) in LINES.items() for field in FIELDS if f"{{{field}" in text]


@pytest.mark.parametrize(("name", "field"), PRINTED)
def test_no_number_of_a_step_ends_the_measuring(name: str, field: str, tmp_path: Path) -> None:
    for attack in ATTACKS:
        texts = [line(name, k) for k in range(1, 9)]
        texts[4] = line(name, attack) if field == "number" else line(name, 5, **{field: attack})
        log = read(tmp_path, name, texts)
        times = {step.number: step.time_s for step in log.steps}
        assert {1, 2, 3, 4, 6, 7, 8} <= set(times), attack[:20]
        assert log.attempts == 1, attack[:20]
        assert all(t is None or 0 < t < 1e7 for t in times.values()), attack[:20]
        for step in log.steps:
            assert 0 <= step.number < 1e9 and (step.tokens or 0) < 1e16, attack[:20]
            assert all(v is None or not math.isfinite(v) or abs(v) < 1e30 for v in (step.loss, step.grad_norm))


@pytest.mark.parametrize("name", LINES)
def test_each_of_them_is_reported(name: str, tmp_path: Path) -> None:
    texts = [line(name, k) for k in range(1, 9)]
    assert warned(read(tmp_path, name, texts)) == []
    for attack in ({"number": str(10**18)}, {"loss": f"{HUGE}.500"}, {"time": f"{HUGE}.500"}):
        hostile = [
            *texts[:4],
            line(name, attack.get("number", 5), **{k: v for k, v in attack.items() if k != "number"}),
        ]
        (text,) = warned(read(tmp_path, name, [*hostile, *texts[5:]]))
        assert text.startswith("the log has numbers that cannot be true, which were left out: "), attack


FACTS = {
    "megatron-bridge": [
        "successfully saved checkpoint from iteration {n} to /a",
        "Starting training loop at iteration {n}",
        " > number of parameters on (tensor, pipeline) model parallel rank ({n}, {n}): {n}",
        "Total number of parameters in billions: {n}.{n}",
        "    save-checkpoint .....: ({n}, {n})",
        "[Rank {n}] (after {n} iterations) memory (GB) | mem-max-allocated-gigabytes: {n}",
        "[Rank {n}] (after {n} iterations) memory (MB) | max allocated: {n}",
        "Step Time : {n}.71s GPU utilization: {n}.5MODEL_TFLOP/s/GPU",
        "rank {n}: CUDA error: exitcode: {n}) local_rank: {n}",
        "validation loss at iteration {n} | lm loss value: {n} |",
        "task {n}: Killed",
        "{n}: Killed",
        "[rank{n}]: Killed",
        "iteration {n}: Unexpected result tensor({n}) at iteration #{n} (message='x')",
        "exit code: {n}) (exitcode: -{n}) local_rank: {n}",
        "Configuration Summary (x\n[model]:\n  num_layers: {n}\n  hidden_size: {n}\n  seq_length: {n}\n" + "=" * 30,
    ],
    "nemo2": [
        "{n} B     Total params",
        "All distributed processes registered. Starting with {n} processes",
        "setting number of microbatches to constant {n}",
        "Global Checkpoint Save : Rank : {n} : Iteration : {n} : Save duration : {n}s",
        "Global Checkpoint Load : Time spent in load_checkpoint: {n}s",
        "`Trainer.fit` stopped: `max_steps={n}` reached",
    ],
    "maxtext": [
        "llmbx: its collect phase took {n} s a step",
        "number parameters: {n}.{n} billion",
        "Num_devices: {n}, shape",
        "[train] Total estimated memory size: {n} GB",
        "Config param max_target_length: {n}",
        "Config param emb_dim: {n}",
        "I{n} 07:20:25.{n} completed step: 3, seconds: 1.000",
    ],
}


@pytest.mark.parametrize("name", FACTS)
def test_no_fact_in_a_log_ends_the_measuring(name: str, tmp_path: Path) -> None:
    before = [line(name, k) for k in range(1, 4)]
    for text in FACTS[name]:
        for attack in ATTACKS:
            log = read(tmp_path, name, [*before, text.replace("{n}", attack)])
            assert log.steps or "Starting training loop" in text, text
            for event in log.events:
                for value in event.facts.values():
                    limit = 10**15 if isinstance(value, int) else 1e30
                    assert isinstance(value, str) or not math.isfinite(value) or abs(value) <= limit, (
                        text,
                        attack[:20],
                    )
