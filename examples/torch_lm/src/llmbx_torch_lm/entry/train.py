"""One rank of a plain PyTorch trainer: a decoder on made-up text, data-parallel over all ranks."""

import os
import time

import torch
from torch import distributed, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from llmbx.entry import operations, rank, seen


class Block(nn.Module):
    """Attention over all earlier positions, and a gated feed-forward layer."""

    def __init__(self, hidden, heads, groups, width):
        super().__init__()
        self.heads, self.groups, self.head = heads, groups, hidden // heads
        self.norms = nn.ModuleList(nn.RMSNorm(hidden) for _ in range(2))
        self.qkv = nn.Linear(hidden, (heads + 2 * groups) * self.head, bias=False)
        self.out = nn.Linear(hidden, hidden, bias=False)
        self.up, self.down = nn.Linear(hidden, 2 * width, bias=False), nn.Linear(width, hidden, bias=False)

    def forward(self, x):
        sizes = [n * self.head for n in (self.heads, self.groups, self.groups)]
        q, k, v = (
            t.unflatten(-1, (-1, self.head)).transpose(1, 2) for t in self.qkv(self.norms[0](x)).split(sizes, -1)
        )
        k, v = (t.repeat_interleave(self.heads // self.groups, 1) for t in (k, v))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        gate, up = self.up(self.norms[1](x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Decoder(nn.Module):
    def __init__(self, m):
        super().__init__()
        hidden, sizes = m["hidden_size"], (m["hidden_size"], m["heads"], m["query_groups"], m["ffn_hidden_size"])
        self.embedding = nn.Embedding(m["vocab_size"], hidden)
        self.blocks = nn.Sequential(*(Block(*sizes) for _ in range(m["layers"])))
        self.norm, self.logits = nn.RMSNorm(hidden), nn.Linear(hidden, m["vocab_size"], bias=False)

    def forward(self, tokens):
        return self.logits(self.norm(self.blocks(self.embedding(tokens))))


spec, folder = rank.begin()
this, model = rank.this(), spec["model"]
device = torch.device("cpu" if spec["gpu_type"] == "cpu" else f"cuda:{this.local}")
os.environ.update(MASTER_ADDR=this.address, MASTER_PORT=str(this.port))
distributed.init_process_group("gloo" if device.type == "cpu" else "nccl", rank=this.number, world_size=this.world)
if this.first:
    seen.write(folder, ("torch",))
torch.manual_seed(1)
decoder = DistributedDataParallel(Decoder(model).to(device))
optimizer = torch.optim.AdamW(decoder.parameters(), lr=spec["settings"]["lr"])
samples = spec["global_batch_size"] // this.world
draw = torch.Generator().manual_seed(this.number)
text = torch.randint(model["vocab_size"], (samples, model["sequence_length"] + 1), generator=draw).to(device)


def step():
    losses = F.cross_entropy(decoder(text[:, :-1]).flatten(0, 1).float(), text[:, 1:].flatten())
    optimizer.zero_grad()
    losses.backward()
    norm = nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
    optimizer.step()
    return losses.item(), norm.item()


for number in range(1, spec["steps"] + 1):
    begun = time.perf_counter()
    if number == spec["steps"]:
        with operations.of_torch(folder, samples):
            loss, norm = step()
    else:
        loss, norm = step()
    if this.first:
        seconds, batch = time.perf_counter() - begun, spec["global_batch_size"]
        print(f"step {number}/{spec['steps']} | {seconds:.6f} s | loss {loss:.6f} | grad {norm:.4f} | batch {batch}")
distributed.destroy_process_group()
