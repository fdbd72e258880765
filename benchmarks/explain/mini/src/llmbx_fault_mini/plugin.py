"""The hooks of the small trainings: plain PyTorch over gloo, with the step clock."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources

from llmbx.api import (
    Environment,
    Event,
    Flops,
    Image,
    ImageRequest,
    Launch,
    LogFormat,
    LogParser,
    Phase,
    Prints,
    RunSpec,
    Signatures,
    Step,
    Term,
    Workload,
    hookimpl,
    load_workload,
    payload_files,
)

LLMBX_API = (3, 0)
LINE = re.compile(r"mini step (\d+)/(\d+) \| ([\d.]+) s \| loss ([\d.]+|nan|inf)(?!\S)")


class Parser(LogParser):
    """`mini step 3/130 | 0.0513 s | loss 6.25`, steps counted from 1."""

    first_step = 1
    prints = Prints(fields=("loss",), cross_entropy=True)

    def __init__(self) -> None:
        self.signatures = Signatures()

    def feed(self, line: str) -> Iterator[Step | Event]:
        """Yield the step or the events of a line."""
        if match := LINE.search(line):
            number, total, seconds, loss = match.groups()
            yield Step(number=int(number), total=int(total), time_s=float(seconds), loss=float(loss))
        yield from self.signatures.feed(line)


@hookimpl
def register_workloads() -> list[Workload]:
    """Register the trainings."""
    return [load_workload(resources.files(__package__) / "fault_mini.toml")]


@hookimpl
def prepare_image(spec: RunSpec) -> ImageRequest:
    """Ask for a Python with torch."""
    environment = Environment(name="fault-mini", pythons=("3.11",), steps=(), check="import torch")
    return ImageRequest(environment=environment, reference=spec.image.reference if spec.image else None)


@hookimpl
def build_command(spec: RunSpec, image: Image) -> Launch:
    """Start one process a rank."""
    env = {"LLMBX_SPEC": "spec.json", "PYTHONUNBUFFERED": "1", **spec.env}
    train = Phase(role="train", argv=(image.python, "code/train.py"), env=env)
    return Launch(
        nodes=spec.nodes,
        ranks_per_node=min(spec.gpus, spec.gpus_per_node),
        gpus_per_rank=0,
        phases=(train,),
        files=payload_files(spec, str(__package__)),
    )


@hookimpl
def parse_log(spec: RunSpec | None) -> list[LogFormat]:
    """Read the lines of the steps."""
    return [LogFormat("fault-mini", "Mini", sniff=lambda text: len(LINE.findall(text)), parser=Parser)]


@hookimpl
def compute_flops(spec: RunSpec) -> Flops:
    """Count the layers of the data-parallel training."""
    m, tokens = spec.model, spec.model.sequence_length
    terms = [
        Term.attention(tokens, m.hidden_size, m.heads, m.query_groups, layers=m.layers),
        Term.mlp(tokens, m.hidden_size, m.ffn_hidden_size, layers=m.layers),
        Term.logits(tokens, m.hidden_size, m.vocab_size),
    ]
    return Flops.total(terms, "fault-mini-1")
