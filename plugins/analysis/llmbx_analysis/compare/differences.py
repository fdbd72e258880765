"""Differences between the records of two runs, ranked by how likely they explain a difference in speed.

The records are compared by the dotted names of their fields, so facts that a launcher or a host adds to a record are
compared as well. The rules rank and name the fields that they match.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from llmbx.api import HandlingRequest, LlmbxError, RunSpec, Scalar, Value
from llmbx.api.verbs import Run, read_final
from llmbx.api.verbs import RunRecord as Record

from .comparison import Difference
from .measured import Machines

NOTABLE = 20
"""Differences below this weight rarely affect the speed. Only their number is printed."""

CONFIGURATION = 80
"""Differences of at least this weight are about what was run, below it about where and how it was started."""


class Rule(Value, frozen=True):
    """Fields that match `pattern` get this weight and label (`\\\\1` is the pattern's first group)."""

    pattern: str
    weight: int
    label: str


RULES = tuple(
    Rule(pattern=pattern, weight=weight, label=label)
    for pattern, weight, label in (
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
"""The launcher that starts the ranks on the machine of llmbx."""

IGNORED = re.compile(
    r"id|run_id|created|command|commands\..*|findings|owner\..*|job\..*|prepare_s|attempt|group|repeats|pair\..*|pair|sweep\..*|sweep|"
    r"spec\.(origins\..*|tags|install|folder|plugin|findings|corrected|peak\..*|checkpoint_facts.*|gated_tokenizer|secrets|"
    rf"{'|'.join(HandlingRequest.__struct_fields__)}|walltime_minutes|image\..*|image|minimum.*|mini|proxy|flops_convention)|"
    r"image\.(path|python|versions\..*)|host\.(load.*|hostname|nodes)|"
    r"environment\.(_|PWD|OLDPWD|SHLVL|TERM.*|PS\d|SSH_.*|XDG_.*|DISPLAY|LS_COLORS|PYTEST_.*|COLUMNS|LINES|HIST.*|TMUX.*|"
    r"STY|WINDOWID|DBUS_.*|INVOCATION_ID|JOURNAL_STREAM|SLURM_JOB.*|SLURM_.*(ID|PID|NODELIST|ADDR|PORT).*)"
)
"""Fields that differ between any two runs, or that are covered by other fields."""


def differences(
    a: Record, b: Record, machines: tuple[Machines, Machines] = (Machines(), Machines())
) -> list[Difference]:
    """The differences between two records, the likeliest causes of a different speed first.

    `machines` are the machines of both sides. If both have facts, these replace the facts about the machines on which
    the runs were submitted.
    """
    facts_a, facts_b = facts(a), facts(b)
    if machines[0].facts and machines[1].facts:
        facts_a.update({f"host.{name}": value for name, value in machines[0].facts.items()})
        facts_b.update({f"host.{name}": value for name, value in machines[1].facts.items()})
    names = sorted({*facts_a, *facts_b})
    differing = [_difference(name, facts_a.get(name), facts_b.get(name)) for name in names]
    hosts = (_nodes(a, machines[0].nodes), _nodes(b, machines[1].nodes))
    nodes_a, nodes_b = (", ".join(names) or None for names in hosts)
    if nodes_a != nodes_b:
        differing.append(_difference("nodes", nodes_a, nodes_b))
    return sorted((d for d in differing if d is not None), key=lambda d: (-d.weight, d.what))


def recipe_differences(spec: RunSpec, recipe: RunSpec) -> list[Difference]:
    """The differences of a run (side B) from the configuration of its recipe (side A)."""
    of_recipe, of_run = _flatten({"spec": recipe}), _flatten({"spec": spec})
    names = sorted({*of_recipe, *of_run})
    differing = [_difference(name, of_recipe.get(name), of_run.get(name)) for name in names]
    configured = [d for d in differing if d is not None and d.what not in ("runtime", "launcher", "cluster")]
    return sorted(configured, key=lambda d: (-d.weight, d.what))


def same_setup(a: Record, b: Record) -> bool:
    """Whether two runs have the same configuration, exported variables, image and versions."""
    return all(d.weight < CONFIGURATION for d in differences(a, b))


def facts(record: Record) -> dict[str, Scalar]:
    """The fields of a record by dotted name."""
    return _flatten(record)


def _flatten(value: Any, prefix: str = "") -> dict[str, Scalar]:
    plain = msgspec.to_builtins(value)
    if isinstance(plain, Mapping):
        facts: dict[str, Scalar] = {}
        for key, member in plain.items():
            facts.update(_flatten(member, f"{prefix}.{key}" if prefix else str(key)))
        return facts
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
                note = "different image content, even if the name is the same"
            return Difference(weight=rule.weight, what=match.expand(rule.label), a=a, b=b, note=note)
    return Difference(weight=NOTABLE, what=name, a=a, b=b)


def _version_step(a: Scalar, b: Scalar) -> str | None:
    """Whether two versions differ in their major or minor number; None for later parts."""
    if not isinstance(a, str) or not isinstance(b, str):
        return None
    parts = [re.findall(r"\d+", text) for text in (a, b)]
    for depth, word in enumerate(("major", "minor")):
        if [p[depth : depth + 1] for p in parts[:1]] != [p[depth : depth + 1] for p in parts[1:]]:
            return f"different {word} version"
    return None


def _nodes(record: Record, seen: tuple[str, ...]) -> tuple[str, ...]:
    """The nodes of the ranks: from the node files, else from the record, else the local host for the local launcher."""
    if seen:
        return seen
    named = record.host.get("nodes")
    if isinstance(named, list | tuple) and named:
        return tuple(sorted(map(str, named)))
    host = record.host.get("hostname")
    return (str(host),) if host and record.spec.launcher == LOCAL else ()


WEIGHT = 92
"""A key of the final configuration is what the framework really used."""

OWN = "<run>"
"""Replaces the folder and the id of a run in a value: they differ between any two runs."""


def configuration_differences(a: Run, b: Run) -> list[Difference]:
    """The keys in which the final configurations differ, sorted; one line if only one side has a configuration."""
    finals = [_final(run) for run in (a, b)]
    final_a, final_b = finals
    if final_a is None or final_b is None:
        if final_a is final_b:
            return []
        states = ["unknown" if final is None else "known" for final in finals]
        note = "only one of the runs wrote it, so it cannot be compared"
        return [Difference(weight=WEIGHT, what="final configuration", a=states[0], b=states[1], note=note)]
    keys = sorted(final_a.keys() | final_b.keys())
    return [
        Difference(
            weight=WEIGHT,
            what=f"final configuration {key}",
            a=_shown(final_a.get(key)),
            b=_shown(final_b.get(key)),
        )
        for key in keys
        if final_a.get(key) != final_b.get(key)
    ]


def _final(run: Run) -> dict[str, Any] | None:
    """The final configuration without what differs between any two runs; None if there is none or it is damaged."""
    try:
        configuration = read_final(run.path)
    except LlmbxError:
        return None
    if configuration is None:
        return None
    own = sorted({str(run.path), str(run.path.parent), run.record.run_id}, key=len, reverse=True)
    neutral: dict[str, Any] = _neutral(configuration.final, own)
    return neutral


def _neutral(value: Any, own: list[str]) -> Any:
    if isinstance(value, str):
        for text in own:
            value = value.replace(text, OWN)
        return value
    if isinstance(value, Mapping):
        return {key: _neutral(member, own) for key, member in value.items()}
    if isinstance(value, list):
        return [_neutral(member, own) for member in value]
    return value


def _shown(value: Any) -> Scalar:
    return value if value is None or isinstance(value, str | int | float | bool) else json.dumps(value)
