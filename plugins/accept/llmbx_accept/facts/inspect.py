"""Read the facts of nodes: of this machine, or of many through the launcher's command, at the same time."""

from __future__ import annotations

import json
import subprocess
import time
from collections import defaultdict
from collections.abc import Sequence

from llmbx.api import InfraError, UsageError, convert_toml
from llmbx.api.verbs import Request, Workspace

from ..settings import AcceptSettings
from .checks import checks_for, configuration, program
from .judge import Asked, NodeAnswer
from .node.probe import MARK

START = 'command -v python3 > /dev/null || { echo "no python3 on PATH" >&2; exit 3; }; exec python3 -I -S -c "$@"'
"""Starts the probe on a node that has nothing of llmbx: its text is an argument."""

LIMIT_S = 600.0
"""Seconds until nodes that have not answered are given up."""

NAME = "llmbx-doctor"


def ask_nodes(
    workspace: Workspace,
    nodes: Sequence[str] = (),
    *,
    gpu_type: str | None = None,
    gpus: int | None = None,
    cuda: str | None = None,
    request: Request | None = None,
) -> Asked:
    """Read the facts of these nodes; without any those of the allocation that llmbx runs in, else this machine.

    `gpu_type` and `gpus` (of a node) are what is expected, `cuda` is the release in the image; what is None is not
    compared. `request` names the cluster, whose profile may change checks. Raises `UsageError` if no launcher reaches
    the nodes, `InfraError` if none of them can be reached.
    """
    settings = convert_toml(workspace.plugin_settings("accept", request), AcceptSettings, "settings of accept")
    checks = checks_for(gpu_type, settings.checks)
    config = configuration(checks, gpus=gpus, gpu_type=gpu_type, cuda=cuda, folders=[str(workspace.install.path)])
    argv = ("/bin/sh", "-c", START, "sh", program(), config)
    command = _across(workspace, argv, nodes)
    if command is None and nodes:
        raise UsageError("no launcher that is available here reaches other nodes")
    answers = _ask(command or argv, nodes)
    return Asked(answers=tuple(answers), checks=checks, expected=json.loads(config)["expected"])


def _across(workspace: Workspace, argv: Sequence[str], nodes: Sequence[str]) -> tuple[str, ...] | None:
    """The command of the first available launcher that reaches the nodes, with the profile's settings."""
    for launcher in workspace.plugins.launchers().values():
        if launcher.available() is None:
            settings = workspace.plugin_settings(launcher.plugin)
            command = launcher.run_on_nodes(argv, NAME, settings, nodes)
            if command is not None:
                return command
    return None


def _ask(command: Sequence[str], nodes: Sequence[str]) -> list[NodeAnswer]:
    began = time.time()
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=LIMIT_S, stdin=subprocess.DEVNULL
        )
        output, errors = done.stdout, done.stderr
    except subprocess.TimeoutExpired as error:
        output = _text(error.stdout)
        errors = f"no answer within {LIMIT_S:g} s; {_text(error.stderr)}"
    except OSError as error:
        raise InfraError(f"{command[0]} could not be started: {error.strerror}") from None
    answers = parse(output, began, time.time())
    why = _reason(errors)
    if not answers:
        raise InfraError(f"no node answered: {why}")
    silent = [NodeAnswer(node=node, error=f"no answer: {why}") for node in nodes if node not in answers]
    heard = [answers[node] for node in (nodes or sorted(answers)) if node in answers]
    return [*heard, *silent]


def _text(output: bytes | str | None) -> str:
    return output.decode("utf-8", "replace") if isinstance(output, bytes) else output or ""


def _reason(errors: str) -> str:
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return lines[-1] if lines else "nothing was printed"


def parse(output: str, began: float, ended: float) -> dict[str, NodeAnswer]:
    """Put the lines of all nodes together; `began` and `ended` are when they were asked and had answered."""
    parts: dict[str, dict[int, str]] = defaultdict(dict)
    counts: dict[str, int] = {}
    for line in output.splitlines():
        words = line.split("\t", 4)
        if len(words) == 5 and words[0] == MARK and words[2].isdigit() and words[3].isdigit():
            parts[words[1]][int(words[2])] = words[4]
            counts[words[1]] = int(words[3])
    return {
        node: _answer(node, "".join(texts[at] for at in sorted(texts)), began, ended)
        for node, texts in parts.items()
        if len(texts) == counts[node]
    }


def _answer(node: str, text: str, began: float, ended: float) -> NodeAnswer:
    try:
        table = json.loads(text)
        facts, unread = dict(table["facts"]), dict(table["unread"])
    except (ValueError, KeyError, TypeError) as error:
        return NodeAnswer(node=node, error=f"its answer cannot be read: {error}")
    at = facts.pop("node.time", None)
    if isinstance(at, int | float):  # outside of the call, the difference is that of the clocks
        facts["clock.skew"] = round(max(0.0, began - at, at - ended), 2)
    return NodeAnswer(node=node, facts=facts, unread=unread)
