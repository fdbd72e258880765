"""Why two runs may differ in speed: everything that their records do not have in common, likely causes first. Pure.

What is compared are the records' members by dotted name, so a fact that a launcher or a host adds to a record is
compared without a word here; the rules only rank and name what they know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from llmbx.model import RunSpec, Scalar, Value
from llmbx.record.folder import Record

from .site import Site
from .values import Difference

NOTABLE = 20
"""Differences below this weight seldom matter for speed; people see how many there are."""

CHOSEN = 80
"""Differences of this weight and above are of what was run, below it of where it ran and how it was started."""


class Rule(Value, frozen=True):
    """Names that match `pattern` have this weight and are called `words` (`\\\\1`: what the pattern caught)."""

    pattern: str
    weight: int
    words: str


RULES = tuple(
    Rule(pattern=pattern, weight=weight, words=words)
    for pattern, weight, words in (
        (r"spec\.parallelism\.(dp)", 60, "parallelism DP"),
        (r"spec\.parallelism\.(\w+)", 100, r"parallelism \1"),
        (r"spec\.gradient_accumulation", 60, "gradient accumulation"),
        (r"spec\.(micro_batch_size|cuda_graphs|recompute_layers|offload_layers)", 100, r"\1"),
        (r"spec\.(dtype|gpu_type|gpus|global_batch_size|size|workload)", 100, r"\1"),
        (r"spec\.model\.(\w+)", 100, r"model \1"),
        (r"image\.digest", 95, "image digest"),
        (r"image\.(reference|kind)", 90, r"image \1"),
        (r"spec\.settings\.(.+)", 90, r"setting \1"),
        (r"spec\.env\.(.+)", 85, r"exported \1"),
        (r"versions\.(.+)", 80, r"version of \1"),
        (r"host\.(driver.*)", 78, r"\1"),
        (r"host\.(.*(?:clock|power|gpu).*)", 75, r"\1"),
        (r"host\.(cpu|cores|usable_cores|memory_gib)", 70, r"host \1"),
        (r"nodes", 65, "nodes"),
        (r"spec\.(recipe|driver|environment|runtime|launcher|cluster|gpus_per_node)", 60, r"\1"),
        (r"spec\.plugin_settings\.(\w+)\.(.+)", 55, r"setting \2 of \1"),
        (r"spec\.(mounts|setup|profile.*|trace.*|checkpoint.*|forced)", 55, r"\1"),
        (r"environment\.((?:NCCL|RCCL|CUDA|CUDNN|CUBLAS|NVTE|NVIDIA|TORCH|PYTORCH|TRITON|XLA|JAX|OMP|MKL|GOMP|KMP|UCX|"
         r"OMPI|PMIX|FI|RDMAV|GLOO|HSA|HIP|ROCR?|MALLOC|LD|SBATCH|SLURM)_.+)", 50, r"environment \1"),
        (r"spec\.(steps|window)", 45, r"\1"),
        (r"host\.(system|python|.+)", 40, r"host \1"),
        (r"llmbx_version", 30, "llmbx"),
        (r"spec\.(.+)", 25, r"\1"),
        (r"environment\.(.+)", 10, r"environment \1"),
    )
)  # fmt: skip

LOCAL = "local"
"""The launcher whose ranks run where llmbx runs."""

IGNORED = re.compile(
    r"run_id|created|command|commands\..*|findings|owner\..*|job\..*|prepare_s|attempt|group|repeats|sweep\..*|sweep|"
    r"spec\.(origins\..*|tags|install|folder|plugin|doubts|corrected|peak\..*|checkpoint_facts.*|gated_tokenizer|secrets|"
    r"stall_timeout_s|walltime_minutes|image\..*|image|minimum.*|accept_image_change|mini|proxy|flops_convention)|"
    r"image\.(path|python|versions\..*)|host\.(load.*|hostname|nodes)|"
    r"environment\.(_|PWD|OLDPWD|SHLVL|TERM.*|PS\d|SSH_.*|XDG_.*|DISPLAY|LS_COLORS|PYTEST_.*|COLUMNS|LINES|HIST.*|TMUX.*|"
    r"STY|WINDOWID|DBUS_.*|INVOCATION_ID|JOURNAL_STREAM|SLURM_JOB.*|SLURM_.*(ID|PID|NODELIST|ADDR|PORT).*)"
)
"""What differs between any two runs, or repeats what another name already says."""


def differences(a: Record, b: Record, sites: tuple[Site, Site] = (Site(), Site())) -> list[Difference]:
    """What the two records do not have in common, the likeliest cause of another speed first.

    `sites` are the machines that each side ran on, where they are known. What both say of themselves takes the place of
    what the records have of the machines that the runs were started from.
    """
    one, two = facts(a), facts(b)
    if sites[0].facts and sites[1].facts:
        one.update({f"host.{name}": value for name, value in sites[0].facts.items()})
        two.update({f"host.{name}": value for name, value in sites[1].facts.items()})
    found = [_difference(name, one.get(name), two.get(name)) for name in sorted({*one, *two})]
    nodes = [", ".join(names) or None for names in (_nodes(a, sites[0].nodes), _nodes(b, sites[1].nodes))]
    if nodes[0] != nodes[1]:
        found.append(_difference("nodes", nodes[0], nodes[1]))
    return sorted((d for d in found if d is not None), key=lambda d: (-d.weight, d.what))


def from_recipe(spec: RunSpec, recipe: RunSpec) -> list[Difference]:
    """In what a run departs from its recipe's own configuration (side A)."""
    one, two = _flat({"spec": recipe}), _flat({"spec": spec})
    found = [_difference(name, one.get(name), two.get(name)) for name in sorted({*one, *two})]
    known = [d for d in found if d is not None and d.what not in ("runtime", "launcher", "cluster")]
    return sorted(known, key=lambda d: (-d.weight, d.what))


