"""Faults that are put into real trainings of minis, and what must come of each. docs/faults.md has this table, too.

`tests/fixtures/fault_injector` changes the program of a rank; the framework trains, and its own log is judged. Faults
that do not hide one another share a training.
"""

from __future__ import annotations

import dataclasses
from typing import Any

NEMO = ("--plugin", "nemo", "llama3.1", "--steps", "8")
MAXTEXT = ("--plugin", "maxtext", "llama2", "--steps", "10")
TWO = ("--size", "mini", "--gpus", "2")


@dataclasses.dataclass(frozen=True)
class Training:
    """A run: its arguments, and what the injector does (see its docstring).

    `{log}`, `{result}`, `{final}` are the files of a clean run, `{other_final}` is its configuration with 2 layers.
    """

    arguments: tuple[str, ...]
    inject: dict[str, Any]
    host: bool = False
    """Whether the environment of the clean run is used as the host's own Python."""


@dataclasses.dataclass(frozen=True)
class RealFault:
    """A fault, the training that has it, and what must come of it.

    `check` is the check that finds it, with its `effect`. Without a check, `says` is in the cause, or in the warnings
    of a run that completes. `exit_code` is that of the ranks. The effect `not stable` is that of a valid window which
    is never called stable.
    """

    training: str
    check: str | None = None
    effect: str = "invalid"
    says: str = ""
    at_least_s: float = 0.0
    """The seconds that follow `says`; on a busy machine there are more."""
    exit_code: int = 0

    @property
    def fails(self) -> bool:
        """Whether the run fails."""
        return self.effect in ("invalid", "failed")


OWN_RANKS = {
    "LLMBX_RANK": "0", "LLMBX_LOCAL_RANK": "0", "LLMBX_WORLD_SIZE": "1", "LLMBX_LOCAL_WORLD_SIZE": "1",
    "LLMBX_MASTER_PORT": "0",
}  # fmt: skip
OTHER_MODEL = {
    "model.layers": 2, "model.hidden_size": 64, "model.sequence_length": 64, "model.vocab_size": 512, "model.heads": 4,
}  # fmt: skip
OTHER_MODEL_MAXTEXT = [
    "base_num_decoder_layers=2", "base_emb_dim=128", "max_target_length=64", "vocab_size=512", "dtype=bfloat16",
    "gradient_accumulation_steps=2", "base_mlp_dim=448",
]  # fmt: skip
ONE_DEVICE = "--xla_force_host_platform_device_count=1"
SMALL = [
    [1, 2, "skip"], [4, 4, "freeze", 8], [6, 6, "second_writer", "{log}"],
    [7, 7, "copy", "{other_result}", "result.json"],
]  # fmt: skip
"""Faults after which the data is valid."""


TRAININGS: dict[str, Training] = {
    "another batch": Training(NEMO, {"spec": {"global_batch_size": 2, "micro_batch_size": 2, "dtype": "bf16"}}),
    "another model": Training(NEMO, {"spec": OTHER_MODEL}),
    "no learning rate": Training(NEMO, {"spec": {"settings.lr": 0.0, "steps": 10}}),
    "NaN": Training(NEMO, {"spec": {"settings.check_for_nan": False}, "steps": [[4, 4, "nan_weights"]]}),
    "masked labels": Training(NEMO, {"masked": True}),
    "every step skipped": Training(NEMO, {"steps": [[0, 99, "skip"]]}),
    "small faults": Training(
        (*NEMO[:-1], "14", "--window", "4-14"), {"steps": SMALL, "end": ["remove", "configs/final.json"]}
    ),
    "flipped bit": Training(
        (*NEMO, *TWO, "--verify-compute"), {"flips": {"seed": 1, "count": 1, "kinds": ["weight"], "last": True}}
    ),
    "other weights": Training(
        (*NEMO, *TWO, "--verify-compute"), {"flips": {"seed": 1, "count": 1, "kinds": ["peer"], "last": True}}
    ),
    "killed": Training(NEMO, {"steps": [[4, 4, "kill"]]}),
    "one of two killed": Training((*NEMO, *TWO), {"steps": [[4, 4, "kill", "1"]]}),
    "a rank too few": Training((*NEMO, *TWO), {"environment": OWN_RANKS}),
    "ranks by themselves": Training(
        (*NEMO, *TWO), {"environment": OWN_RANKS, "spec": {"gpus": 1, "parallelism.dp": 1}}
    ),
    "half of the steps": Training(NEMO, {"steps": [[2, 2, "copy", "{result}", "result.json"], [4, 4, "leave"]]}),
    "restart": Training(NEMO, {"steps": [[4, 4, "restart"]]}),
    "second writer": Training(NEMO, {"steps": [[2, 99, "second_writer", "{log}"]]}),
    "no last line": Training(NEMO, {"end": ["leave"]}),
    "exception at the end": Training(NEMO, {"end": ["fail"]}),
    "no memory at the end": Training(NEMO, {"end": ["exhaust"]}),
    "segmentation fault at the end": Training(NEMO, {"end": ["segfault"]}),
    "another configuration": Training(NEMO, {"end": ["copy", "{other_final}", "configs/final.json"]}),
    "fast clock": Training(NEMO, {"clock": 100.0, "steps": [[0, 99, "sleep", 0.3]]}),  # lines that are read one by one
    "slow clock": Training(
        (*NEMO, "--window", "2-8"), {"clock": 0.05, "steps": [[0, 99, "sleep", 0.8]]}
    ),
    "MaxText: another model": Training(MAXTEXT, {"arguments": OTHER_MODEL_MAXTEXT}),
    "MaxText: half the batch": Training(MAXTEXT, {"arguments": ["per_device_batch_size=1", "learning_rate=0.0"]}),
    "MaxText: NaN": Training(MAXTEXT, {"steps": [[5, 5, "nan_loss"]]}),
    "MaxText: one device of two": Training(
        (*MAXTEXT, *TWO), {"environment": {"XLA_FLAGS": ONE_DEVICE}, "arguments": ["ici_fsdp_parallelism=1"]}
    ),
    "MaxText: no GPU": Training(
        (*MAXTEXT, "--size", "mini", "--gpu-type", "h100", "--gpus", "1", "--runtime", "host", "--launcher", "local"),
        {"arguments": ["hardware=cpu", "skip_jax_distributed_system=true"], "environment": {"JAX_PLATFORMS": "cpu"}},
        host=True,
    ),
    "throttled half": Training(
        (*NEMO[:-1], "30", "--window", "7-30"), {"steps": [[18, 30, "sleep", 0.4]]}
    ),
}  # fmt: skip

