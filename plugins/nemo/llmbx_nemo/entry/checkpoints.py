"""Where checkpoints lie: Megatron-Bridge's folders, seen as the recipes describe them (the parent of `weights/`)."""

from __future__ import annotations

from pathlib import Path

TRACKER = "latest_checkpointed_iteration.txt"
"""Megatron's file beside the checkpoints, with the number of the last step that was saved."""


def saved_step(folder: Path) -> int | None:
    """The step of the newest Megatron checkpoint in `folder`; None when there is none."""
    try:
        return int((folder / TRACKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def unusable(folder: Path) -> str:
    """Why `folder` cannot be resumed from, in one line."""
    if not folder.is_dir():
        return f"the checkpoint {folder} is not there"
    if list((folder / "weights").glob("*.distcp")):
        return f"{folder} holds a NeMo 2 checkpoint: only a recipe with the NeMo 2 driver can resume from it"
    return f"{folder} holds no Megatron checkpoint (no {TRACKER}): give the parent folder of weights/"


def name_weights(folder: Path) -> None:
    """Make `folder/weights` lead to the newest checkpoint, so that `folder` is the parent of `weights/*.distcp`."""
    step = saved_step(folder)
    if step is None:
        return
    link = folder / "weights"
    link.unlink(missing_ok=True)
    link.symlink_to(f"iter_{step:07d}")
