"""Lines of 64 KiB made to slow a parser down: each takes about the time of other lines of that length."""

from __future__ import annotations

import time

import pytest

from llmbx.logs.lines import LIMIT
from llmbx.logs.parser import LogFormat
from llmbx.plugins.manager import load

PUMPS = [
    "iteration 1/ 2 | ",
    "iteration ",
    "Step Time : ",
    "Step Time : 1",
    "S",
    "Step Time : 1.00s GPU utilization: ",
    "| a: ",
    " ",
    "\t",
    "[",
    "] i",
    "error: ",
    "Epoch 0: ",
    "Epoch 0: | 1/2 [",
    "0: ",
    "n1: ",
    "a.",
    "lm loss: ",
    "a: 1 |",
    "a: 1 ",
    "global_step=",
    "completed step: 1, ",
    "loss: 1.000, ",
    "Config param emb_dim: ",
    "Unexpected result ",
    "(message='",
    "successfully loaded checkpoint from a ",
    "validation loss at iteration ",
    "Traceback (most recent call last)",
    "stepd: error: ",
    "cuda ",
    "ibv_a ",
    "401 Client Error",
    "NCCL WARN ",
    "1",
    "1.",
    "=",
    "\x1b]",
    "\x1b[",
    "(after 1 ",
    "Training epoch 0, iteration 1/2 | ",
    "Global Checkpoint Save : Rank : 1 : Iteration : 1 ",
    "e+",
    "reduced_train_loss: 1",
    "elapsed time per iteration (ms): 1",
    " elapsed time per iteration (ms) ",
    "llmbx: PGLE profile ",
    "...",
    "[rank1]: ",
]
FORMATS = {found.name: found for found in load().log_formats()}
LONGEST_S = 20.0
"""Processor time for a line and its repetitions. An expression that is quadratic takes minutes for some of them."""


@pytest.mark.parametrize("name", FORMATS)
def test_no_line_is_slow(name: str) -> None:
    slow = []
    for pump in PUMPS:
        for length in (LIMIT, 4000):  # longer lines are not considered as halves of records
            body = (pump * (length // len(pump)))[: length - 60]
            begun = ["", "iteration 3/ 9 | ", "Step Time : ", "Training epoch 0, iteration 3/9 | ", "error: ",
                     "completed step: 3, ", "global_step=", ""]  # fmt: skip
            lines = [start + body for start in begun]
            taken = seconds(FORMATS[name], lines)
            if taken > LONGEST_S:
                slow.append((pump, length, round(taken, 1)))
    assert slow == []


def seconds(format_: LogFormat, lines: list[str]) -> float:
    began, parser = time.process_time(), format_.parser()
    for line in lines:
        list(parser.feed(line))
    list(parser.close())
    return time.process_time() - began


@pytest.mark.parametrize("name", FORMATS)
def test_no_log_is_slow_to_recognize(name: str) -> None:
    slow = []
    for pump in PUMPS:
        began = time.process_time()
        FORMATS[name].sniff(pump * ((1 << 19) // len(pump)))
        if time.process_time() - began > LONGEST_S:
            slow.append(pump)
    assert slow == []
