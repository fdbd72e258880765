"""The drives of launchers, runtimes and profilers: the templates pass, and each fault of a changed one is named."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from llmbx.launchers.local import LocalLauncher
from llmbx.model import Launch, RunSpec
from llmbx_kit.drive_launcher import Drive, drive_launcher
from llmbx_kit.drive_profiler import drive_profiler
from llmbx_kit.drive_runtime import Drive as RuntimeDrive
from llmbx_kit.drive_runtime import check_request, drive_runtime
from llmbx_kit.driven import Place
from llmbx_kit.outcome import Found
from llmbx_kit.sample import sample_spec
from llmbx_kit.template import Kind, files

Change = tuple[str, str]
Clock = Callable[[Callable[[], object]], None]
Module = Callable[..., Any]
PATIENCE_S = 60.0


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Module:
    """`module("launcher", (old, new), …)`: the template's plugin with these changes, known to other processes, too."""

    def load(kind: Kind, *changes: Change) -> Any:
        text = files("mine", kind)["src/llmbx_mine/plugin.py"]
        for old, new in changes:
            assert old in text
            text = text.replace(old, new, 1)
        path = tmp_path / "mine.py"
        path.write_text(text)
        monkeypatch.setenv("LLMBX_PLUGINS", str(path))
        monkeypatch.setenv("MINE_PREFIX", sys.prefix)
        spec = importlib.util.spec_from_file_location("mine", path)
        assert spec is not None and spec.loader is not None
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
        return loaded

    return load


def place(folder: Path, patience_s: float = PATIENCE_S) -> Place:
    return Place(folder / "jobs", patience_s)


def problems(found: list[Found]) -> str:
    assert {status for status, _ in found} == {"failed"}, found
    return "\n".join(text for _, texts in found for text in texts)


def launch(module: Module, folder: Path, *changes: Change) -> list[Found]:
    (launcher,) = module("launcher", *changes).register_launchers()
    return drive_launcher(launcher, sample_spec(launcher="mine", runtime="host"), place(folder))


def test_the_launcher_of_the_template(module: Module, tmp_path: Path) -> None:
    (found,) = launch(module, tmp_path)
    assert found == ("ok", ["a job runs and is found again, fails with its exit code, is cancelled"])


STATUS = "return self.script_status(job.job_id, run_dir, job.submitted)"
CANCEL = "    def cancel(self, job, run_dir):\n"
FIND = "identity = self.recall_script(int(start.job_id), start.host, run_dir)"
PREPARED = "return self.plan(request, install)"
LAUNCHERS: dict[str, tuple[Change, str]] = {
    "submits nothing": (
        ("process = self.start_script(path, run_dir / self.batch_name(spec), run_dir)", 'process = "4194301-1"'),
        "no rank has started; the job's status is 'lost'",
    ),
    "drops the environment": (
        ("self.batch_name(spec), run_dir)", 'self.batch_name(spec), run_dir, {"PATH": "/usr/bin:/bin"})'),
        "rank 0 gets None in DRIVEN_TOKEN, expected its value",
    ),
    "drops the run's variables": (
        ("self.rank_function(spec,", "self.rank_function(spec.replace(env={}),"),
        "gets None in DRIVEN_RUN",
    ),
    "writes a secret into the script": (
        ("            RUN,\n", '            RUN,\n            "# " + __import__("os").environ["DRIVEN_TOKEN"],\n'),
        "the value of a secret is in the script",
    ),
    "says that all goes well": ((STATUS, f"found = {STATUS[7:]}\n        return found.replace(exit_code=0)"),
                                "'ended with exit code 0' of a job whose rank 1 exited with 7"),
    "names the wrong rank": (("failed() { rank=$1;", "failed() { rank=0;"), "rank 0 failed first: it was rank 1"),
    "starts one rank": (("n < $1;", "n < 1;"), "its ranks have not ended after"),
    "numbers no rank": (("LLMBX_RANK=$n", "LLMBX_RANK=0"), "its ranks have not ended after"),
    "loses the output": (('>> "$log"', "> /dev/null"), "what rank 0 prints is not in log-"),
    "never ends": ((STATUS, "import llmbx.api\n        return llmbx.api.JobStatus(state='running')"),
                   "the job has not ended, although its ranks have,"),
    "never runs": (
        (STATUS, f'now = {STATUS[7:]}\n        return now.replace(state=now.state.replace("running", "pending"))'),
        "status does not say 'running', although a rank runs,",
    ),
    "cancels nothing": (("        self.stop_script(job.job_id, run_dir)", '        (run_dir / "cancelled").touch()'),
                        "the job has not ended, although it was cancelled,"),
    "dumps no stacks": ((CANCEL, f"    def dump_stacks(self, *job):\n        self.cancel(*job)\n\n{CANCEL}"),
                        "dump_stacks stopped the job"),
    "does not find": ((FIND, f"continue\n                {FIND}"), "find does not return the job of a run folder"),
    "finds another": ((FIND, 'identity = "1-1"'), "find returns the job 1-1, expected"),
    "has another name": (("Job(launcher=self.name, job_id=process", 'Job(launcher="other", job_id=process'),
                         "submit returned a job of the launcher 'other'"),
    "has no id": (("job_id=process,", 'job_id="",'), "submit returned a job without an id"),
}  # fmt: skip


