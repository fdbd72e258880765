"""`llmbx image list|verify|prune` on an install with real images."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .tools import Daemons

Llmbx = Callable[..., subprocess.CompletedProcess[str]]


def rows(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in json.loads(done.stdout)}


def test_images_are_listed_verified_and_pruned(
    llmbx: Llmbx, tool_env: dict[str, str], images: dict[str, str], daemons: Daemons, install: Path
) -> None:
    empty = llmbx("image", "verify", env=tool_env)
    assert empty.returncode == 2 and "no images in" in empty.stderr
    reference, name = f"{daemons.registry}/ci/tiny:1", "ci+tiny+1.sif"
    for tool in ("apptainer", "docker"):
        assert llmbx("image", "prepare", reference, "--runtime", tool, env=tool_env).returncode == 0
    listed = rows(llmbx("image", "list", "--format", "json", env=tool_env))
    assert listed[name]["reference"] == reference and listed[name]["digest"] == images["ci/tiny:1"]
    assert listed[name]["state"] == "ok" and listed[name]["size"] == (install / "images" / name).stat().st_size
    assert sorted(row["kind"] for row in listed.values()) == ["docker", "sif"]
    (stored,) = (row["name"] for row in listed.values() if row["kind"] == "docker")
    short = stored.replace("sha256:", "")[:19]
    table = llmbx("image", "list", env=tool_env).stdout
    assert f"{short} " in table and stored not in table
    assert llmbx("image", "verify", short, "--offline", env=tool_env).returncode == 0
    good = llmbx("image", "verify", "--format", "json", env=tool_env)
    assert good.returncode == 0 and {row["state"] for row in rows(good).values()} == {"ok"}, good.stdout

    daemons.docker("pull", f"{daemons.registry}/ci/tiny:2")
    daemons.docker("tag", f"{daemons.registry}/ci/tiny:2", reference)
    daemons.docker("push", reference)
    moved = llmbx("image", "verify", name, "--format", "json", env=tool_env)
    assert moved.returncode == 4
    assert images["ci/tiny:1"] in moved.stdout and images["ci/tiny:2"] in moved.stdout and "re-pushed" in moved.stdout
    assert llmbx("image", "verify", name, "--offline", env=tool_env).returncode == 0

    file = install / "images" / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    changed = llmbx("image", "verify", name, "--offline", "--format", "json", env=tool_env)
    assert changed.returncode == 4 and "changed: expected sha256:" in changed.stdout
    unknown = llmbx("image", "verify", "ci+tiny+2.sif", env=tool_env)
    assert unknown.returncode == 2 and "(known: ci+tiny+1.sif" in unknown.stderr

    assert name not in llmbx("image", "prune", "--older-than", "90", "--dry-run", env=tool_env).stdout
    os.utime(file, (time.time() - 91 * 86400,) * 2)
    assert name in llmbx("image", "prune", "--older-than", "90", "--dry-run", env=tool_env).stdout
    assert name not in llmbx("image", "prune", "--dry-run", env=tool_env).stdout
    leftover = install / "images/.x.sif.partial-elsewhere-1"
    leftover.mkdir()
    (leftover / "part").write_bytes(b"x" * 1000)
    assert llmbx("image", "prune", env=tool_env).returncode == 0
    assert leftover.exists(), "an import on another machine may still run"
    mine = leftover.with_name(f".x.sif.partial-{subprocess.check_output(['uname', '-n'], text=True).strip()}-999999999")
    leftover.rename(mine)
    assert llmbx("image", "prune", name, "--dry-run", env=tool_env).returncode == 0
    assert file.exists() and mine.exists()
    done = llmbx("image", "prune", name, env=tool_env)
    assert done.returncode == 0 and "freed" in done.stderr
    assert not file.exists() and not mine.exists()
    assert (install / "images/images.lock").exists()
    # The tag goes back to what the other tests know it as.
    daemons.docker("image", "rm", "--force", reference, f"{daemons.registry}/ci/tiny:2", check=False)
    daemons.docker("pull", f"{daemons.registry}/ci/tiny@{images['ci/tiny:1']}")
    daemons.docker("tag", f"{daemons.registry}/ci/tiny@{images['ci/tiny:1']}", reference)
    daemons.docker("push", reference)
    daemons.docker("image", "rm", "--force", reference, check=False)


def test_an_image_by_itself_is_for_the_clusters_own_tool(
    llmbx: Llmbx, tool_env: dict[str, str], images: dict[str, str], daemons: Daemons, install: Path, tmp_path: Path
) -> None:
    (tmp_path / "llmbx.toml").write_text('[clusters.mine]\nruntime = "docker"\n')
    env = {**tool_env, "LLMBX_CONFIG": str(tmp_path / "llmbx.toml")}
    reference = f"{daemons.registry}/ci/tiny:1"
    for asked, kind in ((("--cluster", "mine"), "docker"), (("--cluster", "mine", "--runtime", "apptainer"), "sif")):
        assert llmbx("image", "prepare", reference, *asked, env=env).returncode == 0
        assert kind in {row["kind"] for row in rows(llmbx("image", "list", "--format", "json", env=env)).values()}
    assert llmbx("image", "prepare", reference, "--runtime", "auto", env=env).returncode == 0