def same_setup(a: Record, b: Record) -> bool:
    """Whether two runs differ in nothing that was chosen: configuration, exported variables, image, versions."""
    return all(d.weight < CHOSEN for d in differences(a, b))


def facts(record: Record) -> dict[str, Scalar]:
    """The record as plain values by dotted name."""
    return _flat(record)


def _flat(value: Any, prefix: str = "") -> dict[str, Scalar]:
    plain = msgspec.to_builtins(value)
    if isinstance(plain, Mapping):
        found: dict[str, Scalar] = {}
        for key, member in plain.items():
            found.update(_flat(member, f"{prefix}.{key}" if prefix else str(key)))
        return found
    if isinstance(plain, list | tuple):
        return {prefix: ", ".join(map(str, plain)) or None}
    return {prefix: plain}


def _difference(name: str, a: Scalar, b: Scalar) -> Difference | None:
    if a == b or IGNORED.fullmatch(name):
        return None
    for rule in RULES:
        match = re.fullmatch(rule.pattern, name)
        if match:
            note = _version_step(a, b) if name.startswith("versions.") else None
            if name == "image.digest" and a and b:
                note = "other bits, even where the name is the same"
            return Difference(weight=rule.weight, what=match.expand(rule.words), a=a, b=b, note=note)
    return Difference(weight=NOTABLE, what=name, a=a, b=b)


def _version_step(a: Scalar, b: Scalar) -> str | None:
    """How far apart two versions are: in their first number, their second, or a later part."""
    if not isinstance(a, str) or not isinstance(b, str):
        return None
    parts = [re.findall(r"\d+", text) for text in (a, b)]
    for depth, word in enumerate(("major", "minor")):
        if [p[depth : depth + 1] for p in parts[:1]] != [p[depth : depth + 1] for p in parts[1:]]:
            return f"another {word} version"
    return None


def _nodes(record: Record, seen: tuple[str, ...]) -> tuple[str, ...]:
    """Where the ranks ran: as found, else as the record says, else where llmbx ran if it started them itself."""
    if seen:
        return seen
    named = record.host.get("nodes")
    if isinstance(named, list | tuple) and named:
        return tuple(sorted(map(str, named)))
    host = record.host.get("hostname")
    return (str(host),) if host and record.spec.launcher == LOCAL else ()
