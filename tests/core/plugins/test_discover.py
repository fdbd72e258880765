"""Loading of broken third-party plugins: each is reported and does not affect the others."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from llmbx.plugins.manager import Plugins

from .conftest import Llmbx, Package

EMPTY = """
from llmbx import hookimpl

@hookimpl
def register_workloads():
    return []
"""


def test_of_two_plugins_with_one_name_the_first_is_kept(package: Package, loaded: Callable[[], Plugins]) -> None:
    package("other", EMPTY, plugins=("nemo",))
    found = loaded()
    errors = [(info.distribution, info.error) for info in found.infos if info.name == "nemo"]
    ours = next(info for info in found.infos if info.name == "nemo" and info.distribution == "llmbx")
    assert sorted(errors) == [
        ("llmbx", None), ("llmbx-other", f"the name 'nemo' is taken by llmbx {ours.version}"),
    ]  # fmt: skip
    assert any(workload.plugin == "nemo" for workload in found.workloads)


@pytest.mark.parametrize("code", ["import sys; sys.exit(3)", EMPTY.replace("return []", "raise SystemExit(3)")])
def test_a_plugin_that_exits_is_disabled(package: Package, loaded: Callable[[], Plugins], code: str) -> None:
    package("leaver", code)
    found = loaded()
    assert found.workloads
    (info,) = found.broken
    assert info.name == "leaver" and "SystemExit: 3" in str(info.error)


def test_output_of_a_plugin_is_not_part_of_stdout(package: Package, llmbx: Llmbx) -> None:
    package("chatty", "print('at import')\n" + EMPTY.replace("return []", "print('in a hook'); return []"))
    done = llmbx("list", "--format", "json")
    assert json.loads(done.stdout)
    assert "at import" in done.stderr and "in a hook" in done.stderr


@pytest.mark.parametrize("code", ["1 / 0", EMPTY.replace("return []", "1 / 0")])
def test_tracebacks_are_printed_on_request(package: Package, llmbx: Llmbx, code: str) -> None:
    package("faulty", code)
    plain, debug = llmbx("list"), llmbx("list", LLMBX_DEBUG="1")
    assert plain.returncode == debug.returncode == 0 and plain.stdout == debug.stdout
    assert "'faulty'" in plain.stderr and "ZeroDivisionError" in plain.stderr and "Traceback" not in plain.stderr
    assert "Traceback" in debug.stderr and "third_faulty.py" in debug.stderr
