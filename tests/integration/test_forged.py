"""What a stranger can claim in a shared install and leave in a shared folder, and what it must not lead to."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from .test_users import ANN, BOB, RUN, Site, shared, site

__all__ = ["shared", "site"]


def run_of(site: Site, user: int, **members: Any) -> Path:
    """A run of this user, with these members in its record."""
    before = set(site.install.glob("workloads/*/experiments/*/*/*"))
    assert site.llmbx(user, *RUN).returncode == 0
    (folder,) = set(site.install.glob("workloads/*/experiments/*/*/*")) - before
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**record, **members}))
    os.utime(folder.parents[1])
    return folder


def status(site: Site, user: int, name: str) -> str:
    done = site.llmbx(user, "status", name, "--format", "json")
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["run_id"])


def test_the_run_of_another_user_is_repeated_only_with_force(shared: Site) -> None:
    mark = shared.root / str(BOB) / "mark"
    run = run_of(shared, ANN)
    record = json.loads((run / "run.json").read_text())
    record["spec"]["setup"] = [f"touch {mark}"]
    (run / "run.json").write_text(json.dumps(record))
    refused = shared.llmbx(BOB, "run", "--from", str(run))
    assert refused.returncode == 2 and f"belongs to {ANN}" in refused.stderr and not mark.exists()
    assert shared.llmbx(BOB, "run", "--from", str(run), "--force").returncode == 0
    assert mark.exists()


def test_names_and_tags_of_others_do_not_take_the_place_of_the_users_own(shared: Site) -> None:
    own = run_of(shared, ANN)
    assert shared.llmbx(ANN, "jobs", "tag", str(own), "accepted").returncode == 0
    record = json.loads((own / "run.json").read_text())
    forged = run_of(shared, BOB, id=record["id"], created=record["created"] + 1e6)
    (forged / "tags.json").write_text('["accepted"]')
    os.utime(forged.parents[1])
    assert {row["user"] for row in shared.rows(ANN, "--user", "all", "--tag", "accepted")} == {str(ANN), str(BOB)}
    assert status(shared, ANN, record["id"]) == status(shared, ANN, "@accepted") == record["run_id"]


def test_a_run_in_a_strangers_folder_is_no_cell_of_a_sweep(shared: Site) -> None:
    swept = shared.llmbx(ANN, "sweep", *RUN[1:])
    assert swept.returncode == 0, swept.stderr
    (folder,) = shared.install.glob("workloads/*/experiments/*/*/*")
    mark = json.loads((folder / "run.json").read_text())["sweep"]
    run_of(shared, BOB, sweep=mark)
    shutil.rmtree(folder.parent)
    shown = shared.llmbx(ANN, "sweep", "--show", mark["sweep_id"], "--format", "json")
    assert shown.returncode != 0 or "completed" not in shown.stdout, shown.stdout


def test_nothing_is_imported_from_the_working_folder(shared: Site) -> None:
    folder, mark = shared.root / "everybodys", shared.root / str(BOB) / "mark"
    folder.mkdir()
    folder.chmod(0o1777)
    for name in ("importlib", "platform", "json", "venv", "pip"):
        (folder / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write({name!r} + ' ')\n")
    for verb in (("run", "line"), ("doctor",), ("plugins", "check", "toy", "--only", "import")):
        shared.llmbx(BOB, *verb, cwd=folder)
    assert not mark.exists(), mark.read_text()


def test_a_strangers_git_folder_does_not_hide_the_project_file(shared: Site) -> None:
    project = shared.root / "project"
    (project / "work/.git").mkdir(parents=True)
    (project / "llmbx.toml").touch()
    for path in (project, project / "llmbx.toml", project / "work"):
        os.chown(path, BOB, BOB)
    os.chown(project / "work/.git", ANN, ANN)
    done = shared.llmbx(BOB, "jobs", cwd=project / "work", LLMBX_CONFIG="")
    assert done.returncode == 0 and f"using {project / 'llmbx.toml'}" in done.stderr
