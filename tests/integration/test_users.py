"""One install and two users: shared by a group, or read-only for one of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ..patience import PATIENCE_S, wait_until
from .conftest import COMMAND, clean_environment

ANN, BOB, TEAM = 61001, 61002, 61000
"""Users and a group without names: the user of their records is the number."""


class Site:
    """An install, and llmbx as different users see it; each has a home of their own, and the umask 022."""

    def __init__(self, root: Path) -> None:
        self.root, self.install = root, root / "install"
        for user in (ANN, BOB):
            (root / str(user)).mkdir()
            os.chown(root / str(user), user, user)

    def popen(
        self,
        user: int,
        *arguments: str,
        command: Sequence[Path | str] = (COMMAND,),
        cwd: Path | None = None,
        **env: str,
    ) -> subprocess.Popen[str]:
        """Start llmbx as this user, who may read everything, as Python may be in the home of root, but not write."""
        home = self.root / str(user)
        environ = clean_environment(self.install, **{"HOME": str(home), "TMPDIR": str(home), **env})
        environ.pop("XDG_CACHE_HOME", None)
        become = [
            "setpriv", f"--reuid={user}", f"--regid={user}", f"--groups={TEAM}", "--bounding-set=-all,+dac_read_search",
            "--inh-caps=-all,+dac_read_search", "--ambient-caps=+dac_read_search",
        ]  # fmt: skip
        return subprocess.Popen(
            [*become, *command, *arguments], env=environ, cwd=cwd or home, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, umask=0o022,
        )  # fmt: skip

    def llmbx(
        self, user: int, *arguments: str, cwd: Path | None = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run llmbx as this user, to its end."""
        process = self.popen(user, *arguments, cwd=cwd, **env)
        out, err = process.communicate(timeout=PATIENCE_S)
        assert "Traceback" not in err, err
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def rows(self, user: int, *arguments: str, **env: str) -> list[dict[str, Any]]:
        """What `jobs` lists for this user."""
        done = self.llmbx(user, "jobs", "--format", "json", *arguments, **env)
        assert done.returncode == 0, done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found


@pytest.fixture
def site() -> Iterator[Site]:
    """A site; needs root to become its users. Without root: tests/plugins/history/test_users."""
    if os.geteuid() != 0:
        assert not os.environ.get("CI"), "CI runs as root: this test must not be left out there"
        pytest.skip("becoming another user needs root")
    root = Path(tempfile.mkdtemp(prefix="llmbx-users-", dir="/tmp"))  # pytest's folders are open to one user only
    root.chmod(0o755)
    yield Site(root)
    shutil.rmtree(root)


@pytest.fixture
def shared(site: Site) -> Site:
    """An install that is writable for the group of both users."""
    site.install.mkdir()
    os.chown(site.install, 0, TEAM)
    site.install.chmod(0o2775)
    return site


RUN = ("run", "line", "--launcher", "local", "--runtime", "host")


def test_two_users_of_a_group_work_in_one_install(shared: Site) -> None:
    for user in (ANN, BOB):
        done = shared.llmbx(user, *RUN)
        assert done.returncode == 0, done.stderr
    records = [json.loads(path.read_text()) for path in shared.install.glob("workloads/*/*/*/*/*/result.json")]
    assert sorted(record["user"] for record in records) == [str(ANN), str(BOB)]
    (anns,), (bobs,) = shared.rows(ANN), shared.rows(BOB)
    assert (anns["user"], bobs["user"]) == (str(ANN), str(BOB))
    assert [row["user"] for row in shared.rows(ANN, "--user", "all")] == [str(BOB), str(ANN)]
    assert [row["user"] for row in shared.rows(ANN, "--user", str(BOB))] == [str(BOB)]
    last = json.loads(shared.llmbx(ANN, "status", "--format", "json").stdout)
    assert last["run_id"] == anns["run_id"]
    table = shared.llmbx(ANN, "jobs")
    assert "1 run of other users not shown; use --user all" in table.stderr
    assert shared.llmbx(ANN, "jobs", "tag", bobs["run_id"], "good").returncode == 0
    assert shared.llmbx(BOB, "jobs", "tag", bobs["run_id"], "better").returncode == 0
    assert shared.rows(BOB)[0]["tags"] == ["better"]
    assert shared.rows(ANN, "--user", str(BOB))[0]["tags"] == ["better", "good"]
    found = {path: path.stat().st_mode for path in shared.install.rglob("*") if not path.is_symlink()}
    runs = [path.parent for path in shared.install.glob("workloads/*/experiments/*/*/*")]
    inside = {path for path in found for run in runs if path.is_relative_to(run)}
    assert [path for path in inside if found[path] & 0o022] == [], "only its owner changes a run"
    assert [path for path in found if path not in inside and not found[path] & 0o020] == [], "others run beside it"
    assert len(runs) == 2 and len({run.parent for run in runs}) == 1
    (folder,) = (path for path in inside if path.name == "run.json" and path.stat().st_uid == ANN)
    refused = shared.popen(BOB, str(folder), command=["sh", "-c", ': >> "$1"', "sh"])
    assert "Permission denied" in refused.communicate(timeout=PATIENCE_S)[1]
    assert "fit_line" in shared.llmbx(BOB, "report", anns["run_id"]).stdout


