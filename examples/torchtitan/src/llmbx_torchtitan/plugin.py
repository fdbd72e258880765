"""torchtitan as a framework of llmbx."""

from collections.abc import Sequence
from importlib import resources

from llmbx.api import (
    Flops,
    Image,
    ImageRequest,
    Launch,
    LogFormat,
    Phase,
    RunSpec,
    Term,
    Workload,
    hookimpl,
    load_workload,
    needed,
    payload_files,
)

from .grammar import STEP, Parser

LLMBX_API = (3, 0)


@hookimpl
def register_workloads() -> Sequence[Workload]:
    return [load_workload(resources.files(__package__) / "torchtitan.toml")]


@hookimpl
def prepare_image(spec: RunSpec) -> ImageRequest:
    return needed(spec, __package__)


@hookimpl
def build_command(spec: RunSpec, image: Image) -> Launch:
    train = Phase(
        role="train",
        argv=(image.python, "code/train.py"),
        # The operations of the debug model are so short that a second thread takes longer to start than it saves.
        env={"LLMBX_SPEC": "spec.json", "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1", **spec.env},
    )
    return Launch(
        nodes=spec.nodes,
        ranks_per_node=min(spec.gpus, spec.gpus_per_node),
        gpus_per_rank=0,
        phases=(train,),
        files=payload_files(spec, __package__),
    )


@hookimpl
def parse_log(spec: RunSpec | None) -> Sequence[LogFormat]:
    return [LogFormat("torchtitan", "torchtitan", sniff=lambda text: len(STEP.findall(text)), parser=Parser)]


@hookimpl
def compute_flops(spec: RunSpec) -> Flops:
    m, tokens = spec.model, spec.model.sequence_length
    return Flops.total(
        [
            Term.embedding(m.hidden_size, m.vocab_size),
            Term.attention(tokens, m.hidden_size, m.heads, m.query_groups, layers=m.layers),
            Term.mlp(tokens, m.hidden_size, m.ffn_hidden_size, layers=m.layers),
            Term.logits(tokens, m.hidden_size, m.vocab_size),
        ],
        "torchtitan-1",
    )
