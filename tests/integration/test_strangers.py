"""What a stranger leaves in his run folder: links to private files, pipes, devices and folders in place of files."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ..patience import PATIENCE_S, wait_until
from .test_users import ANN, BOB, RUN, Site, shared, site

__all__ = ["shared", "site"]

PROGRAM = Path(__file__).with_name("hostile_verbs.py")
PRIVATE = "loss: 0.25 is what only Bob may know"

FILES = (
    "run.json", "result.json", "exit.json", "{log}", "steps.jsonl", "{batch}", "node-0.txt", "seen.json", "tags.json",
    "configs/final.json", "arrivals.json", "first_step.json", "local.json", "attempts/0/result.json", "rank-0.log",
    "nsys_profile/expected.json", "nsys_profile/analysis.json", "nsys_profile/rank0.sqlite", "nccl.json",
    "nccl_trace/nccl.host.1.log",
)  # fmt: skip
"""Every file of a run folder that some verb reads."""

VERBS = (
    ("status", "{run}"), ("logs", "{run}"), ("parse", "{run}"), ("explain", "{run}"),
    ("report", "{run}", "--single", "--html", "{page}"),
    ("compare", "{good}", "{run}"), ("export", "prometheus", "{run}"), ("cancel", "{run}"), ("nccl", "{run}"),
    ("nsys", "{run}"), ("jobs", "tag", "{run}", "seen"), ("show", "--from", "{run}"),
)  # fmt: skip


def fifo(place: Path, private: Path) -> None:
    os.mkfifo(place)


def to_zero(place: Path, private: Path) -> None:
    place.symlink_to("/dev/zero")


def to_private(place: Path, private: Path) -> None:
    place.symlink_to(private)


def folder(place: Path, private: Path) -> None:
    place.mkdir()


def device(place: Path, private: Path) -> None:
    os.mknod(place, 0o20666, os.makedev(1, 5))


KINDS = (
    pytest.param(fifo, FILES, id="pipe"),
    pytest.param(to_private, FILES, id="link to a private file"),
    pytest.param(to_zero, FILES[:4], id="link to an endless device"),
    pytest.param(device, FILES[:4], id="device"),
    pytest.param(folder, FILES[:4], id="folder"),
)


class Stranger:
    """Ann, who fills run folders of her own, and Bob, who looks at them."""

    def __init__(self, site: Site) -> None:
        self.site = site
        assert site.llmbx(ANN, *RUN).returncode == 0
        (self.good,) = site.install.glob("workloads/*/experiments/*/*/*")
        self.private = site.root / str(BOB) / "private.txt"
        self.private.write_text(f"{PRIVATE}\n")
        os.chown(self.private, BOB, BOB)
        self.private.chmod(0o600)

    def run(self, number: int) -> Path:
        """Another run of Ann: a copy with an id of its own."""
        run_id = f"{self.good.name}_{1_700_000_000 + number}"
        copy = self.good.parent.parent / run_id / self.good.name
        shutil.copytree(self.good, copy)
        record = json.loads((copy / "run.json").read_text())
        (copy / "run.json").write_text(json.dumps({**record, "run_id": run_id, "id": f"x{number:03}", "group": None}))
        return copy

    def put(self, run: Path, name: str, make: Callable[[Path, Path], None]) -> None:
        """Put something in place of a file."""
        place = run / name.format(log=f"log-{run.name}.out", batch=f"sbatch_{run.name}.out")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        make(place, self.private)

    def done(self) -> None:
        """All of it is Ann's."""
        for path in self.site.install.rglob("*"):
            os.chown(path, ANN, -1, follow_symlinks=False)

    def call(self, user: int, verbs: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        """What happens as a user calls verbs, all in one process."""
        plan = self.site.root / "verbs.json"
        plan.write_text(json.dumps(verbs))
        process = self.site.popen(user, str(PROGRAM), str(self.site.install), str(plan), command=[sys.executable])
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, err
        found: list[dict[str, Any]] = json.loads(out)
        return found


@pytest.fixture
def stranger(shared: Site) -> Stranger:
    return Stranger(shared)


def snapshot(install: Path) -> dict[Path, tuple[int, int, int]]:
    """Owner, mode and time of everything below the folders of runs."""
    found = (path for path in install.glob("workloads/*/experiments/*/*/**/*"))
    return {path: ((s := path.lstat()).st_uid, s.st_mode, s.st_mtime_ns) for path in found}


@pytest.mark.parametrize(("kind", "names"), KINDS)
def test_no_verb_hangs_follows_or_writes_in_a_strangers_run(
    stranger: Stranger, kind: Any, names: Sequence[str]
) -> None:
    runs = {name: stranger.run(number) for number, name in enumerate(names)}
    for name, run in runs.items():
        stranger.put(run, name, kind)
    ended = [stranger.run(100 + number) for number in range(len(names))]
    for name, run in zip(names, ended, strict=True):  # these have no result yet
        (run / "result.json").unlink()
        stranger.put(run, name, kind)
    stranger.done()
    before = snapshot(stranger.site.install)
    page = str(stranger.site.root / str(BOB) / "page.html")
    words = [
        [word.format(run=run, good=stranger.good, page=page) for word in verb]
        for run in (*runs.values(), ended[names.index("{log}")], ended[names.index("exit.json")])
        for verb in VERBS
    ]
    listing = ["jobs", "--user", "all", "--format", "json", "--columns", "+cause"]
    for found in stranger.call(BOB, [listing, *words, ["jobs", "rebuild"], listing]):
        assert found["code"] in range(6), (found["arguments"], found["code"], found["text"][-2000:])
        assert "Traceback" not in found["text"] and PRIVATE not in found["text"], (found["arguments"], found["text"])
        assert found["around"] == [], found["arguments"]
    assert snapshot(stranger.site.install) == before


def test_the_last_line_of_a_private_file_does_not_get_into_a_result(stranger: Stranger) -> None:
    run = stranger.run(1)
    (run / "result.json").unlink()
    (run / "steps.jsonl").unlink()
    stranger.put(run, "{log}", to_private)
    end = json.loads((run / "exit.json").read_text())
    (run / "exit.json").write_text(json.dumps({**end, "exit_code": 1}))
    stranger.done()
    before = snapshot(stranger.site.install)
    for arguments in (("jobs", "--user", "all"), ("status", str(run)), ("logs", str(run)), ("report", str(run))):
        done = stranger.site.llmbx(BOB, *arguments)
        assert PRIVATE not in done.stdout + done.stderr, arguments
    assert snapshot(stranger.site.install) == before
    assert stranger.site.llmbx(ANN, "jobs").returncode == 0
    assert (run / "result.json").stat().st_uid == ANN and PRIVATE not in (run / "result.json").read_text()


def test_a_pipe_does_not_stop_the_listing_of_all(stranger: Stranger) -> None:
    for number, name in enumerate(("run.json", "result.json", "exit.json", "{log}")):
        stranger.put(stranger.run(number), name, fifo)
    stranger.done()
    done = stranger.site.llmbx(BOB, "jobs", "--user", "all", "--format", "json")
    rows = {row["id"]: row for row in json.loads(done.stdout)}
    assert len(rows) == 4 and "it is a pipe" in rows["x001"]["cause"], done.stdout
    assert "run.json" in done.stderr or "it is a pipe" in done.stderr, done.stderr


def test_a_strangers_run_is_not_the_users_last_one(stranger: Stranger) -> None:
    """Else `profile` and `sweep --resume`, without a run's name, would start what a stranger wrote."""
    run = stranger.run(1)
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**record, "user": str(BOB), "created": record["created"] + 1e6}))
    stranger.done()
    refused = stranger.site.llmbx(BOB, "status")
    assert refused.returncode == 2 and "no run 'last'" in refused.stderr, refused.stdout
    (row,) = stranger.site.rows(BOB, "--user", "all", "--where", "id == 'x001'")
    assert row["user"] == str(ANN)


