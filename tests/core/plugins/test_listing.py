"""`llmbx plugins` and `llmbx doctor` report the errors of every plugin, in whichever hook they occur."""

from __future__ import annotations

import json

import pytest

from .conftest import Llmbx, Package

CODE = """
from llmbx import hookimpl

@hookimpl
def {hook}():
    return {answer}
"""


@pytest.mark.parametrize("hook", ["register_workloads", "log_formats", "register_runtimes", "register_launchers"])
@pytest.mark.parametrize("answer", ["1 / 0", "[object()]"])
def test_a_plugin_that_fails_in_a_hook_is_listed_as_broken(
    package: Package, llmbx: Llmbx, hook: str, answer: str
) -> None:
    package("odd", CODE.format(hook=hook, answer=answer))
    done = llmbx("plugins", "--format", "json")
    (row,) = (row for row in json.loads(done.stdout) if row["name"] == "odd")
    assert row["status"].startswith("broken: plugin 'odd'") and hook in row["status"]


def test_doctor_calls_hooks_before_it_lists(package: Package, llmbx: Llmbx) -> None:
    package("odd", CODE.format(hook="register_runtimes", answer="[object()]"))
    package("idle", "def register_workloads(): return []")
    done = llmbx("doctor", "--format", "json", PATH="/nowhere")
    rows = {row["name"]: row for row in json.loads(done.stdout) if row["what"] == "plugin"}
    assert rows["odd"]["state"] == "broken" and "expected a list of Runtime" in rows["odd"]["detail"]
    assert rows["idle"]["state"] == "ok" and "no hook" in rows["idle"]["detail"]


def test_a_plugin_without_a_hook_is_reported(package: Package, llmbx: Llmbx) -> None:
    package("idle", "def register_workloads(): return []")
    says = "it implements no hook: mark its functions with @llmbx.hookimpl"
    done = llmbx("plugins", "--format", "json")
    assert says in [row["status"] for row in json.loads(done.stdout)]
    assert f"llmbx: plugin 'idle' (llmbx-idle): {says}" in done.stderr


def test_doctor_continues_after_a_runtime_that_fails(package: Package, llmbx: Llmbx) -> None:
    package(
        "odd",
        """
        from llmbx import hookimpl
        from llmbx.runtimes.host import HostRuntime

        class Odd(HostRuntime):
            name = "odd"
            check = None

            def available(self):
                raise OSError("no such tool")

        @hookimpl
        def register_runtimes():
            return [Odd()]
        """,
    )
    found = json.loads(llmbx("doctor", "--format", "json", PATH="/nowhere").stdout)
    rows = {row["name"]: row for row in found if row["what"] in ("runtime", "launcher")}
    assert rows["odd"]["state"] == "broken" and "available of runtime 'odd' failed: OSError" in rows["odd"]["detail"]
    assert "local" in rows
