"""The choice of a runtime asks every plugin: one that fails is left out, with a warning that names it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from llmbx.errors import InfraError, UsageError
from llmbx.launchers.base import Launcher
from llmbx.launchers.local import LocalLauncher
from llmbx.model import ImageRequest, ImageSource, RunSpec
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


class Tool(HostRuntime):
    """A runtime with this answer to each question; `obstacle` is why it does not work here."""

    def __init__(
        self,
        name: str,
        rank: int | None = 20,
        obstacle: str | None = None,
        launcher_needs: str | None = None,
        uses_image: bool = False,
    ) -> None:
        self.name, self.rank, self.obstacle, self.needs = name, rank, obstacle, launcher_needs
        self.uses_image = uses_image

    def offers(self, spec: RunSpec, request: ImageRequest) -> Offer | None:
        return None if self.rank is None else Offer(rank=self.rank, reason=f"{self.name} is there")

    def available(self) -> str | None:
        return self.obstacle

    def works_with(self, launcher: Launcher) -> str | None:
        return self.needs


class Cluster(LocalLauncher):
    name = "cluster"
    remote = True


LOCAL, CLUSTER = LocalLauncher(), Cluster()
USERS = ImageSource(reference="mine:1", source="--image")
CHOSEN = {"runtime": "box", "origins": {"runtime": "cluster 'alps' in llmbx.toml"}}
"""A run whose cluster profile names its runtime."""


def chosen(spec: RunSpec, *tools: Tool, launcher: Launcher = LOCAL, preview: bool = False) -> tuple[str, str]:
    return choose_runtime(spec, ImageRequest(), launcher, {tool.name: tool for tool in tools}, preview)


MakeSpec = Callable[..., RunSpec]


@pytest.mark.parametrize(
    ("tools", "name"),
    [
        ([Tool("a", 21), Tool("b", 20)], "b"),
        ([Tool("first", 20), Tool("second", 20)], "first"),
        ([Tool("broken", 1, "no daemon"), Tool("works", 20)], "works"),
        ([Tool("silent", None), Tool("works", 40)], "works"),
        ([Tool("flags", 1, launcher_needs="needs srun"), Tool("works", 40)], "works"),
    ],
    ids=["lowest rank", "equal ranks", "not available", "no offer", "another launcher"],
)
def test_auto_is_the_first_offer_that_works_here(make_spec: MakeSpec, tools: list[Tool], name: str) -> None:
    assert chosen(make_spec(runtime="auto"), *tools) == (name, f"auto: {name} is there")


def test_if_none_works_here_every_reason_is_listed(make_spec: MakeSpec) -> None:
    spec, tools = make_spec(runtime="auto"), [Tool("b", 2, "no daemon"), Tool("a", 1, "not on PATH"), Tool("c", None)]
    with pytest.raises(InfraError) as refused:
        chosen(spec, *tools)
    reasons = "(a: not on PATH; b: no daemon)"
    assert str(refused.value) == f"no runtime works here {reasons}: install one, or choose one with --runtime"
    with pytest.raises(InfraError) as refused:
        chosen(spec.replace(image=USERS), *tools)
    assert str(refused.value) == f"no container tool works here for --image mine:1 {reasons}: install one"
    with pytest.raises(InfraError, match=r"\(the workload has neither an environment nor an image\)"):
        chosen(spec, Tool("c", None))


def test_a_preview_may_assume_a_runtime_of_another_machine(make_spec: MakeSpec) -> None:
    spec, tools = make_spec(runtime="auto"), [Tool("b", 2, "no daemon"), Tool("a", 1, "not on PATH")]
    assert chosen(spec, *tools, preview=True) == ("a", "assumed: no suitable runtime works on this machine")
    works = Tool("c", 3)
    assert chosen(spec, *tools, works, preview=True) == ("c", "auto: c is there")
    with pytest.raises(InfraError, match=r"^no runtime works here"):
        chosen(spec, Tool("c", None), preview=True)


def test_the_runtime_that_is_named_is_used_and_its_origin_is_the_reason(make_spec: MakeSpec) -> None:
    assert chosen(make_spec(**CHOSEN), Tool("a", 1), Tool("box", None)) == ("box", "cluster 'alps' in llmbx.toml")
    assert chosen(make_spec(runtime="box"), Tool("box", None))[1] == "as requested"


@pytest.mark.parametrize(
    ("launcher", "preview", "refused"),
    [(LOCAL, False, True), (LOCAL, True, False), (CLUSTER, False, False)],
    ids=["here", "preview", "on other machines"],
)
def test_the_runtime_that_is_named_must_work_where_the_ranks_run(
    make_spec: MakeSpec, launcher: Launcher, preview: bool, refused: bool
) -> None:
    spec, tools = make_spec(**CHOSEN), [Tool("box", 1, "no daemon"), Tool("works")]
    if refused:
        with pytest.raises(InfraError, match=r"^runtime box: no daemon$"):
            chosen(spec, *tools, launcher=launcher, preview=preview)
    else:
        assert chosen(spec, *tools, launcher=launcher, preview=preview)[0] == "box"


@pytest.mark.parametrize(
    ("name", "problem"),
    [("bxo", "no runtime named 'bxo' (did you mean 'box'?)"), ("aut", "no runtime named 'aut' (did you mean 'auto'?)")],
)
def test_an_unknown_runtime_is_refused_with_a_suggestion(make_spec: MakeSpec, name: str, problem: str) -> None:
    with pytest.raises(UsageError) as refused:
        chosen(make_spec(runtime=name), Tool("box"))
    assert str(refused.value) == problem


def test_a_runtime_that_needs_another_launcher_is_refused(make_spec: MakeSpec) -> None:
    with pytest.raises(UsageError, match=r"^runtime box needs srun$"):
        chosen(make_spec(**CHOSEN), Tool("box", launcher_needs="needs srun"))


def test_an_image_needs_a_runtime_that_starts_images(make_spec: MakeSpec) -> None:
    """The offers are those for this image."""
    spec = make_spec(**CHOSEN, image=USERS)
    tools = [Tool("env", None), Tool("y", 2, uses_image=True), Tool("x", 1, uses_image=True)]
    with pytest.raises(UsageError) as refused:
        chosen(spec, Tool("box", None), *tools)
    assert str(refused.value) == (
        "--image mine:1: runtime box (cluster 'alps' in llmbx.toml) does not use images: use --runtime x or y, or "
        "omit --image"
    )
    assert chosen(spec, Tool("box", uses_image=True), *tools)[0] == "box"
    of_recipe = spec.replace(image=ImageSource(reference="x", source="the guide"))
    assert chosen(of_recipe, Tool("box"), *tools)[0] == "box", "the recipe's image is only a default"
