"""The TOML of an imported recipe, in one form: the same configurations always give the same text."""

from __future__ import annotations

import json
import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from llmbx.api import Value

from .names import Large, Names, Scale
from .rows import DTYPES, Configuration, Imported, Key
from .tree import Tree

FIRST = "# Imported: `llmbx catalog import` writes all lines from here to the end of the import."
LAST = "# End of the import."

WIDTH = 118
DEFAULTS = {"fsdp": False, "tp": 1, "pp": 1, "cp": 1, "cuda_graphs": False, "recompute_layers": 0, "offload_layers": 0}
"""Values that a row leaves out."""
AFTER_BATCH = ("cuda_graphs", "recompute_layers", "offload_layers")

Env = dict[str, str]


class Line(Value, frozen=True):
    """A row of the recipe: all combinations of its dtypes, GPU types and numbers of GPUs."""

    size: str
    dtypes: tuple[str, ...]
    gpu_types: tuple[str, ...]
    gpus: tuple[int, ...]
    rest: str


def recipe_name(tree: Tree) -> str:
    """Return the name of the recipe of a tree."""
    return f"bridge-{tree.release}"


def block(imported: Imported, tree: Tree, names: Names, image: Mapping[str, str]) -> str:
    """Return the lines of the recipe in the workload's file, with the comments that mark them."""
    workload = imported.workload
    title = names.titles.get(workload, workload)
    base, exports, own = shared_env(imported.configurations)
    lines = [
        FIRST,
        *_left_out(imported),
        "[[recipes]]",
        f"name = {_toml(recipe_name(tree))}",
        f"title = {_toml(f'{title} recipe (Megatron-Bridge {tree.release})')}",
        f"released = {_toml(tree.release)}",
        f"source = {_toml(f'Megatron-Bridge {tree.version}, {tree.recipes}')}",
        'driver = "megatron-bridge"',
        f"image = {_toml(dict(image))}",
        'window = "35-44"',
        'profile_ranks = "0"',
        'profile_name = "profile_{pid}_{job}_node{node}_rank{rank}"',
        'flops_convention = "causal"',
        f"walltime_minutes = {_toml(names.walltime_minutes.get(workload, {'default': 30}))}",
        "settings = { numa_binding = true }",
        'launchers = { slurm = { segment = "auto", srun = { wait = 60 } } }',
        "rows = [",
        *_rows(imported.configurations, own),
        *_scales(imported, [*names.scales, *imported.scales], own),
        "]",
        "",
        "[recipes.env]",
        *(f"{name} = {_toml(value)}" for name, value in base.items()),
    ]
    for selector, env in [*exports, *_large(names.large, workload)]:
        lines += ["", "[[recipes.exports]]", *(f"{key} = {_toml(value)}" for key, value in selector.items())]
        lines.append(f"env = {_toml(env)}")
    return "\n".join([*lines, LAST, ""])


def _left_out(imported: Imported) -> Iterator[str]:
    for reason, functions in imported.left_out.items():
        text = f"Left out ({reason}): {', '.join(functions)}."
        lines = textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
        yield from (f"# {line}" for line in lines)


def _large(rules: Iterable[Large], workload: str) -> Iterator[tuple[dict[str, Any], Env]]:
    for rule in rules:
        if rule.workload == workload:
            selector = {
                "sizes": list(rule.sizes),
                "dtypes": list(rule.dtypes),
                "gpu_types": list(rule.gpu_types),
                "min_gpus": rule.min_gpus if rule.min_gpus > 1 else None,
            }
            yield {key: value for key, value in selector.items() if value}, rule.env


def shared_env(
    configurations: Mapping[Key, Configuration],
) -> tuple[Env, list[tuple[dict[str, Any], Env]], dict[Key, Env]]:
    """Split the environments: what all have, what a size, GPU type or dtype adds to it, and what is left for each row.

    A level has a variable if all its configurations have it with one value, so that no row has to unset one.
    """
    wanted = {key: configuration.env for key, configuration in configurations.items()}
    base = {name: _most_common(env[name] for env in wanted.values()) for name in _in_all(wanted.values())}
    reached: dict[Key, Env] = {key: dict(base) for key in wanted}
    exports: list[tuple[dict[str, Any], Env]] = []
    for level, place in (("sizes", 0), ("gpu_types", 2), ("dtypes", 1)):
        for choice in dict.fromkeys(key[place] for key in wanted):
            keys = [key for key in wanted if key[place] == choice]
            env = {
                name: wanted[keys[0]][name]
                for name in _in_all(wanted[key] for key in keys)
                if len({wanted[key][name] for key in keys}) == 1
                and any(reached[key].get(name) != wanted[key][name] for key in keys)
            }
            if env:
                exports.append(({level: [choice]}, env))
                for key in keys:
                    reached[key] |= env
    own = {
        key: {name: value for name, value in env.items() if reached[key].get(name) != value}
        for key, env in wanted.items()
    }
    return base, exports, own


