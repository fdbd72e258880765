"""Check runtimes and launchers: members of the interface, and pure plans, wrappings and scripts."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

from llmbx.api import Environment, ImageRequest, Launch, Launcher, Phase, Runtime, Wrapping

from .framework import FOLDER, IMAGE
from .preview import INSTALL
from .sample import sample_spec
from .subject import Subject

REQUEST = ImageRequest(
    environment=Environment(name="test", pythons=("3.11",), steps=()),
    reference="registry.example#team/python:3.12",
)
PHASE = Phase(role="train", argv=("python3", "train.py"))
LAUNCH = Launch(nodes=1, ranks_per_node=2, gpus_per_rank=0, phases=(PHASE,))


def tool_problems(subject: Subject) -> Iterator[str]:
    """Yield the problems of the plugin's runtimes and launchers.

    An answer of the wrong type raises `LlmbxError`.
    """
    name, plugins = subject.name, subject.plugins
    for hook, base in (("register_runtimes", Runtime), ("register_launchers", Launcher)):
        if hook not in subject.info.hooks:
            continue
        for tool in (tool for answer in plugins.ask(name, hook) for tool in answer):
            problems = [*_misfits(tool, base)]
            if not problems and base is Runtime:
                problems = [*_runtime(plugins.runtime(tool.name))]
            elif not problems:
                problems = [*_launcher(plugins.launcher(tool.name))]
            yield from (f"{base.__name__.lower()} '{tool.name}' {text}" for text in problems)


def _misfits(tool: object, base: type) -> Iterator[str]:
    """Yield the methods that cannot be called as llmbx calls them; static ones are helpers."""
    for name, method in vars(base).items():
        if name.startswith("_") or not inspect.isfunction(method):
            continue
        member = getattr(tool, name)
        if not callable(member):
            yield f"has no method {name}"
            continue
        arguments = [*inspect.signature(method).parameters][1:]
        try:
            inspect.signature(member).bind(*arguments)
        except TypeError as error:
            takes = f"does not accept ({', '.join(arguments)})"
            yield f"has a method {name} that {takes}: {error}"


def _runtime(runtime: Runtime) -> Iterator[str]:
    runtime.available()
    runtime.plan(REQUEST, Path(INSTALL))
    spec = sample_spec(runtime=runtime.name, gpu_type="cpu")
    first, second = (runtime.wrap(spec, LAUNCH, PHASE, IMAGE, FOLDER) for _ in range(2))
    if first != second:
        yield "wrap is not pure: two calls returned different wrappings"


def _launcher(launcher: Launcher) -> Iterator[str]:
    launcher.available()
    if not launcher.poll_s > 0:
        yield f"has a poll_s of {launcher.poll_s}, expected a number of seconds > 0"
    spec = sample_spec(launcher=launcher.name, gpu_type="cpu")
    first, second = (launcher.render(spec, LAUNCH, (Wrapping(),), FOLDER) for _ in range(2))
    if not first.startswith("#!"):
        yield "renders a script that does not start with #!"
    if first != second:
        yield "render is not pure: two calls returned different scripts"
