"""One rank of a small training."""

from __future__ import annotations

import os
import time

from llmbx_fault_mini.entry.faults import Faults, Memory

from llmbx.entry import rank

spec, folder = rank.begin()
this, settings, steps = rank.this(), spec["settings"], spec["steps"]
faults = Faults.read(this.number)
faults.before_torch()

import torch  # noqa: E402
from llmbx_fault_mini.entry import trainings  # noqa: E402
from llmbx_fault_mini.entry.model import Text, batches  # noqa: E402
from torch import distributed  # noqa: E402

from llmbx.entry import final, seen, step_clock  # noqa: E402

torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
network = faults.content.get("network", {})
os.environ.update(MASTER_ADDR=network.get("address", this.address), MASTER_PORT=str(this.port))
distributed.init_process_group("gloo", rank=this.number, world_size=this.world)
kind = settings["kind"]
CONFIGURATION = {
    "model.num_layers": settings["depth"],
    "model.hidden_size": 256,
    "model.seq_length": settings["context"],
    "model.params_dtype": settings["precision"],
    "model.recompute_granularity": "full" if settings["recompute"] else None,
    "model.pipeline_model_parallel_size": this.world if kind == "pipeline" else 1,
    "model.expert_model_parallel_size": this.world if kind == "experts" else 1,
    "model.num_moe_experts": this.world if kind == "experts" else None,
    "train.micro_batch_size": settings["rows"] // (settings["microbatches"] if kind == "pipeline" else 1),
    "train.global_batch_size": settings["rows"] * (1 if kind == "pipeline" else this.world),
    "train.num_microbatches": settings["microbatches"] if kind == "pipeline" else 1,
    "train.eval_interval": settings["evaluate_every"],
    "checkpoint.save_interval": settings["save_every"],
}
if this.first:
    seen.write(folder, ("torch",))
    final.write_flat(CONFIGURATION, seen.versions(("torch",)), folder)
torch.manual_seed(1)
clock = step_clock.of_torch(folder)
training = trainings.KINDS[kind](settings, this, clock)
if isinstance(training, trainings.Experts) and (router := faults.inside.get("router")):
    training.shares = tuple(router["shares"])
next(iter(training.model.modules())).register_full_backward_pre_hook(faults.backward)
memory = Memory(faults.content, this.number)
seed = 0 if kind == "pipeline" else this.number
text = Text(seed, lambda _: faults.sequence(settings["context"]), faults.loading)
loader = batches(text, settings["rows"])

for number in range(steps):
    faults.step = number
    began = time.perf_counter()
    with clock.step(number):
        tokens = next(loader)
        memory.touch()
        loss = training.step(tokens)
        faults.collect()
    if this.first:
        print(f"mini step {number + 1}/{steps} | {time.perf_counter() - began:.6f} s | loss {loss:.6f}")
    if settings["save_every"] and (number + 1) % settings["save_every"] == 0:
        if this.first:
            print(f"saving a checkpoint after step {number + 1}")
            state = [training.model.state_dict(), training.optimizer.state_dict()]
            with open("checkpoint.pt", "wb") as file:  # noqa: PTH123
                torch.save(state, file)
                os.fsync(file.fileno())
        distributed.barrier()
    if settings["evaluate_every"] and (number + 1) % settings["evaluate_every"] == 0:
        if this.first:
            print(f"evaluation after step {number + 1}")
        training.evaluate(loader, settings["evaluated"])
distributed.barrier()
clock.close()
distributed.destroy_process_group()
