"""What the parsers find in the lines that matter to them is what they find in all lines of a log."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import llmbx.run.collect
from llmbx.logs.parser import LogParser
from llmbx.logs.skim import BLOCK
from llmbx.run.collect import collect, collect_file
from llmbx_maxtext.grammar.steps import MaxTextParser
from llmbx_nemo.grammar.megatron import MegatronParser
from llmbx_nemo.grammar.nemo1 import Nemo1Parser
from llmbx_nemo.grammar.nemo2 import Nemo2Parser
from llmbx_nemo.grammar.torchtitan import TorchtitanParser

NOISE = [
    "n1:17:18 [0] NCCL INFO Channel 00/0 : 1[1] -> 2[2] via P2P", "loaded shard 3 at 0x7f00ab12", "epoch", "",
    "Traceback (most recent call last):", '  File "train.py", line 3, in main', "ValueError: no", "1: KeyError: 'x'",
    "Exception in thread Thread-1:", "Last error:", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 G",
]  # fmt: skip
STEPS: dict[Callable[[], LogParser], list[str]] = {
    MegatronParser: [
        " [2026-03-04 08:20:25] iteration {n}/ 9 | consumed samples: 12 | elapsed time per iteration (ms): 5710.2 | "
        "global batch size: 128 | lm loss: 1.1E+01 | number of nan iterations:   0 |",
        " [2026-03-04 08:20:25] iteration {n}/ 9 | consumed samples: 12 | elapsed ti",
        "me per iteration (ms): 5710.2 | lm loss: 1.1E+01 | number of nan iterations:   0 |",
        "Step Time : 5.71s GPU utilization: 1181.5MODEL_TFLOP/s/GPU", "Step Time : 5.7", "1s GPU utilization: 11.5MOD",
        "[after training is done] datetime: 2026-03-04 08:20:25", "--- Configuration Summary (GPT) ---", "layers: 3",
    ],
    Nemo2Parser: [
        "Training epoch 0, iteration {n}/9 | lr: 7.5e-06 | global_batch_size: 128 | reduced_train_loss: 12.4 | "
        "train_step_timing in s: 12.39 | consumed_samples: 640",
        "Training epoch 0, iteration {n}/9 | lr: 7.5e-06 | glob", "al_batch_size: 128 | train_step_timing in s: 2.39",
        "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/8", "`Trainer.fit` stopped: `max_steps=50` reached.",
    ],
    Nemo1Parser: [
        "Epoch 0: : 10%|█| 5/50 [23:22<00:00, reduced_train_loss=0.1, global_step={n}.00, train_step_timing in s=24.0]",
        "Epoch 0: : 10%|█| 5/50 [23:22<00:00, global_step={n}.00, train_step_tim", "`Trainer.fit` stopped: `max_st",
    ],
    TorchtitanParser: [
        "[titan] 2026-03-04 08:20:25,123 - root - INFO - step: {n}  loss: 4.1  grad_norm: 1.0  memory: 9.0GiB(9.5%)  "
        "tps: 8,000  tflops: 40.1  mfu: 4.0%",
        "[titan] 2026-03-04 08:20:25,123 - root - INFO - Training completed",
    ],
    MaxTextParser: [
        "completed step: {n}, seconds: 7.908, TFLOP/s/device: 460.480, Tokens/s/device: 1035.970, loss: 3.000",
        "completed step: {n}, seconds: 7.9", "llmbx: phase collect begins", "llmbx: phase train begins",
        "Config param steps: 9", "number parameters: 1.234 billion",
    ],
}  # fmt: skip


@pytest.mark.parametrize("parser", STEPS, ids=lambda kind: str(kind.__name__))
def test_the_log_is_the_same(parser: Callable[[], LogParser], monkeypatch: pytest.MonkeyPatch) -> None:
    numbered = st.builds(lambda text, n: text.replace("{n}", str(n)), st.sampled_from(STEPS[parser]), st.integers(1, 9))

    @settings(deadline=None)  # the first line makes the filter of failures
    @given(
        st.lists(numbered | st.sampled_from(NOISE), max_size=30),
        st.sampled_from(["\n", "\r", "\r\n"]),
        st.sampled_from(["", "\x1b[32m"]),
        st.sampled_from([7, 100, BLOCK]),
    )
    def check(lines: list[str], end: str, color: str, block: int) -> None:
        monkeypatch.setattr(llmbx.run.collect, "BLOCK", block)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "log.out")
            file.write_text("".join(f"{color}{line}{end}" for line in lines), newline="")
            skimmed, whole = collect_file(parser(), file), collect(parser(), [line for line in lines if line])
        assert (skimmed.steps, skimmed.events, skimmed.later) == (whole.steps, whole.events, whole.later)
        assert (skimmed.attempts, skimmed.conflicts) == (whole.attempts, whole.conflicts)

    check()
