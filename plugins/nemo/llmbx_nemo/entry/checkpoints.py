"""Find Megatron-Bridge's checkpoints, and arrange them as the recipes describe (a folder that contains `weights/`)."""

from __future__ import annotations

from pathlib import Path

TRACKER = "latest_checkpointed_iteration.txt"
"""Megatron's file next to the checkpoints, with the number of the last saved step."""

NEWEST, STATE = "latest_train_state.pt", "train_state.pt"
"""Megatron-Bridge 0.1 and 0.2 write NEWEST instead of TRACKER: a copy of the newest checkpoint's file STATE."""


def saved_step(folder: Path) -> int | None:
    """Return the step of the newest Megatron checkpoint in `folder`, or None if there is no checkpoint."""
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
    """Return in one line why a run cannot resume from `folder`."""
    if not folder.is_dir():
        return f"checkpoint folder {folder} does not exist"
    if list((folder / "weights").glob("*.distcp")):
        return f"{folder} is a NeMo 2 checkpoint: only a recipe with the NeMo 2 driver can resume from it"
    return f"{folder} is not a Megatron checkpoint ({TRACKER} is missing): use the parent folder of weights/"


def name_weights(folder: Path) -> None:
    """Link `folder/weights` to the newest checkpoint, so that `folder` is the parent of `weights/*.distcp`.

    Also writes the file TRACKER if the installed version does not, because its presence shows that the run has saved.
    """
    step = saved_step(folder)
    if step is None:
        return
    if not (folder / TRACKER).is_file():
        (folder / TRACKER).write_text(str(step), encoding="utf-8")
    link = folder / "weights"
    link.unlink(missing_ok=True)
    link.symlink_to(f"iter_{step:07d}")
