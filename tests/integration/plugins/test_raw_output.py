"""What a plugin writes to descriptor 1 is never part of the command's output: no code of a plugin can break JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from llmbx.plugins.discovery import HOOKS

from .conftest import Llmbx, Package

TOY = Path(__file__).parents[2] / "fixtures/toy/src"

NOISE = """
import ctypes, os, subprocess
from llmbx import hookimpl
from llmbx.launchers.local import LocalLauncher
from llmbx.runtimes.host import HostRuntime
from llmbx_toy import plugin as toy
from llmbx_toy.plugin import ToyParser

def noise(what):
    os.write(1, f"raw {what}\\n".encode())
    subprocess.run(["echo", f"child {what}"], check=True)
    print(f"printed {what}")
    ctypes.CDLL(None).printf(f"from C {what}\\n".encode())  # is flushed when the process ends

noise("import")

class Noisy:
    '''A tool whose methods make noise.'''

    def __init__(self, tool):
        self._tool = tool

    def __getattr__(self, name):
        member = getattr(self._tool, name)
        if not callable(member):
            return member
        def call(*arguments, **named):
            noise(name)
            return member(*arguments, **named)
        return call

def loud(tool):
    for name in dir(tool):
        if not name.startswith("_") and callable(getattr(tool, name)):
            setattr(tool, name, getattr(Noisy(tool), name))
    return tool
"""

WRAPPER = """
@hookimpl(wrapper=True)
def {hook}({arguments}):
    noise("{hook}")
    answer = yield
    noise("{hook}")
    {change}
    return answer
"""
TOOLS = "answer = [[loud(tool) for tool in tools] for tools in answer]"
FORMATS = """from llmbx.api import LogFormat
    answer = [[LogFormat(f.name, f.title, Noisy(f).sniff, lambda f=f: loud(f.parser()), f.window, f.unit)
               for f in formats] for formats in answer]"""
CHANGES = {
    "parse_log": FORMATS, "register_launchers": TOOLS, "register_runtimes": TOOLS,
}  # fmt: skip


@pytest.fixture
def noisy(package: Package) -> None:
    """A plugin with a noisy wrapper of every hook, around the parsers, formats and tools of all plugins."""
    from llmbx import hookspecs

    code = NOISE
    for hook in HOOKS:
        names = getattr(hookspecs, hook).__code__.co_varnames
        code += WRAPPER.format(hook=hook, arguments=", ".join(names), change=CHANGES.get(hook, "pass"))
    package("noisy", code)


def test_every_command_prints_json_only(noisy: None, llmbx: Llmbx, site: Path, tmp_path: Path) -> None:
    environ = {"PYTHONPATH": f"{site}:{TOY}", "LLMBX_PYTHON": sys.executable}
    log = tmp_path / "toy.log"
    log.write_text("".join(f"toy step {n}/20 time 0.0101 loss {2 - n / 50}\n" for n in range(1, 21)))
    for arguments, heard in (
        (("list",), "register_workloads"), (("show", "toy", "line"), "prepare_image"),
        (("run", "toy", "line", "--with", "stopwatch"), "submit"), (("jobs",), "status"), (("parse", str(log)), "feed"),
        (("plugins",), "register_launchers"), (("status", "last"), "import"),
    ):  # fmt: skip
        for result in (tmp_path / "install").glob("workloads/**/result.json"):
            result.unlink()  # so that the run's plugins are asked again
        done = llmbx(*arguments, "--format", "json", **environ)
        assert done.returncode == 0, (arguments, done.stderr)
        assert json.loads(done.stdout), arguments
        for word in ("raw", "child", "printed", "from C"):
            assert f"{word} {heard}\n" in done.stderr, (arguments, word)


def test_a_pipe_that_closes_early_is_still_no_error(noisy: None, site: Path, tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": f"{site}:{TOY}", "HOME": str(tmp_path), "LLMB_INSTALL": str(tmp_path)}
    command = f"{sys.executable} -m llmbx list | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], env=environ, capture_output=True, text=True, check=False)
    assert done.stdout == "0\n" and "Traceback" not in done.stderr