FAILS, IS_CANCELLED = ("says that all goes well", "names the wrong rank"), ("cancels nothing",)
NEVER = {"never ends": "ended-1", "never runs": "started-0", "cancels nothing": "cancelled"}
"""The faults with which a drive waits in vain, and the file that a job has written by then."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """`clock(over)`: for a drive, time flies when `over` says that what it waits for will not come."""

    def set_clock(over: Callable[[], object]) -> None:
        flown = 0.0

        def sleep(seconds: float) -> None:
            nonlocal flown
            time.sleep(seconds)
            flown += PATIENCE_S if over() else 0.0

        clock = SimpleNamespace(monotonic=lambda: time.monotonic() + flown, sleep=sleep)
        monkeypatch.setattr("llmbx_kit.driven.time", clock)

    return set_clock


@pytest.mark.parametrize("fault", LAUNCHERS)
def test_a_faulty_launcher(fault: str, module: Module, tmp_path: Path, clock: Clock) -> None:
    change, says = LAUNCHERS[fault]
    (launcher,) = module("launcher", change).register_launchers()
    here = place(tmp_path)
    drive = Drive(launcher, sample_spec(launcher="mine", runtime="host"), here)
    if fault in NEVER:
        clock(lambda: [*here.root.glob(f"*/{NEVER[fault]}")])
    if "find" not in fault:
        drive.again = lambda driven: iter(())  # type: ignore[method-assign]
    part = drive.fail if fault in FAILS else drive.cancel if fault in IS_CANCELLED else drive.run
    found = [*here.drive(part)]
    assert any(says in text for text in found), found


def test_a_launcher_that_keeps_its_jobs_in_memory(module: Module, tmp_path: Path) -> None:
    returns = "        return Job(launcher=self.name, job_id=process"
    changes = (
        (returns, f"        KNOWN.add(process)\n{returns}"),
        (STATUS, f'if job.job_id not in KNOWN:\n            raise UsageError("never heard of it")\n        {STATUS}'),
        ("RUN = ", "KNOWN = set()\n\nRUN = "),
    )  # fmt: skip
    assert "another process cannot find the job: " in problems(launch(module, tmp_path, *changes))


def test_a_launcher_that_cannot_be_used_here_is_not_checked(module: Module, tmp_path: Path) -> None:
    change = (CANCEL, f'    def available(self):\n        return "no such scheduler"\n\n{CANCEL}')
    assert launch(module, tmp_path, change) == [("not checked", ["it cannot be used here: no such scheduler"])]


def waiting(*changes: Change) -> tuple[Change, ...]:
    """A launcher whose jobs stay in its queue."""
    start = "process = self.start_script(path, run_dir / self.batch_name(spec), run_dir)"
    pending = "import llmbx.api\n        return llmbx.api.JobStatus(state='pending', reason='all slots are taken')"
    return ((start, 'process = "1-1"'), (STATUS, pending), *changes)


def test_a_job_that_never_starts_is_cancelled_and_the_rest_is_not_checked(module: Module, tmp_path: Path) -> None:
    ended = "state='ended', verdict='cancelled') if GONE else llmbx.api.JobStatus(state='pending'"
    changes = waiting(
        ("state='pending'", ended), ("RUN = ", "GONE = []\n\nRUN = "),
        ("self.stop_script(job.job_id, run_dir)", "GONE.append(job)"),
    )  # fmt: skip
    (launcher,) = module("launcher", *changes).register_launchers()
    found = drive_launcher(launcher, sample_spec(launcher="mine"), place(tmp_path, 0.5))
    assert found == [("not checked", ["no job could be driven: the first one waited for 0.5 s (all slots are taken)"])]


def test_a_job_that_never_starts_and_cannot_be_cancelled(module: Module, tmp_path: Path) -> None:
    changes = waiting(("        self.stop_script(job.job_id, run_dir)", "        pass"))
    (launcher,) = module("launcher", *changes).register_launchers()
    found = problems(drive_launcher(launcher, sample_spec(launcher="mine"), place(tmp_path, 0.5)))
    assert "a job that waits is still there, although it was cancelled," in found


def run(module: Module, folder: Path, *changes: Change, image: str | None = None) -> list[Found]:
    (runtime,) = module("runtime", *changes).register_runtimes()
    spec = sample_spec(runtime="mine")
    return drive_runtime(runtime, LocalLauncher(), spec, check_request(image), place(folder, 20))


def test_the_runtime_of_the_template(module: Module, tmp_path: Path) -> None:
    passed = "a program runs with its variables and mounts, fails with its exit code, is cancelled"
    assert run(module, tmp_path) == [("ok", [passed])]


def wrapped(*argv: str) -> Change:
    return ('argv=("/usr/bin/env", f"VIRTUAL_ENV={image.path}")', f"argv={argv!r}")


RUNTIMES: dict[str, tuple[Change, str]] = {
    "starts nothing": (wrapped("/bin/false"), "the program did not start"),
    "drops the environment": (wrapped("/usr/bin/env", "-i"), "gets None in DRIVEN_TOKEN, expected its value"),
    "swallows the exit code": (wrapped("/bin/sh", "-c", '"$@" || exit 0', "sh"), "ended with exit code 0, expected"),
    "splits words": (wrapped("/bin/sh", "-c", 'exec env DRIVEN_RUN="$(echo $DRIVEN_RUN)" "$@"', "sh"),
                     "in DRIVEN_RUN, expected 'two words"),
    "sets what is not set": (wrapped("/usr/bin/env", "DRIVEN_UNSET="), "it must stay unset"),
    "passes a secret by value": (
        ('f"VIRTUAL_ENV={image.path}"', 'f"DRIVEN_TOKEN={os.environ[\'DRIVEN_TOKEN\']}"'),
        "the value of a secret is in the wrapping",
    ),
    "has no Python": (('python=f"{folder}/bin/python3"', 'python=f"{folder}/nowhere"'), "does not run"),
    "shares what it mounts": (("shares_host_files = True", "shares_host_files = False"),
                              "a read-only folder of launch.mounts can be written"),
    "plans another image": ((PREPARED, f'{PREPARED}.replace(reference="other")'), "plan names the image"),
    "needs the network": (("        if why_not := self.available():\n            raise",
                           "        why_not = 'none'\n        if offline or self.available():\n            raise"),
                          "runtime mine: none"),
}  # fmt: skip


@pytest.mark.parametrize("fault", RUNTIMES)
def test_a_faulty_runtime(fault: str, module: Module, tmp_path: Path) -> None:
    change, says = RUNTIMES[fault]
    (runtime,) = module("runtime", change).register_runtimes()
    here = place(tmp_path)
    drive = RuntimeDrive(runtime, LocalLauncher(), sample_spec(runtime="mine"), check_request(None), here)
    problems = [*here.drive(drive.prepare, drive.run)]
    assert any(says in text for text in problems), problems


def test_a_runtime_of_images_needs_one_and_refuses_one_that_is_missing(module: Module, tmp_path: Path) -> None:
    of_images = ("    # uses_image = True", "    uses_image = True")
    ((status, (says,)),) = run(module, tmp_path, of_images)
    assert status == "not checked" and "--image" in says
    found = problems(run(module, tmp_path / "image", of_images, image="registry.example/python:3.12"))
    assert found == "prepare returns an image for a file that does not exist"


def profile(module: Module, folder: Path, *changes: Change) -> list[Found]:
    wrap: Callable[[RunSpec, Launch], Launch] = module("profiler", *changes).wrap_command
    return drive_profiler(wrap, LocalLauncher(), sample_spec(profilers=("mine",), runtime="host"), place(folder, 20))


def test_the_profiler_of_the_template(module: Module, tmp_path: Path) -> None:
    assert profile(module, tmp_path) == [("ok", ["a wrapped program runs once, and fails with its exit code"])]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("exit $code", "exit 0"), "ended with exit code 0, expected that of its program, 7"),
        (('"$@"; code=$?', '"$@"; "$@"; code=$?'), "ran the program 2 times, expected once"),
        (('"$@"; code=$?', "code=0"), "ran the program 0 times, expected once"),
        (('"$@"; code=$?', '"$@" > /dev/null; code=$?'), "what rank 0 prints is not in log-"),
    ],
)
def test_a_faulty_profiler(change: Change, says: str, module: Module, tmp_path: Path) -> None:
    assert says in problems(profile(module, tmp_path, change))


def test_a_profiler_whose_program_is_not_installed_is_not_checked(module: Module, tmp_path: Path) -> None:
    found = profile(module, tmp_path, ('"/bin/sh", ', '"no-such-profiler", '))
    assert found == [("not checked", ["running a program under it: no-such-profiler is not on PATH"])]
