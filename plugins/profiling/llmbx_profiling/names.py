"""Names of profile files: expand a recipe's template for nsys, and parse a file name back to its rank. Pure."""

from __future__ import annotations

import re
from typing import Any

from llmbx.api import RunSpec, Value

FOLDER = "nsys_profile"
"""Folder of the profiles in the run folder, as in the recipes."""

ENDED_EARLY = f"{FOLDER}/ended-early-"
"""Beginning of the name of the file that `start.sh` writes if nsys ended before the program; the end is the rank."""

NVTX = f"{FOLDER}/nvtx-{{rank}}.json"
"""Name of the file in which a rank records its version of nvtx; `start.sh` passes it to the program."""

DOMAIN = "llmbx"
"""NVTX domain of the ranges pushed by a framework's entry script: `profile` around all profiled steps, and one `step`
per step, with the step number (from zero) as payload."""

_NSYS = {
    "node": "%q{LLMBX_NODE_RANK}",
    "rank": "%q{LLMBX_RANK}",
    "local_rank": "%q{LLMBX_LOCAL_RANK}",
    "pid": "%p",
}
_PATTERN = {"job": r"[^_/]+", "node": r"(?P<node>\d+)", "rank": r"(?P<rank>\d+)",
            "local_rank": r"(?P<local_rank>\d+)", "pid": r"\d+"}  # fmt: skip
_FIELD = re.compile(r"\{(\w+)\}")


class FileRank(Value, frozen=True):
    """The rank information in a file name; fields are None if the name does not contain them."""

    node: int | None = None
    local_rank: int | None = None
    rank: int | None = None


def fill_template(name: str, spec: RunSpec, nodes: int, ranks: int) -> str:
    """Expand the fields of a recipe's `profile_name` that are known before the start.

    `{node}`, `{rank}`, `{local_rank}`, `{pid}` and `{job}` are kept. If several of the `ranks` ranks on `nodes` nodes
    would have the same name, the rank is appended, so that no file overwrites another.
    """
    values: dict[str, Any] = {"workload": spec.workload, "size": spec.size, "dtype": spec.dtype, "gpus": spec.gpus}
    filled = _FIELD.sub(lambda m: str(values.get(m[1], m[0])), name)
    fields = set(_FIELD.findall(filled))
    one_node = nodes == 1 and fields & {"local_rank", "pid"}
    if ranks > 1 and not ("rank" in fields or {"node", "local_rank"} <= fields or one_node):
        filled += "_rank{rank}"
    return filled


def nsys_output(name: str, job: str) -> str:
    """Convert the template to the syntax of `nsys --output`; `job` is the launcher's job id, or its variable.

    nsys writes no file if a variable is unset, so only variables that every rank has are used.
    """
    return _FIELD.sub(lambda m: job if m[1] == "job" else _NSYS[m[1]], name)


def glob_pattern(name: str) -> str:
    """Return a shell pattern for the reports of all ranks: .nsys-rep, or .qdstrm if nsys has no importer."""
    return _FIELD.sub("*", name) + ".[nq][sd]*"


def parse_name(name: str, stem: str, ranks_per_node: int) -> FileRank | None:
    """Parse `stem`, a file name without folder and suffix, with the template `name`; None if it does not match."""
    seen: set[str] = set()

    def field_pattern(match: re.Match[str]) -> str:
        repeated = match[1] in seen
        seen.add(match[1])
        return r"[^/]+" if repeated else _PATTERN[match[1]]

    pieces = _FIELD.split(name)
    text = "".join(re.escape(piece) if i % 2 == 0 else "{" + piece + "}" for i, piece in enumerate(pieces))
    whole = re.fullmatch(_FIELD.sub(field_pattern, text), stem)
    if whole is None:
        return None
    fields = {key: int(value) for key, value in whole.groupdict().items()}
    if "rank" not in fields and {"node", "local_rank"} <= fields.keys():
        fields["rank"] = fields["node"] * ranks_per_node + fields["local_rank"]
    elif "rank" not in fields and "local_rank" in fields:
        fields["rank"] = fields["local_rank"]
    return FileRank(**fields)