def test_what_one_user_left_unfinished_the_other_sees_and_does_not_record(shared: Site) -> None:
    started = shared.llmbx(ANN, *RUN, "--detach")
    assert started.returncode == 0, started.stderr
    (folder,) = shared.install.glob("workloads/*/experiments/*/*/*")
    wait_until(lambda: (folder / "exit.json").exists())
    (row,) = shared.rows(BOB, "--user", "all")
    assert (row["status"], row["user"]) == ("unknown", str(ANN)) and "has ended (completed)" in row["cause"]
    status = json.loads(shared.llmbx(BOB, "status", row["run_id"], "--format", "json").stdout)
    assert (status["status"], status["step"]) == ("completed", 20)
    saved = shared.llmbx(BOB, "parse", row["run_id"], "--window", "5-9", "--save")
    assert saved.returncode == 2, saved.stderr
    assert [path for path in folder.rglob("*") if path.stat().st_uid == BOB] == []
    assert not (folder / "result.json").exists()
    assert shared.rows(ANN)[0]["status"] == "completed"
    assert (folder / "result.json").stat().st_uid == ANN
    assert shared.rows(BOB, "--user", "all")[0]["status"] == "completed"


def test_only_its_owner_can_cancel_a_local_run(shared: Site) -> None:
    run_id = shared.llmbx(ANN, *RUN, "--set", "hold=go", "--detach").stdout.strip()
    refused = shared.llmbx(BOB, "cancel", run_id)
    assert refused.returncode == 4 and f"belongs to {ANN}" in refused.stderr, refused.stderr
    assert shared.rows(BOB, "--user", str(ANN))[0]["status"] == "running"
    assert shared.llmbx(BOB, "status").returncode == 2  # "last" is not Ann's
    done = shared.llmbx(ANN, "cancel", "last")
    assert done.returncode == 0, done.stderr


