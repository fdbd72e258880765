"""Update the catalog's files from a Megatron-Bridge tree."""

from __future__ import annotations

from pathlib import Path

import click

from llmbx.api import UsageError

from . import files
from .names import Names, shipped_names, with_models
from .render import block
from .rows import Imported, differences, unknown_models, workloads
from .tree import Tree, find_tree, functions

CATALOG = Path(__file__).parents[1] / "catalog"


def update(source: Path, folder: Path | None, models: tuple[str, ...], image: str | None, check: bool) -> bool:
    """Write the recipe of the tree in `source` into the files of a folder, or only compare. Returns whether it differs.

    The differences are printed, one a line: a new or removed configuration, a changed value, a model without a name.
    """
    tree, names = find_tree(source), with_models(shipped_names(), models)
    called = functions(tree)
    chosen = {name for name, _ in with_models(names.replace(models={}), models).models.values()} if models else None
    imported = [each for each in workloads(called, names) if chosen is None or each.workload in chosen]
    source_of_image = _image(tree, names, image)
    lines = [
        line for each in imported for line in _update(each, tree, names, source_of_image, folder or CATALOG, check)
    ]
    for model, count in unknown_models(called, names).items() if chosen is None else ():
        lines.append(f"{model}: a new model with {count} functions: name it with --model {model}=WORKLOAD/SIZE")
    for line in lines:
        click.echo(line)
    rows = sum(len(each.configurations) for each in imported)
    left_out = sum(len(members) for each in imported for members in each.left_out.values())
    click.echo(
        f"Megatron-Bridge {tree.version}: {rows} configurations of {len(imported)} workloads, "
        f"{left_out} functions left out, {len(lines)} differences",
        err=True,
    )
    return bool(lines)


def _update(
    imported: Imported, tree: Tree, names: Names, image: dict[str, str], folder: Path, check: bool
) -> list[str]:
    """Return the differences of a workload, and write its file unless it is only checked."""
    if not imported.configurations:
        reasons = "; ".join(imported.left_out)
        raise UsageError(f"{imported.workload}: none of the functions gives a row: {reasons}")
    path = folder / f"{imported.workload}.toml"
    before, old, after = files.split(files.read(path), path)
    new = block(imported, tree, names, image)
    if old == new:
        return []
    changed = differences(files.configurations(old, path), files.configurations(new, path))
    lines = [f"{imported.workload} {line}" for line in changed]
    if not check:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(before + new + after, encoding="utf-8")
    return lines or [f"{imported.workload}: the same values in other words"]


def _image(tree: Tree, names: Names, image: str | None) -> dict[str, str]:
    """Return the image of the recipe and where it was read. Raises `UsageError` if it is not known."""
    if image:
        return {"reference": image, "source": "--image"}
    if tree.release not in names.images:
        raise UsageError(f"the image with Megatron-Bridge {tree.version} is not known: use --image IMAGE")
    return names.images[tree.release]
