"""A plain PyTorch trainer as a framework of llmbx."""

import re
from importlib import resources

from llmbx.api import (
    Flops,
    Launch,
    LogFormat,
    LogParser,
    Phase,
    Prints,
    Signatures,
    Step,
    Term,
    hookimpl,
    load_workload,
    needed,
    payload_files,
)

LLMBX_API = (3, 0)

LINE = re.compile(
    r"step (\d+)/(\d+) \| ([\d.]+) s \| loss ([\d.]+|nan|inf) \| grad ([\d.]+|nan|inf) \| batch (\d+)(?!\S)"
)


class Parser(LogParser):
    first_step = 1
    prints = Prints(fields=("loss", "grad_norm", "global_batch_size"), cross_entropy=True)

    def __init__(self):
        self.signatures = Signatures()

    def feed(self, line):
        if found := LINE.search(line):
            number, total, seconds, loss, norm, batch = found.groups()
            yield Step(
                number=int(number), total=int(total), time_s=float(seconds), loss=float(loss), grad_norm=float(norm),
                global_batch_size=int(batch),
            )  # fmt: skip
        yield from self.signatures.feed(line)


@hookimpl
def register_workloads():
    return [load_workload(resources.files(__package__) / "torch_lm.toml")]


@hookimpl
def prepare_image(spec):
    return needed(spec, __package__)


@hookimpl
def build_command(spec, image):
    train = Phase(
        role="train",
        argv=(image.python, "code/train.py"),
        env={"LLMBX_SPEC": "spec.json", "PYTHONUNBUFFERED": "1", **spec.env},
    )
    return Launch(
        nodes=spec.nodes,
        ranks_per_node=min(spec.gpus, spec.gpus_per_node),
        gpus_per_rank=0 if spec.gpu_type == "cpu" else 1,
        phases=(train,),
        files=payload_files(spec, __package__),
    )


@hookimpl
def parse_log(spec):
    return [LogFormat("torch-lm", "PyTorch", sniff=lambda text: len(LINE.findall(text)), parser=Parser)]


@hookimpl
def compute_flops(spec):
    m, tokens = spec.model, spec.model.sequence_length
    return Flops.total(
        [
            Term.embedding(m.hidden_size, m.vocab_size),
            Term.attention(tokens, m.hidden_size, m.heads, m.query_groups, layers=m.layers),
            Term.mlp(tokens, m.hidden_size, m.ffn_hidden_size, layers=m.layers),
            Term.logits(tokens, m.hidden_size, m.vocab_size),
        ],
        "torch-lm-1",
    )