def _in_all(environments: Iterable[Env]) -> list[str]:
    sets = [set(env) for env in environments]
    return sorted(set.intersection(*sets))


def _most_common(values: Iterable[str]) -> str:
    counts = Counter(values)
    return min(counts, key=lambda value: (-counts[value], value))


def _rows(configurations: Mapping[Key, Configuration], own: Mapping[Key, Env]) -> Iterator[str]:
    lines = [
        Line(
            size=size,
            dtypes=(dtype,),
            gpu_types=(gpu_type,),
            gpus=(gpus,),
            rest=_rest(configuration, gpus, own[size, dtype, gpu_type, gpus]),
        )
        for (size, dtype, gpu_type, gpus), configuration in configurations.items()
    ]
    for field in ("gpus", "dtypes", "gpu_types"):
        lines = _merged(lines, field)
    last = None
    for line in lines:
        if last not in (None, line.size):
            yield ""
        last = line.size
        yield _row(line)


def _row(line: Line) -> str:
    head = {
        "size": line.size,
        "dtypes": sorted(line.dtypes, key=list(DTYPES).index),
        "gpu_types": list(line.gpu_types),
        "gpus": [str(number) for number in sorted(line.gpus)],
    }
    return f"  {{ {_members(head)}, {line.rest} }},"


def _scales(imported: Imported, scales: Iterable[Scale], own: Mapping[Key, Env]) -> Iterator[str]:
    """Yield the rows that the launch scales, after an empty line."""
    lines = []
    for scale in (scale for scale in scales if scale.workload == imported.workload):
        for dtype in scale.dtypes:
            key = (scale.size, dtype, scale.gpu_type, scale.scaled_from)
            if key not in imported.configurations:
                continue
            base = imported.configurations[key]
            more = {"scaled_from": scale.scaled_from, **({"settings": scale.settings} if scale.settings else {})}
            env = {**own[key], **_expert_domain(base.env, scale)}
            rest = _rest(_changed(base, scale), scale.gpus[0], env)
            line = Line(
                size=scale.size, dtypes=(dtype,), gpu_types=(scale.gpu_type,), gpus=scale.gpus,
                rest=f"{_members(more)}, {rest}",
            )  # fmt: skip
            lines.append(line)
    texts = [_row(line) for line in _merged(lines, "dtypes")]
    yield from ["", *texts] if texts else []


def _changed(base: Configuration, scale: Scale) -> Configuration:
    """Return the values of a scale, with the samples of a data-parallel rank, as by upstream's program."""
    values = base.values | scale.values
    ranks, before = (math.prod(layout[name] for name in ("tp", "pp", "cp")) for layout in (values, base.values))
    return base.replace(values=values, gbs=base.gbs * before * scale.gpus[0] // (ranks * scale.scaled_from))


def _expert_domain(env: Env, scale: Scale) -> Env:
    """Return the number of ranks that exchange tokens over NVLink, as upstream's program sets it for another EP."""
    ranks, domain = "NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN", env.get("NVLINK_DOMAIN_SIZE")
    if ranks not in env or domain is None or "ep" not in scale.values:
        return {}
    return {ranks: str(min(scale.values["ep"], int(domain)))}


def _merged(lines: Sequence[Line], field: str) -> list[Line]:
    """Join lines that are equal but for `field`; a joined line stands where its first one stood."""
    groups: dict[Line, Line] = {}
    for line in lines:
        key = line.replace(**{field: ()})
        first = groups.get(key)
        joined = tuple(dict.fromkeys((*getattr(first, field, ()), *getattr(line, field))))
        groups[key] = line.replace(**{field: joined})
    return list(groups.values())


def _rest(configuration: Configuration, gpus: int, env: Env) -> str:
    """Return the fields of a row after its GPUs. The batch is written by GPU where that gives a whole number."""
    values = {
        name: value for name, value in configuration.values.items() if value is not None and value != DEFAULTS.get(name)
    }
    per_gpu, remainder = divmod(configuration.gbs, gpus)
    gbs: int | str = configuration.gbs if remainder else "GPUs" if per_gpu == 1 else f"GPUs*{per_gpu}"
    before = {name: value for name, value in values.items() if name not in AFTER_BATCH}
    after = {name: value for name, value in values.items() if name in AFTER_BATCH}
    return _members({**before, "gbs": gbs, **after, **({"env": env} if env else {})})


def _members(table: Mapping[str, Any]) -> str:
    return ", ".join(f"{_key(name)} = {_toml(value)}" for name, value in table.items())


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() else _toml(name)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{ {_members(value)} }}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
