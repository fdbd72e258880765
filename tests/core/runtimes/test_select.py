"""The choice of a runtime asks every plugin: one that fails is left out, with a warning that names it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from llmbx.errors import InfraError
from llmbx.launchers.local import LocalLauncher
from llmbx.model import ImageRequest, RunSpec
from llmbx.plugins.guards import guard_tool
from llmbx.runtimes.base import Offer, Runtime
from llmbx.runtimes.host import HostRuntime
from llmbx.runtimes.select import choose_runtime


class Odd(HostRuntime):
    name = "odd"

    def offers(self, spec: RunSpec, request: ImageRequest) -> Any:
        raise KeyError("gpu")


class Wrong(Odd):
    def offers(self, spec: RunSpec, request: ImageRequest) -> Any:
        return "always"


class Shy(Odd):
    def offers(self, spec: RunSpec, request: ImageRequest) -> Any:
        return Offer(rank=-1, reason="first")

    def available(self) -> str | None:
        raise OSError("no socket")


def runtimes(odd: HostRuntime, *others: HostRuntime) -> dict[str, Runtime]:
    guarded: dict[str, Runtime] = {each.name: guard_tool(each, "local", Runtime) for each in others}
    return {"odd": guard_tool(odd, "odd", Runtime), **guarded}


@pytest.mark.parametrize(
    ("odd", "says"),
    [(Odd(), "offers of runtime 'odd' failed: KeyError: 'gpu'"),
     (Wrong(), "offers of runtime 'odd' returned a str, expected an Offer")],
)  # fmt: skip
def test_a_runtime_that_fails_to_offer_is_left_out(
    make_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    odd: HostRuntime, says: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("LLMBX_PYTHON", sys.executable)
    spec = make_spec(runtime="auto")
    assert choose_runtime(spec, ImageRequest(), LocalLauncher(), runtimes(odd, HostRuntime()))[0] == "host"
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"llmbx: warning: plugin 'odd': {says}") and line.endswith("the runtime odd is left out")


def test_a_runtime_that_cannot_tell_whether_it_works_does_not_work(
    make_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLMBX_PYTHON", sys.executable)
    spec, launcher = make_spec(runtime="auto"), LocalLauncher()
    assert choose_runtime(spec, ImageRequest(), launcher, runtimes(Shy(), HostRuntime()))[0] == "host"
    with pytest.raises(InfraError, match="odd: plugin 'odd': available of runtime 'odd' failed: OSError: no socket"):
        choose_runtime(spec, ImageRequest(), launcher, runtimes(Shy()))
