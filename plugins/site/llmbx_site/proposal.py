"""What `llmbx init` found on a machine or cluster, and the `llmbx.toml` that it proposes."""

from __future__ import annotations

import json
from collections.abc import Iterator

from llmbx.api import GpuType, Proposal, Scalar, Value

GUIDE = "docs/guide.md, Cluster profiles"


class Gpus(Value, frozen=True):
    """The GPUs of this machine: all that were `seen`, and number and type of those that runs use.

    `block` describes the type in llmbx.toml, if it is in no list.
    """

    seen: str
    count: int
    type: str
    block: str = ""
    several: bool = False


class Tool(Value, frozen=True):
    """Something that runs may need.

    `problem` is why it cannot be used (None: it can), `fix` how to get it. It is `broken` if it is
    installed and does not work.
    """

    what: str
    name: str
    detail: str
    problem: str | None = None
    fix: str | None = None
    broken: bool = False


class Site(Value, frozen=True):
    """A machine, and the cluster that it reaches.

    `install` is the folder of artifacts with `free_bytes` of space (None: unknown). `launcher` is
    the scheduler's launcher with its plugin's name and part of the profile, if there is a
    scheduler. `gpu_type` and `gpus_per_node` are those of the cluster's nodes.
    """

    host: str
    install: str
    free_bytes: int | None = None
    gpus: Gpus | None = None
    tools: tuple[Tool, ...] = ()
    launcher: str | None = None
    plugin: str | None = None
    proposal: Proposal = Proposal()
    gpu_type: str | None = None
    gpus_per_node: int | None = None


def render(site: Site, name: str, version: str) -> str:
    """The text of an `llmbx.toml` with the cluster profile `name`.

    On a machine without a scheduler the profile is a comment: the runs of a single machine are
    those that its own GPUs can run, and need none.
    """
    written = f"# Written by llmbx {version} (llmbx init) on {site.host}. All keys: {GUIDE}."
    lines = [written, ""]
    lines += [f"install = {_text(site.install)}{_free(site)}", ""]
    if site.launcher is None:
        lines += [f"# {line}".rstrip() for line in _local(site, name)]
    else:
        lines += [f"default_cluster = {_text(name)}", "", *_cluster(site, name)]
    if site.gpus and site.gpus.block:
        lines += ["", site.gpus.block]
    return "\n".join(lines) + "\n"


def gpu_block(gpu: GpuType) -> str:
    """The table that describes a GPU type in llmbx.toml."""
    by = "memory_mib" if gpu.memory_mib else "memory_gb"
    facts = {
        "title": gpu.title,
        by: getattr(gpu, by),
        "compute_capability": gpu.compute_capability,
        "match": list(gpu.match),
    }
    lines = [
        f"[gpus.{gpu.name}]     # as the driver prints it",
        *(
            f"{key} = {json.dumps(value, ensure_ascii=False)}"
            for key, value in facts.items()
            if value
        ),
    ]
    if facts[by] is None:
        lines.append("# memory_gb = 128.0             # 10^9 bytes; the driver does not print it")
    peaks = "dense TFLOP/s by dtype, of its data sheet; without them there is no MFU"
    return "\n".join(
        [
            *lines,
            f"# peaks = {{ bf16 = 100.0 }}     # {peaks}",
            '# source = "NVIDIA ... data sheet"',
        ]
    )


def _local(site: Site, name: str) -> Iterator[str]:
    broken = next((tool for tool in site.tools if tool.what == "launcher" and tool.broken), None)
    if broken:
        problem = " ".join((broken.problem or "").split())
        yield f"The scheduler {broken.name} does not answer: {problem}."
        yield "When it does, `llmbx init --force` writes the profile of its cluster here."
        return
    yield "This machine has no scheduler: its runs need no profile. For defaults of its runs,"
    yield "remove the signs of a comment:"
    yield f"default_cluster = {_text(name)}"
    yield f"[clusters.{name}]"
    if site.gpu_type:
        yield f"gpu_type = {_text(site.gpu_type)}"
    yield 'launcher = "local"'
    yield "walltime_minutes = { default = 60 }"


def _cluster(site: Site, name: str) -> Iterator[str]:
    yield f"[clusters.{name}]"
    yield _gpu_type(site)
    if site.gpus_per_node:
        yield f"gpus_per_node = {site.gpus_per_node}"
    yield f"launcher = {_text(site.launcher or '')}"
    yield from _runtime(site)
    limit = "the limit of a job, by workload; default: the recipe's"
    yield f"# walltime_minutes = {{ default = 60 }}{_comment(limit)}"
    yield '# mounts = ["/data:/data:ro"]             # folders that containers see'
    yield "# env = {}                               # variables of all ranks"
    yield ""
    yield f"[clusters.{name}.{site.plugin}]"
    proposed, comments = site.proposal.settings, site.proposal.comments
    for key in {**proposed, **comments}:
        is_proposed = key in proposed
        value = _value(proposed[key]) if is_proposed else '""'
        yield f"{'' if is_proposed else '# '}{key} = {value}{_comment(comments.get(key))}"


def _gpu_type(site: Site) -> str:
    products = _of_gpus(site)
    if site.gpu_type is not None:
        return f"gpu_type = {_text(site.gpu_type)}{_comment(products)}"
    unknown = "the scheduler does not name the GPUs: set their type"
    return f'# gpu_type = "TYPE"{_comment(products or unknown)}'


def _runtime(site: Site) -> Iterator[str]:
    usable = [tool.name for tool in site.tools if tool.what == "runtime" and tool.problem is None]
    if not usable:
        yield '# runtime = "host"'
        return
    comment = _comment(f"default: chosen for each run among {', '.join(usable)}")
    yield f"# runtime = {_text(usable[0])}{comment}"


def _of_gpus(site: Site) -> str | None:
    if site.proposal.gpu_name:
        return f"the scheduler calls them {site.proposal.gpu_name}"
    return f"{site.gpus.seen}, on this machine" if site.gpus else None


def _free(site: Site) -> str:
    return "" if site.free_bytes is None else _comment(f"{site.free_bytes / 1e9:,.0f} GB free")


def _comment(text: str | None) -> str:
    return f"     # {' '.join(text.split())}" if text else ""


def _value(value: Scalar) -> str:
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(value: str) -> str:
    """A TOML string; JSON's escapes are TOML's."""
    return json.dumps(value, ensure_ascii=False)
