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
    Workload,
    hookimpl,
    layers,
    load_workload,
    needed,
    payload,
)

from .grammar import STEP, Parser

LLMBX_API = (1, 0)


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
        argv=(image.python, f"{payload.CODE}/train.py"),
        # The operations of the debug model are so short that a second thread takes longer to start than it saves.
        env={"LLMBX_SPEC": payload.SPEC, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1", **spec.env},
    )
    return Launch(
        nodes=spec.nodes,
        ranks_per_node=min(spec.gpus, spec.gpus_per_node),
        gpus_per_rank=0,
        phases=(train,),
        files=payload.payload_files(spec, __package__),
    )


@hookimpl
def parse_log(spec: RunSpec | None) -> Sequence[LogFormat]:
    return [LogFormat("torchtitan", "torchtitan", sniff=lambda text: len(STEP.findall(text)), parser=Parser)]


@hookimpl
def compute_flops(spec: RunSpec) -> Flops:
    m, tokens = spec.model, spec.model.sequence_length
    return layers.total(
        [
            layers.embedding(m.hidden_size, m.vocab_size),
            layers.attention(tokens, m.hidden_size, m.heads, m.query_groups, layers=m.layers),
            layers.mlp(tokens, m.hidden_size, m.ffn_hidden_size, layers=m.layers),
            layers.logits(tokens, m.hidden_size, m.vocab_size),
        ],
        "torchtitan-1",
    )