def test_the_lock_of_a_killed_process_of_another_user_does_not_stop_a_build(shared: Site) -> None:
    venvs = shared.install / "venvs"
    locks = [venvs / f".toy-py3{minor}.lock" for minor in (11, 12, 13)]
    hold = (
        "import contextlib, os, pathlib, signal, sys\nfrom llmbx_environments.locks import held\n"
        "os.umask(0o002)\npathlib.Path(sys.argv[1]).parent.mkdir()\n"
        "with contextlib.ExitStack() as stack:\n"
        "    for path in sys.argv[1:]:\n"
        "        stack.enter_context(held(pathlib.Path(path), 'it builds', print))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = shared.popen(ANN, *map(str, locks), command=[sys.executable, "-c", hold])
    _, err = killed.communicate(timeout=PATIENCE_S)
    assert killed.returncode == -signal.SIGKILL and all(path.exists() for path in locks), err
    done = shared.llmbx(BOB, "run", "line", "--launcher", "local", "--runtime", "venv", "--offline")
    assert done.returncode == 0, done.stderr
    assert not all(path.exists() for path in locks) and any(venvs.glob("toy-py3*/bin/python"))


def test_a_read_only_install_can_be_read_and_runs_go_elsewhere(site: Site) -> None:
    site.install.mkdir()
    os.chown(site.install, ANN, ANN)
    assert site.llmbx(ANN, *RUN, "--repeat", "2").returncode == 0
    run, other = site.rows(ANN)
    log = next(site.install.glob("workloads/**/log-*.out"))
    before = {path: path.stat().st_mtime_ns for path in site.install.rglob("*")}
    assert [row["run_id"] for row in site.rows(BOB, "--user", "all")] == [run["run_id"], other["run_id"]]
    for arguments in (
        ("show", "line"), ("parse", str(log)), ("compare", run["run_id"], other["run_id"]), ("report", run["run_id"]),
        ("logs", run["run_id"]), ("status", run["run_id"]), ("list",), ("jobs", "rebuild"),
    ):  # fmt: skip
        done = site.llmbx(BOB, *arguments)
        allowed = (0, 3, 5) if arguments[0] == "compare" else (0,)
        assert done.returncode in allowed and done.stdout, (arguments, done.stderr)
    refused = site.llmbx(BOB, *RUN)
    assert refused.returncode == 2 and "Permission denied" in refused.stderr and "--output" in refused.stderr
    output = site.root / str(BOB) / "runs"
    done = site.llmbx(BOB, *RUN, "--output", "runs")
    assert done.returncode == 0, done.stderr
    (folder,) = output.glob("experiments/*/*/*")
    assert json.loads((folder / "result.json").read_text())["user"] == str(BOB)
    assert site.llmbx(BOB, "status", str(folder)).returncode == 0
    (mine,) = site.rows(BOB, LLMB_WORKLOAD=str(output))
    assert mine["run_id"] == folder.parent.name
    swept = site.llmbx(BOB, "sweep", *RUN[1:], "--repeats", "2", "--output", "runs", "--format", "json")
    (cell,) = json.loads(swept.stdout)
    assert (cell["n"], cell["status"]) == (2, "completed") and len([*output.glob("experiments/*/*/*")]) == 3
    for where, env in ((("--output", "runs"), {}), ((), {"LLMB_WORKLOAD": str(output)})):
        again = site.llmbx(BOB, "sweep", "--resume", *where, "--format", "json", **env)
        assert json.loads(again.stdout) == [cell] and len([*output.glob("experiments/*/*/*")]) == 3
    missing = site.llmbx(BOB, "sweep", "--show")
    assert missing.returncode == 2 and f"no sweep in {site.install}" in missing.stderr
    assert site.llmbx(BOB, "jobs", "tag", run["run_id"], "good").returncode == 0
    assert site.rows(BOB, "--user", "all", "--tag", "good")[0]["run_id"] == run["run_id"]
    assert {path: path.stat().st_mtime_ns for path in site.install.rglob("*")} == before


def test_a_run_that_ended_in_a_read_only_install_is_measured_but_not_recorded(site: Site) -> None:
    site.install.mkdir()
    os.chown(site.install, ANN, ANN)
    run_id = site.llmbx(ANN, *RUN, "--detach").stdout.strip()
    (folder,) = site.install.glob("workloads/*/experiments/*/*/*")
    wait_until(lambda: (folder / "exit.json").exists())
    status = json.loads(site.llmbx(BOB, "status", run_id, "--format", "json").stdout)
    assert (status["status"], status["step"]) == ("completed", 20)
    (row,) = site.rows(BOB, "--user", "all")
    assert row["status"] == "unknown" and "has ended (completed)" in row["cause"]
    assert not (folder / "result.json").exists()
    assert site.rows(ANN)[0]["status"] == "completed"
    assert site.rows(BOB, "--user", "all")[0]["status"] == "completed"


def test_a_cache_that_cannot_be_written_or_belongs_to_another_user_is_not_needed(shared: Site) -> None:
    assert shared.llmbx(ANN, *RUN).returncode == 0
    cache = shared.root / "cache"
    cache.mkdir()
    os.chown(cache, ANN, ANN)
    assert len(shared.rows(ANN, XDG_CACHE_HOME=str(cache))) == 1
    for mode in (0o755, 0o700):  # the index can be read but not written; it cannot be read
        cache.chmod(mode)
        done = shared.llmbx(BOB, "jobs", "--user", "all", "--format", "json", XDG_CACHE_HOME=str(cache))
        assert len(json.loads(done.stdout)) == 1, done.stderr
        assert shared.llmbx(BOB, *RUN, XDG_CACHE_HOME=str(cache)).returncode == 0
        assert json.loads(shared.llmbx(BOB, "jobs", "--format", "json", XDG_CACHE_HOME=str(cache)).stdout)
        for run in shared.install.glob("workloads/*/experiments/*/*"):
            if next(run.glob("*/run.json")).stat().st_uid == BOB:
                shutil.rmtree(run)


def attack(folder: Path, user: int) -> tuple[Path, Path]:
    """A profile of this user that runs three commands in every run; return it, and the file that they write."""
    proof, payload = folder / "proof", folder / "payload"
    payload.mkdir()
    (payload / "sitecustomize.py").write_text(f"open({str(proof)!r}, 'a').write('PYTHONPATH')\n")
    (payload / "bash_env").write_text(f"echo BASH_ENV >> {proof}\n")
    file = folder / "llmbx.toml"
    file.write_text(
        'default_cluster = "evil"\n[clusters.evil]\n'
        f"setup = ['echo setup >> {proof}']\n"
        f'env = {{ BASH_ENV = "{payload}/bash_env", PYTHONPATH = "{payload}" }}\n'
    )
    proof.touch()
    proof.chmod(0o666)
    os.chown(file, user, user)
    return file, proof


@pytest.mark.parametrize("user", [0, BOB])
def test_a_profile_that_a_stranger_left_in_a_shared_folder_is_ignored(site: Site, user: int) -> None:
    scratch, inner = site.root / "scratch", site.root / "scratch" / "mine"
    inner.mkdir(parents=True)
    os.chown(inner, user, user)
    scratch.chmod(0o1777)
    file, proof = attack(scratch, ANN)
    home = site.root / str(user)
    home.mkdir(exist_ok=True)
    env = {"LLMBX_CONFIG": "", "LLMB_INSTALL": str(inner / "install"), "HOME": str(home)}
    done = site.llmbx(user, *RUN, cwd=inner, **env)
    assert done.returncode == 0, done.stderr
    assert proof.read_text() == "", "nothing of it was obeyed, and nobody is kept from working"
    (note,) = (line for line in done.stderr.splitlines() if str(file) in line)
    assert "ignored" in note and f"belongs to {ANN} (mode 0644)" in note and "chown" in note

    def shown(**named: str) -> bool:
        """Whether the profile is in force."""
        done = site.llmbx(user, "show", "line", cwd=inner, **{**env, **named})
        assert done.returncode == 0, done.stderr
        return "cluster 'evil'" in done.stdout

    own, mine = inner / "llmbx.toml", home / "mine.toml"
    mine.write_text(file.read_text())
    os.chown(mine, user, user)
    for target, owner in ((file, user), (mine, ANN)):  # my link to the stranger's file, the stranger's link to mine
        own.symlink_to(target)
        os.chown(own, owner, owner, follow_symlinks=False)
        assert not shown()
        own.unlink()
    assert shown(LLMBX_CONFIG=str(file)), "a file that is named is obeyed"


def test_a_project_of_mine_that_a_group_can_write_is_an_error_that_says_the_chmod(site: Site) -> None:
    project = site.root / "project"
    project.mkdir()
    file = project / "llmbx.toml"
    file.write_text('default_cluster = "c"\n[clusters.c]\nlauncher = "local"\n')
    env = {"LLMBX_CONFIG": "", "LLMB_INSTALL": str(site.root / str(BOB) / "install")}
    for path in (project, file):
        os.chown(path, BOB, TEAM)
    for path, mode in ((file, 0o664), (project, 0o2775)):
        before = path.stat().st_mode
        path.chmod(mode)
        refused = site.llmbx(BOB, "show", "line", cwd=project, **env)
        assert refused.returncode == 2 and f"writable by group {TEAM} (mode {mode:04o})" in refused.stderr
        assert refused.stderr.strip().endswith(f"chmod g-w {path}") and len(refused.stderr.splitlines()) == 1
        path.chmod(before)
    used = site.llmbx(BOB, "show", "line", "--format", "json", cwd=project, **env)
    assert used.returncode == 0 and f"using {file}" in used.stderr and json.loads(used.stdout)
    os.chown(file, BOB, BOB)
    file.chmod(0o664)
    assert site.llmbx(BOB, "show", "line", cwd=project, **env).returncode == 0, "his own group may write"
    os.chown(file, 0, 0)
    file.chmod(0o644)
    assert f"using {file}" in site.llmbx(BOB, "show", "line", cwd=project, **env).stderr, "a file of root"
