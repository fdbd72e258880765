"""More faults, written down after the checks were done and before any of these was tried (see docs/faults.md)."""

from __future__ import annotations

from .faults import ALL
from .silent import LOGS, MEGATRON, Silent, _flops, _inside, _line

FRESH: dict[str, Silent] = {
    "times in half seconds": Silent(
        "rounded-times", "warning", lambda m: m.every(time=lambda k: round(2 * m.steps[k]["time"]) / 2),
        ("bridge", "nemo2", "megatron"),
    ),
    "a loss scale that falls from 65536 to 1": Silent(
        "loss-scale", "warning", lambda m: m.every(scale=lambda k: 65536.0 if k < 25 else 1.0), MEGATRON
    ),
    "Transformer Engine cannot be imported": Silent(
        "kernel-fallback", "not comparable",
        _line("UserWarning: transformer_engine could not be imported, using the PyTorch implementation instead"),
    ),
    "unfused attention": Silent(
        "attention-fallback", "not comparable",
        _line("WARNING: FlashAttention is disabled: head dimension 256 is not supported, using unfused attention"),
    ),
    "a restart in a wrapper": Silent(
        "restarted-inside", "invalid",
        _inside("nvidia_resiliency_ext.inprocess.wrap: restart iteration 1 started, reason: exception"), LOGS,
    ),
    "FLOPs of 0.001": Silent("plugin-value", "invalid", _flops(1e-3), ALL),
}  # fmt: skip
"""The faults of this second list that passed in silence when they were tried first."""