FAULTS: dict[str, RealFault] = {
    "half the batch": RealFault("another batch", "batch"),
    "half the samples consumed": RealFault("another batch", "consumed-samples"),
    "half the batch configured": RealFault("another batch", "stated-batch"),
    "half the layers": RealFault("another model", "layers"),
    "half the width": RealFault("another model", "hidden-size"),
    "half the heads": RealFault("another model", "shape"),
    "half the sequence": RealFault("another model", "sequence"),
    "half the vocabulary": RealFault("another model", "vocabulary"),
    "another micro batch": RealFault("another batch", "micro-batch"),
    "bf16 instead of fp32": RealFault("another batch", "dtype"),
    "more steps than asked for": RealFault("no learning rate", "steps"),
    "a learning rate of 0": RealFault("no learning rate", "rate-zero"),
    "a weight becomes NaN": RealFault("NaN", "loss-not-finite"),
    "a NaN gradient at the end": RealFault("NaN", "gradient-last"),
    "masked labels": RealFault("masked labels", "loss-missing"),
    "all gradients 0": RealFault("masked labels", "gradient-zero"),
    "every step skipped": RealFault("every step skipped", "all-skipped"),
    "two steps skipped": RealFault("small faults", "some-skipped", "warning"),
    "a line of another training": RealFault("small faults", "step-twice", "warning"),
    "a flipped bit in a weight": RealFault("flipped bit", "verify-compute", says="computed step 8 twice"),
    "a flipped bit in the weights of one of two ranks": RealFault(
        "other weights", "verify-compute", says="ranks 0-1 on "
    ),
    "a rank killed": RealFault("killed", says="Killed", exit_code=137),
    "one rank of two killed": RealFault("one of two killed", exit_code=137),
    "a rank that is not started": RealFault("a rank too few", says="1 ranks were started for 2 GPUs", exit_code=2),
    "two ranks that train by themselves": RealFault("ranks by themselves", "ranks"),
    "exit code 0 after half of the steps": RealFault("half of the steps", says="after step 4, before the last of 8"),
    "a restart inside the attempt": RealFault("restart", "restarted"),
    "a second writer": RealFault("second writer", "two-writers"),
    "an end before the last line": RealFault("no last line", "last-line", "failed"),
    "an exception after the last step": RealFault("exception at the end", "crash-at-end", "failed"),
    "out of memory after the last step": RealFault("no memory at the end", "crash-at-end", "failed"),
    "a segmentation fault after the last step": RealFault(
        "segmentation fault at the end", effect="failed", says="after the last step", exit_code=139
    ),
    "no final configuration": RealFault("small faults", effect="not comparable", says="not verified"),
    "the final configuration of another run": RealFault("another configuration", "layers"),
    "a result.json that the job wrote": RealFault("small faults", effect="warning", says="that llmbx did not write"),
    "times a hundred times as long as they were": RealFault("fast clock", "clock-short"),
    "times a twentieth of what they were": RealFault("slow clock", "clock-long"),
    "a step of 8 s": RealFault("small faults", effect="not stable", says=" 5 (", at_least_s=8.0),
    "half of the window throttled": RealFault("throttled half", effect="not stable"),
    "MaxText: half the layers": RealFault("MaxText: another model", "layers"),
    "MaxText: half the width": RealFault("MaxText: another model", "hidden-size"),
    "MaxText: half the feed-forward width": RealFault("MaxText: another model", "shape"),
    "MaxText: half the sequence": RealFault("MaxText: another model", "sequence"),
    "MaxText: half the vocabulary": RealFault("MaxText: another model", "vocabulary"),
    "MaxText: bf16 instead of fp32": RealFault("MaxText: another model", "dtype"),
    "MaxText: two forward passes per step": RealFault("MaxText: another model", "micro-batch"),
    "MaxText: half the tokens": RealFault("MaxText: half the batch", "tokens"),
    "MaxText: half the batch configured": RealFault("MaxText: half the batch", "stated-batch"),
    "MaxText: a constant loss": RealFault("MaxText: half the batch", "loss-constant"),
    "MaxText: a NaN loss": RealFault("MaxText: NaN", "loss-not-finite", exit_code=1),
    "MaxText: one device of two": RealFault("MaxText: one device of two", "ranks"),
    "MaxText: a CPU instead of H100": RealFault("MaxText: no GPU", "backend", "not comparable"),
}
