"""Events in the frameworks' logs: end of training, checkpoints, parameter counts, memory, failed validations.

Kinds of event: `finished`, `checkpoint_saved` and `checkpoint_loaded` (with those of `iteration`, `path` and `seconds`
that the line contains), `fact` (`parameters`, `peak_memory_bytes`, `world_size`, `microbatches`), `config_fallback`,
`validation` (`loss`), `nan` and `unexpected_result` (`iteration`), `garbage_collection` (`iteration`), `compilation`
and `graph_capture` (`seconds`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from llmbx.api import Event, read_real, read_whole, rounded_range

from .fields import NUMBER

_DECIMAL = r"\d+(?:\.\d*)?"

Facts = dict[str, str | int | float]
Rule = tuple[str, re.Pattern[str], Callable[[re.Match[str]], Facts]]


_AFTER = re.compile(r" at iteration #(?P<number>\d+)")
_MESSAGE = re.compile(r"\(message='(?P<text>[^']*)'\)")


def rule(kind: str, pattern: str, facts: Callable[[re.Match[str]], Facts] = lambda match: {}) -> Rule:
    """Return a rule: a line that matches `pattern` is an event of this kind, with the facts that `facts` extracts."""
    return kind, re.compile(pattern), facts


def find(rules: Iterable[Rule], text: str, rank: int | None) -> list[Event]:
    """Return the event of the first rule that `text` matches, if any. Only a NaN or Inf in a loss is fatal."""
    for kind, pattern, facts in rules:
        if match := pattern.search(text):
            values = facts(match)
            if kind == "unexpected_result" and str(values.get("result", "")).lower().strip("+-") in ("nan", "inf"):
                kind = "nan"
            return [Event(kind=kind, text=text.strip()[:500], rank=rank, fatal=kind == "nan", facts=values)]
    return []


def _saved(match: re.Match[str]) -> Facts:
    iteration: Facts = {"iteration": read_whole(match["iteration"])}
    return {**iteration, "path": match["path"]} if match["path"] else iteration


def _seconds(match: re.Match[str]) -> Facts:
    return {"seconds": read_real(match["seconds"])}


def _of_rank(match: re.Match[str]) -> Facts:
    """Lightning counts the parameters of one rank, with one decimal (7.5 B)."""
    unit = 1000 ** " KMBT".index(match["unit"])
    return {"parameters": rounded_range(read_real(match["count"]) * unit), "resolution": 0.1 * unit, "local": 1}


def _billions(match: re.Match[str]) -> Facts:
    count = rounded_range(read_real(match["billions"]) * 1e9)
    return {"parameters": count, "resolution": 1e9 * 10.0 ** -len(match["decimals"])}


def _rank_parameters(match: re.Match[str]) -> Facts:
    names = {"rank_parameters": "count", "tp_rank": "tp", "pp_rank": "pp"}
    return {name: read_whole(match[group]) for name, group in names.items()}


def _unexpected(match: re.Match[str]) -> Facts:
    after, message = _AFTER.search(match.string, match.end()), _MESSAGE.search(match.string, match.end())
    number = match["before"] or (after["number"] if after else None)
    iteration: Facts = {"iteration": read_whole(number)} if number else {}
    return {**iteration, "result": match["result"], "message": message["text"] if message else ""}


TORCH: tuple[Rule, ...] = (
    rule("graph_capture", rf"Time spent in CUDA Graphs capture on rank \d+: (?P<seconds>{_DECIMAL})s", _seconds),
    rule("graph_capture", rf"> built \d+ cuda graph\(s\) in (?P<seconds>{_DECIMAL}) sec", _seconds),
    rule("compilation", rf"AUTOTUNE benchmarking takes (?P<seconds>{_DECIMAL}) seconds", _seconds),
    rule("compilation", r"\[__recompiles\] Recompiling function "),
)  # fmt: skip
"""What takes time between steps: Megatron-Core's capture of CUDA graphs, and torch.compile with `TORCH_LOGS`."""

TORCH_SIGNS = ("CUDA Graphs capture", "cuda graph(s) in", "AUTOTUNE bench", "Recompiling function")
"""Texts of which a line of these rules has one."""

