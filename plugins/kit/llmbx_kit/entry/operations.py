"""Count the operations of a step in a rank: `plugins check` compares them with the formula."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

VARIABLE = "LLMBX_COUNT_FLOPS"
"""Set to 1 by `llmbx plugins check`: counting may slow a step down."""

FILE = "counted_flops.json"
"""Where the operations are recorded, relative to the run folder."""


def wanted(env: Mapping[str, str] | None = None) -> bool:
    """Whether the operations of a step are to be counted."""
    return (os.environ if env is None else env).get(VARIABLE, "") not in ("", "0")


def write(
    folder: Path, flops: float, samples: int, hidden: float | None = None, per_position: float = 0.0
) -> None:
    """Record that this rank's step of `samples` samples, forward and backward, took `flops`
    operations.

    A program that multiplies all pairs of positions and masks some also states how many of these
    operations were on pairs that its masks hide (`hidden`), and those on one pair for each position
    (`per_position`): formulas count half of the attention matrix, and programs the diagonal, too.
    """
    if wanted():
        counted = {
            "flops": flops,
            "samples": samples,
            "hidden": hidden,
            "per_position": per_position,
        }
        (folder / FILE).write_text(json.dumps(counted) + "\n", encoding="utf-8")


@contextlib.contextmanager
def of_torch(folder: Path, samples: int) -> Iterator[None]:
    """Count the matrix products inside with PyTorch's FlopCounterMode, and record them; does
    nothing if not wanted.

    Attention goes through plain matrix products meanwhile, because the counter does not know every
    fused kernel. So all pairs of positions are counted; the masks of `scaled_dot_product_attention`
    say how many of them are hidden.
    """
    if not wanted():
        yield
        return
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    masks = _masks()
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter, masks:
        yield
    write(
        folder,
        counter.get_total_flops(),
        samples,
        masks.hidden if masks.calls else None,
        masks.per_position,
    )


def _masks() -> Any:
    """Return a mode of PyTorch that adds up, over all calls of the attention, the operations on
    hidden pairs.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    class Masks(TorchFunctionMode):  # type: ignore[misc]  # torch is not where llmbx is checked
        calls, hidden, per_position = 0, 0.0, 0.0

        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func is torch.nn.functional.scaled_dot_product_attention:
                self.note(*args, **(kwargs or {}))
            return func(*args, **(kwargs or {}))

        def note(
            self, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
            is_causal: bool = False, **_: Any,
        ) -> None:  # fmt: skip
            """Three times the operations of the forward pass if there is a backward pass, as the
            formulas have it.
            """
            rows, columns = query.shape[-2], key.shape[-2]
            trained = torch.is_grad_enabled() and any(
                part.requires_grad for part in (query, key, value)
            )
            per_pair = (
                (3 if trained else 1)
                * 2
                * (query.shape[-1] + value.shape[-1])
                * query.shape[:-2].numel()
            )
            seen = 1.0
            if attn_mask is not None:
                kept = (
                    attn_mask
                    if attn_mask.dtype == torch.bool
                    else attn_mask > torch.finfo(attn_mask.dtype).min / 2
                )
                seen = kept.float().mean().item()
            elif is_causal:
                seen = sum(min(row + 1, columns) for row in range(rows)) / (rows * columns)
            self.calls += 1
            self.hidden += per_pair * rows * columns * (1 - seen)
            self.per_position += per_pair * rows

    return Masks()
