"""Where checkpoints lie: Megatron-Bridge's folders, seen as the recipes describe them (the parent of `weights/`)."""

from __future__ import annotations

from pathlib import Path

TRACKER = "latest_checkpointed_iteration.txt"
"""Megatron's file beside the checkpoints, with the number of the last step that was saved."""

NEWEST, STATE = "latest_train_state.pt", "train_state.pt"
"""What Megatron-Bridge 0.1 and 0.2 leave in its place: a copy of the newest checkpoint's state."""


def saved_step(folder: Path) -> int | None:
    """The step of the newest Megatron checkpoint in `folder`; None when there is none."""
    try:
        return int((folder / TRACKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        pass
    if not (folder / NEWEST).is_file():
        return None
    whole = [path.parent.name for path in folder.glob(f"iter_*/{STATE}")]
    steps = [int(name.removeprefix("iter_")) for name in whole if name.removeprefix("iter_").isdigit()]
    return max(steps, default=None)


def unusable(folder: Path) -> str:
    """Why `folder` cannot be resumed from, in one line."""
    if not folder.is_dir():
        return f"the checkpoint {folder} is not there"
    if list((folder / "weights").glob("*.distcp")):
        return f"{folder} holds a NeMo 2 checkpoint: only a recipe with the NeMo 2 driver can resume from it"
    return f"{folder} holds no Megatron checkpoint (no {TRACKER}): give the parent folder of weights/"


def name_weights(folder: Path) -> None:
    """Make `folder/weights` lead to the newest checkpoint, so that `folder` is the parent of `weights/*.distcp`.

    Where this version leaves no file with the step, it is written: a run that saved is known by it.
    """
    step = saved_step(folder)
    if step is None:
        return
    if not (folder / TRACKER).is_file():
        (folder / TRACKER).write_text(str(step), encoding="utf-8")
    link = folder / "weights"
    link.unlink(missing_ok=True)
    link.symlink_to(f"iter_{step:07d}")
