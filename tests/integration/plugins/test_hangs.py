"""A plugin that hangs, wherever it is: a line names it, and one Ctrl-C ends llmbx."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from llmbx.plugins.hangs import VARIABLE

from ...patience import PATIENCE_S, wait_until
from .conftest import Package

TOY = Path(__file__).parents[2] / "fixtures/toy/src"
MAIN = "from llmbx.cli.main import main; main()"

HANG = """
import os, re, time
from llmbx.api import hookimpl, Check, LogFormat, LogParser, Offer, Profiler
from llmbx.launchers.local import LocalLauncher
from llmbx.runtimes.host import HostRuntime

def asleep(*arguments):
    while True:
        time.sleep(60)

def matching(*arguments):
    re.match("(a+)+$", "a" * 60 + "b")

def reading(*arguments):
    os.read(os.pipe()[0], 1)

def stubborn(*arguments):
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass

hang = {how}
"""

Hangs = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def hangs(package: Package, site: Path, tmp_path: Path) -> Hangs:
    """`hangs(code, "list")`: a command that is interrupted once, after the line about the plugin `odd`."""

    def run(code: str, *arguments: str, says: str, how: str = "asleep", limit: str = "6") -> tuple[int, str]:
        package("odd", HANG.replace("{how}", how) + code)
        environ = {
            "PATH": os.environ["PATH"], "HOME": str(tmp_path), "LLMB_INSTALL": str(tmp_path / "install"),
            "PYTHONPATH": f"{site}:{TOY}", "LLMBX_PYTHON": sys.executable, "LLMBX_STOP_GRACE_S": "1", VARIABLE: limit,
        }  # fmt: skip
        with subprocess.Popen(
            [sys.executable, "-c", MAIN, *arguments], env=environ, text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            try:
                assert process.stderr
                lines: list[str] = []
                while not any(f"llmbx: plugin 'odd': {says} has been running for" in line for line in lines):
                    lines.append(process.stderr.readline())
                    assert lines[-1], f"no line about the hang: {lines}"
                process.send_signal(signal.SIGINT)
                lines.append(process.stderr.read())
                return process.wait(PATIENCE_S), "".join(lines)
            finally:
                process.kill()

    return run


SNIFF = """
class Parser(LogParser):
    {feed}

@hookimpl
def parse_log(spec):
    return [LogFormat(name="odd", title="Odd", sniff={sniff}, parser=Parser)]
"""
WAITS = "def feed(self, line):\n        hang()"
TOOL = """
class Tool({base}):
    name = "odd"
    {method} = hang
{rest}
@hookimpl
def register_{kind}s():
    return [Tool()]
"""
RUN = ("run", "--plugin", "toy", "line", "--steps", "100000")
DRY = (*RUN, "--dry-run")


def tool(kind: str, method: str, rest: str = "") -> str:
    base = {"runtime": "HostRuntime", "launcher": "LocalLauncher"}[kind]
    return TOOL.format(base=base, method=method, rest=rest, kind=kind)


FIRST = "    def offers(self, spec, request):\n        return Offer(rank=-1, reason='first')\n"


IMPORT = ("hang()", ["list"], "its import", "12")
FEED = (SNIFF.format(sniff="lambda text: 10 ** 6", feed=WAITS), ["parse", "LOG"], "feed of its log parser", "6")


@pytest.mark.parametrize(
    ("code", "arguments", "says", "limit", "how"),
    [
        (*IMPORT, "asleep"),
        (*IMPORT, "stubborn"),
        ("@hookimpl\ndef register_workloads():\n    hang()", ["list"], "register_workloads", "12", "asleep"),
        (SNIFF.format(sniff="hang", feed=WAITS), ["parse", "LOG"], "sniff of log format 'odd'", "6", "matching"),
        (*FEED, "asleep"),
        (*FEED, "reading"),
        (tool("runtime", "offers"), DRY, "offers of runtime 'odd'", "6", "asleep"),
        (tool("runtime", "available", FIRST), DRY, "available of runtime 'odd'", "6", "asleep"),
        (tool("launcher", "claims"), DRY, "claims of launcher 'odd'", "6", "asleep"),
    ],
)
def test_one_ctrl_c_ends_a_command_whose_plugin_hangs(
    hangs: Hangs, tmp_path: Path, code: str, arguments: Sequence[str], says: str, limit: str, how: str
) -> None:
    log = tmp_path / "toy.log"
    log.write_text("toy step 1/2 time 0.0101 loss 1.25\n" * 3)
    arguments = [str(log) if each == "LOG" else each for each in arguments]
    exit_code, errors = hangs(code, *arguments, says=says, how=how, limit=limit)
    assert exit_code == 130, errors
    assert errors.endswith("llmbx: interrupted\n") and "Traceback" not in errors


def result(install: Path) -> dict[str, object]:
    (file,) = install.glob("workloads/**/result.json")
    found: dict[str, object] = json.loads(file.read_text())
    return found


def ended(install: Path) -> bool:
    """Whether no process works in a run folder any more."""
    (record,) = install.glob("workloads/**/run.json")
    return not [pid for pid in Path("/proc").glob("[0-9]*") if _cwd(pid) == str(record.parent)]


def _cwd(process: Path) -> str | None:
    try:
        return str((process / "cwd").readlink())
    except OSError:
        return None


PARSER = """
from llmbx_toy import plugin as toy
from llmbx_toy.plugin import build_command, check_spec, compute_flops, prepare_image, register_workloads

class Parser(toy.ToyParser):
    def feed(self, line):
        hang()

@hookimpl
def parse_log(spec):
    return [LogFormat("odd", "Odd", lambda text: 0, Parser)]
"""


@pytest.mark.parametrize("method", ["status", "render"])
def test_one_ctrl_c_ends_a_run_whose_launcher_hangs_and_its_job(hangs: Hangs, tmp_path: Path, method: str) -> None:
    exit_code, errors = hangs(tool("launcher", method), *RUN, "--launcher", "odd", says=f"{method} of launcher 'odd'")
    assert exit_code == 130 and "Traceback" not in errors, errors
    wait_until(lambda: ended(tmp_path / "install"))
    assert result(tmp_path / "install")["status"] == "cancelled"


def test_one_ctrl_c_ends_a_run_whose_log_parser_hangs_and_its_job(hangs: Hangs, tmp_path: Path) -> None:
    run = ("run", "--plugin", "odd", "line", "--steps", "100000")
    exit_code, errors = hangs(PARSER, *run, says="feed of its log parser")
    assert exit_code == 130 and "Traceback" not in errors, errors
    wait_until(lambda: ended(tmp_path / "install"))
    assert result(tmp_path / "install")["status"] == "cancelled"


def test_one_ctrl_c_ends_the_analysis_of_a_profiler_that_hangs(hangs: Hangs) -> None:
    code = """
@hookimpl
def wrap_command(spec, launch):
    return launch

@hookimpl
def register_checks():
    return [Check(id="own", reads="", means="", do="", effect="warning", test=hang, reads_files=True)]
"""
    exit_code, errors = hangs(code, "run", "--plugin", "toy", "line", "--with", "odd", says="check 'own'")
    assert exit_code == 130 and "Traceback" not in errors, errors