def test_a_link_of_a_stranger_above_a_run_is_not_followed_and_the_users_own_is(stranger: Stranger) -> None:
    own = stranger.site.root / str(BOB) / "install"
    own.symlink_to(stranger.site.install)
    os.chown(own, BOB, BOB, follow_symlinks=False)
    assert (
        stranger.site.llmbx(BOB, "status", str(own / stranger.good.relative_to(stranger.site.install))).returncode == 0
    )
    place = stranger.good.parent.parent / "moved"
    place.symlink_to(stranger.good.parent)
    os.chown(place, ANN, ANN, follow_symlinks=False)
    refused = stranger.site.llmbx(BOB, "status", str(place / stranger.good.name))
    assert refused.returncode == 2 and f"is a link of user {ANN}" in refused.stderr, refused.stderr


def test_each_user_has_tags_of_the_runs_of_others(stranger: Stranger) -> None:
    site, run_id = stranger.site, stranger.good.parent.name
    stranger.done()
    before = snapshot(site.install)
    for arguments in (("tag", run_id, "good"), ("tag", run_id, "better"), ("untag", run_id, "good")):
        assert site.llmbx(BOB, "jobs", *arguments).returncode == 0
    assert site.rows(BOB, "--user", "all", "--tag", "better")[0]["run_id"] == run_id
    assert site.rows(ANN)[0]["tags"] == [] and snapshot(site.install) == before
    assert site.llmbx(ANN, "jobs", "tag", run_id, "mine").returncode == 0
    assert site.llmbx(BOB, "jobs", "rebuild").returncode == 0
    assert site.rows(BOB, "--user", "all")[0]["tags"] == ["mine", "better"]
    refused = site.llmbx(BOB, "jobs", "untag", run_id, "mine")
    assert refused.returncode == 2 and f"was set by {ANN}" in refused.stderr


def test_a_user_only_watches_the_run_of_another(shared: Site) -> None:
    run_id = shared.llmbx(ANN, *RUN, "--set", "hold=go", "--detach").stdout.strip()
    (folder,) = shared.install.glob("workloads/*/experiments/*/*/*")
    log = folder / f"log-{folder.name}.out"
    wait_until(lambda: log.exists() and log.stat().st_size > 0)
    watching = shared.popen(BOB, "logs", "--follow", run_id)
    assert watching.stderr is not None
    assert watching.stderr.readline()
    (folder / "go").touch()
    out, _ = watching.communicate(timeout=PATIENCE_S)
    assert watching.returncode == 0 and "completed" in out, out
    assert [path for path in folder.rglob("*") if path.lstat().st_uid == BOB] == []
    assert not (folder / "result.json").exists()
    assert shared.rows(ANN)[0]["status"] == "completed" and (folder / "result.json").exists()


def test_a_sweep_of_another_user_is_shown_and_not_resumed(shared: Site) -> None:
    assert shared.llmbx(ANN, "sweep", *RUN[1:], "--repeats", "1").returncode == 0
    (plan,) = shared.install.glob("sweeps/*/sweep.json")
    assert "no sweep" in shared.llmbx(BOB, "sweep", "--resume").stderr
    refused = shared.llmbx(BOB, "sweep", "--resume", plan.parent.name)
    assert refused.returncode == 2 and f"belongs to {ANN}" in refused.stderr
    assert shared.llmbx(BOB, "sweep", "--show", plan.parent.name).returncode == 0
