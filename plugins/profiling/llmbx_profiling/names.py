"""Names of profile files: from a recipe's template to what nsys fills in, and from a file back to its rank. Pure."""

from __future__ import annotations

import re
from typing import Any

from llmbx.model import RunSpec, Value

FOLDER = "nsys_profile"
"""Where the recipes put profiles, in the run folder."""

DOMAIN = "llmbx"
"""NVTX domain of the ranges that a framework's entry script pushes: `profile` around the profiled steps, and one `step`
(payload: its number from zero) around each."""

_NSYS = {
    "node": "%q{LLMBX_NODE_RANK}",
    "rank": "%q{LLMBX_RANK}",
    "local_rank": "%q{LLMBX_LOCAL_RANK}",
    "pid": "%p",
}
_PATTERN = {"job": r"[^_/]+", "node": r"(?P<node>\d+)", "rank": r"(?P<rank>\d+)",
            "local_rank": r"(?P<local_rank>\d+)", "pid": r"\d+"}  # fmt: skip
_FIELD = re.compile(r"\{(\w+)\}")


class Place(Value, frozen=True):
    """What a file's name says of its rank; None where the name is silent."""

    node: int | None = None
    local_rank: int | None = None
    rank: int | None = None


def template(name: str, spec: RunSpec, nodes: int, ranks: int) -> str:
    """A recipe's `profile_name` with all that is known before the start filled in.

    `{node}`, `{rank}`, `{local_rank}`, `{pid}` and `{job}` stay. A name that several of `ranks` ranks on `nodes` nodes
    would share gets the rank at its end, so that no file overwrites another.
    """
    known: dict[str, Any] = {"workload": spec.workload, "size": spec.size, "dtype": spec.dtype, "gpus": spec.gpus}
    filled = _FIELD.sub(lambda m: str(known.get(m[1], m[0])), name)
    fields = set(_FIELD.findall(filled))
    one_node = nodes == 1 and fields & {"local_rank", "pid"}
    if ranks > 1 and not ("rank" in fields or {"node", "local_rank"} <= fields or one_node):
        filled += "_rank{rank}"
    return filled


def for_nsys(name: str, job: str) -> str:
    """The template in the words of nsys's `--output`; `job` is the launcher's id of the run, or its variable.

    nsys gives up the whole file where a variable is unset, so only what every rank has is named by variable.
    """
    return _FIELD.sub(lambda m: job if m[1] == "job" else _NSYS[m[1]], name)


def wildcard(name: str) -> str:
    """A shell pattern for every rank's report: .nsys-rep, or the .qdstrm that nsys leaves without its importer."""
    return _FIELD.sub("*", name) + ".[nq][sd]*"


def place(name: str, stem: str, ranks_per_node: int) -> Place | None:
    """Whose file `stem` (no folder, no ending) is by the template `name`; None when the name is another's."""
    seen: set[str] = set()

    def part(match: re.Match[str]) -> str:
        repeated = match[1] in seen
        seen.add(match[1])
        return r"[^/]+" if repeated else _PATTERN[match[1]]

    pieces = _FIELD.split(name)
    text = "".join(re.escape(piece) if i % 2 == 0 else "{" + piece + "}" for i, piece in enumerate(pieces))
    found = re.fullmatch(_FIELD.sub(part, text), stem)
    if found is None:
        return None
    given = {key: int(value) for key, value in found.groupdict().items()}
    if "rank" not in given and {"node", "local_rank"} <= given.keys():
        given["rank"] = given["node"] * ranks_per_node + given["local_rank"]
    elif "rank" not in given and "local_rank" in given:
        given["rank"] = given["local_rank"]
    return Place(**given)