MEGATRON: tuple[Rule, ...] = (
    rule("finished", r"\[after training is done\]"),
    rule("checkpoint_saved", r"successfully saved (?:local )?checkpoint from iteration +(?P<iteration>\d+)"
         r"(?: to (?P<path>\S+))?", _saved),
    rule("checkpoint_loaded", r"successfully loaded checkpoint from (?P<path>\S+) .{0,300}"
         r"at iteration +(?P<iteration>\d+)", _saved),
    rule("checkpoint_saved", rf"^\s*save-checkpoint(?:-non-persistent)? \.*: \({_DECIMAL}, (?P<most>{_DECIMAL})\)",
         lambda m: {"seconds": read_real(m["most"]) / 1000}),
    rule("checkpoint_loaded", rf"^\s*load-checkpoint \.*: \({_DECIMAL}, (?P<most>{_DECIMAL})\)",
         lambda m: {"seconds": read_real(m["most"]) / 1000}),
    rule("fact", r"Total number of parameters in billions: *(?P<billions>\d+\.(?P<decimals>\d+))",
         _billions),
    rule("validation", rf"validation loss at iteration .{{0,2000}}\blm loss value: (?P<loss>{NUMBER})",
         lambda m: {"loss": read_real(m["loss"])}),
    rule("fact", r"number of parameters on \(tensor, pipeline\) model parallel rank "
         r"\((?P<tp>\d+), (?P<pp>\d+)\): (?P<count>\d+)",
         _rank_parameters),
    rule("config_fallback", r"Config variant '(?P<asked>[^']*)' not found; falling back to '(?P<used>[^']*)'",
         lambda m: {"asked": m["asked"], "used": m["used"]}),
    rule("unexpected_result", r"(?:iteration (?P<before>\d+): )?Unexpected result (?:tensor\()?"
         r"(?P<result>[-+\w.]{1,40})"
         r"(?=.{0,500}\(message='[^']*'\))", _unexpected),
    *TORCH,
)  # fmt: skip

NEMO2: tuple[Rule, ...] = (
    rule("finished", r"Trainer\.fit` stopped: `max_steps=\d+` reached"),
    rule("checkpoint_saved", r"Global Checkpoint Save : Rank ?: \d+ : Iteration ?: (?P<iteration>\d+) "
         r".{0,300}Save duration ?: (?P<seconds>\d+(?:\.\d*)?)s",
         lambda m: {"iteration": read_whole(m["iteration"]), "seconds": read_real(m["seconds"])}),
    rule("checkpoint_loaded", r"Global Checkpoint Load : .{0,300}"
         r"Time spent in load_checkpoint: (?P<seconds>\d+(?:\.\d*)?)s",
         lambda m: {"seconds": read_real(m["seconds"])}),
    rule("fact", r"^\s*(?P<count>\d+(?:\.\d*)?) (?P<unit>[KMBT])\s+Total params", _of_rank),
    rule("fact", r"All distributed processes registered. Starting with (?P<count>\d+) processes",
         lambda m: {"world_size": read_whole(m["count"])}),
    rule("fact", r"setting number of microbatches to constant (?P<count>\d+)",
         lambda m: {"microbatches": read_whole(m["count"])}),
    rule("garbage_collection", r"Running garbage collection at train global_step: (?P<iteration>\d+)",
         lambda m: {"iteration": read_whole(m["iteration"])}),
    *TORCH,
    *(r for r in MEGATRON if r[0] in ("unexpected_result", "fact", "config_fallback")),
)  # fmt: skip

_MEMORY = re.compile(
    r"\[Rank (?P<rank>\d+)\] \(after (?P<after>\d+) iterations\) memory \((?:GB|MB)\).{0,2000}?"
    r"(?:mem-max-allocated-gigabytes: (?P<giga>\d+(?:\.\d*)?)|max allocated: (?P<mebi>\d+(?:\.\d*)?))"
)


def memory(text: str) -> Event | None:
    """Return the peak memory of a line `(after N iterations) memory`, or None.

    Megatron-Bridge prints it in units of 1e9 bytes, Megatron-LM in units of 2^20 bytes.
    """
    match = _MEMORY.search(text)
    if match is None:
        return None
    peak = (
        rounded_range(read_real(match["giga"]) * 1e9)
        if match["giga"]
        else rounded_range(read_real(match["mebi"]) * 2**20)
    )
    if peak == 0:
        return None  # Megatron-Bridge 0.1 and 0.2 print 0 on a machine without a GPU
    facts: Facts = {"peak_memory_bytes": peak, "iteration": read_whole(match["after"])}
    return Event(kind="fact", text=text.strip()[:500], rank=read_whole(match["rank"]), facts=facts)
