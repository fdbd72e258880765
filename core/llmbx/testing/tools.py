"""Check a plugin's runtimes and launchers: members of the interface, and pure plans, wrappings and scripts."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

from ..launchers.base import Launcher
from ..model import Environment, Image, ImageRequest, Launch, Phase, Wrapping
from ..plugins.discovery import PluginInfo
from ..plugins.manager import Plugins
from ..runtimes.base import Runtime
from .framework import FOLDER, IMAGE
from .preview import INSTALL
from .sample import sample_spec
from .typed import ill_typed, public

REQUEST = ImageRequest(
    environment=Environment(name="test", pythons=("3.11",), steps=()), reference="registry.example#team/python:3.12"
)
LAUNCH = Launch(nodes=1, ranks_per_node=2, gpus_per_rank=0, phases=(Phase(role="train", argv=("python3", "train.py")),))


def tool_problems(info: PluginInfo, plugins: Plugins) -> Iterator[str]:
    """Yield the problems of the plugin's runtimes and launchers."""
    for hook, protocol, check in (
        ("register_runtimes", Runtime, _runtime),
        ("register_launchers", Launcher, _launcher),
    ):
        found = [tool for answer in plugins.ask(info.name, hook) for tool in answer] if hook in info.hooks else []
        for tool in found:
            what = f"{hook.removeprefix('register_')[:-1]} {getattr(tool, 'name', type(tool).__name__)!r}"
            missing = list(_missing(tool, protocol))
            yield from (f"{what} {text}" for text in missing or check(tool))


def _missing(tool: object, protocol: type) -> Iterator[str]:
    """Yield missing members of the interface, and methods that cannot be called as llmbx calls them."""
    members, methods = public(protocol)
    for name in members:
        if not hasattr(tool, name):
            yield f"has no {name}"
    for name in methods:
        method = getattr(tool, name, None)
        if not callable(method):
            yield f"has no method {name}"
            continue
        wanted = list(inspect.signature(getattr(protocol, name)).parameters)[1:]
        try:
            inspect.signature(method).bind(*wanted)
        except TypeError as error:
            yield f"has a method {name} that does not accept ({', '.join(wanted)}): {error}"


def _runtime(runtime: Runtime) -> Iterator[str]:
    yield from _availability(runtime.available())
    spec, phase = sample_spec(runtime=runtime.name, gpu_type="cpu"), LAUNCH.phases[0]
    yield from ill_typed(runtime.plan(REQUEST, Path(INSTALL)), Image, "plan")
    wrapping = runtime.wrap(spec, LAUNCH, phase, IMAGE, FOLDER)
    yield from ill_typed(wrapping, Wrapping, "wrap")
    if runtime.wrap(spec, LAUNCH, phase, IMAGE, FOLDER) != wrapping:
        yield "wrap is not pure: two calls returned different wrappings"


def _launcher(launcher: Launcher) -> Iterator[str]:
    yield from _availability(launcher.available())
    if not launcher.poll_s > 0:
        yield f"has a poll_s of {launcher.poll_s}, expected a number of seconds > 0"
    spec = sample_spec(launcher=launcher.name, gpu_type="cpu")
    script = launcher.render(spec, LAUNCH, (Wrapping(),), FOLDER)
    if not isinstance(script, str):
        yield f"render returned a {type(script).__name__}, expected a str"
    elif not script.startswith("#!"):
        yield "renders a script that does not start with #!"
    if launcher.render(spec, LAUNCH, (Wrapping(),), FOLDER) != script:
        yield "render is not pure: two calls returned different scripts"


def _availability(answer: object) -> Iterator[str]:
    if not (answer is None or isinstance(answer, str)):
        yield f"available returned a {type(answer).__name__}, expected a str (the reason) or None"
