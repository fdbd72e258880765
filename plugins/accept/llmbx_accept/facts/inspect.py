"""Read the facts of nodes: of this machine, or of many through the launcher's command, at the same time."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from llmbx.api import InfraError, UsageError, convert_toml
from llmbx.api.verbs import Request, Workspace

from ..settings import AcceptSettings
from .checks import checks_for, configuration, program
from .judge import Asked, NodeAnswer
from .node.probe import MARK
from .waiting import wait_for_answers

START = 'command -v python3 > /dev/null || { echo "no python3 on PATH" >&2; exit 3; }; exec python3 -I -S -c "$@"'
"""Starts the probe on a node that has nothing of llmbx: its text is an argument."""

NAME = "llmbx-doctor"


def ask_nodes(
    workspace: Workspace,
    nodes: Sequence[str] = (),
    *,
    gpu_type: str | None = None,
    gpus: int | None = None,
    cuda: str | None = None,
    request: Request | None = None,
    say: Callable[[str], None],
) -> Asked:
    """Read the facts of these nodes; without any those of the allocation that llmbx runs in, else this machine.

    `gpu_type` and `gpus` (of a node) are what is expected, `cuda` is the release in the image; what is None is not
    compared. `request` names the cluster, whose profile may change checks. Nodes on which no job can start are not
    asked; `say` prints a line about a long wait. Raises `UsageError` if no launcher reaches the nodes, `InfraError` if
    none of them answers.
    """
    settings = convert_toml(workspace.plugin_settings("accept", request), AcceptSettings, "settings of accept")
    checks = checks_for(gpu_type, settings.checks)
    config = configuration(checks, gpus=gpus, gpu_type=gpu_type, cuda=cuda, folders=[str(workspace.install.path)])
    argv = ("/bin/sh", "-c", START, "sh", program(), config)
    command, unusable = _launcher_of(workspace, argv, nodes)
    if command is None and nodes:
        raise UsageError("no launcher that is available here reaches other nodes")
    usable = [node for node in nodes if node not in unusable]
    answers = _ask(command or argv, usable, say) if usable or not nodes else []
    left_out = [NodeAnswer(node=node, error=f"not asked: {why}") for node, why in unusable.items()]
    return Asked(answers=(*answers, *left_out), checks=checks, expected=json.loads(config)["expected"])


def _launcher_of(
    workspace: Workspace, argv: Sequence[str], nodes: Sequence[str]
) -> tuple[tuple[str, ...] | None, Mapping[str, str]]:
    """The command of the first available launcher that reaches nodes, with the profile's settings.

    The second value has the nodes that it leaves out, because no job can start there, with the reasons.
    """
    for launcher in workspace.plugins.launchers().values():
        if launcher.available() is None:
            settings = workspace.plugin_settings(launcher.plugin)
            if launcher.run_on_nodes(argv, NAME, settings, nodes) is not None:
                unusable = launcher.unusable_nodes(nodes)
                usable = [node for node in nodes if node not in unusable]
                command = launcher.run_on_nodes(argv, NAME, settings, usable) if usable or not nodes else ()
                return command, unusable
    return None, {}


def _ask(command: Sequence[str], nodes: Sequence[str], say: Callable[[str], None]) -> list[NodeAnswer]:
    answered = wait_for_answers(command, nodes, lambda output: [*_complete(output)], say)
    answers = parse(answered.output, answered.began, answered.ended)
    if not answers:
        raise InfraError(f"no node answered: {answered.reason()}")
    silent = [
        NodeAnswer(node=node, error=f"no answer: {answered.reason(node)}") for node in nodes if node not in answers
    ]
    heard = [answers[node] for node in (nodes or sorted(answers)) if node in answers]
    return [*heard, *silent]


def parse(output: str, began: float, ended: float) -> dict[str, NodeAnswer]:
    """Put the lines of all nodes together; `began` and `ended` are when they were asked and had answered."""
    return {node: _answer(node, text, began, ended) for node, text in _complete(output).items()}


def _complete(output: str) -> dict[str, str]:
    """The texts of the nodes of which all lines have arrived."""
    parts: dict[str, dict[int, str]] = defaultdict(dict)
    counts: dict[str, int] = {}
    for line in output.splitlines():
        words = line.split("\t", 4)
        if len(words) == 5 and words[0] == MARK and words[2].isdigit() and words[3].isdigit():
            parts[words[1]][int(words[2])] = words[4]
            counts[words[1]] = int(words[3])
    return {
        node: "".join(texts[at] for at in sorted(texts)) for node, texts in parts.items() if len(texts) == counts[node]
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
