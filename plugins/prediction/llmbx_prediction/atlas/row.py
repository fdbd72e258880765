"""One published figure, with the configuration it was measured in."""

from __future__ import annotations

from typing import Literal

from llmbx.api import UsageError, Value

from ..case import Case, Recompute, Task
from ..cost.model import Model, find
from ..cost.roofline import model_flops

DROPPED_SINCE = 2025.3
"""From this date (25.04) on recipes of NeMo 2 for models with experts drop tokens: dgxc-benchmarking v25.05.02, grok1,
and v25.05.04, llama4."""
OWN = "own"
"""The release of the user's own figures."""
HELD_OUT = "held out"
"""Note of a figure that predictions are measured with, and never learn from."""
OTHERWISE = ("functional", "known regression", HELD_OUT)
"""Notes of figures that predictions do not learn from: runs that only test a function, releases whose source calls its
figure a known regression, and what is held out."""


class Row(Value, frozen=True, kw_only=True):
    """One published configuration with its figures. Unknown is None.

    `source` and `release` say who printed it and in which release, `place` where. `when` is the date of the release in
    years. `layers` is set if the model has another number of layers than the one it is named after. The figures are
    `step_time_s`, `tokens_per_s_per_gpu` and `memory_gb` (peak, 10^9 bytes); `printed_tflops` is TFLOP/s per GPU in the
    source's own convention, `printed_convention` names it. `runs` is the number of runs behind the figure, `minutes`
    the time to train of MLPerf. `assumed` lists fields that the source does not print.
    """

    source: str
    release: str
    when: float
    place: str
    stack: str
    model: str
    gpu_type: str
    gpus: int
    organization: str = ""
    task: Task = "pretrain"
    layers: int | None = None
    dtype: str | None = None
    gbs: int | None = None
    mbs: int | None = None
    seq: int | None = None
    tp: int | None = None
    pp: int | None = None
    cp: int | None = None
    ep: int | None = None
    etp: int | None = None
    vp: int | None = None
    fsdp: bool | None = None
    token_drop: bool | None = None
    recompute: Recompute = "none"
    step_time_s: float | None = None
    tokens_per_s_per_gpu: float | None = None
    printed_tflops: float | None = None
    printed_convention: Literal["full", "causal", "parameters"] | None = None
    memory_gb: float | None = None
    minutes: float | None = None
    runs: int = 1
    assumed: str = ""
    note: str = ""

    @property
    def is_benchmark(self) -> bool:
        """Whether predictions learn from the figure as one that shows the speed of its configuration."""
        return self.note not in OTHERWISE

    def shape(self) -> Model:
        """The model of the row with its number of layers. Raises `UsageError` if the model is not in the table."""
        model = find(self.model)
        return model if self.layers is None else model.replace(layers=self.layers)

    def case(self) -> Case | None:
        """The configuration, or None if dtype, batch size or sequence length is unknown."""
        if self.dtype is None or not self.gbs or not self.seq:
            return None
        names = ("mbs", "tp", "pp", "cp", "ep", "etp", "vp", "fsdp")
        set_ = {name: value for name in names if (value := getattr(self, name)) is not None}
        return Case(model=self.shape(), gpu_type=self.gpu_type, gpus=self.gpus, dtype=self.dtype, gbs=self.gbs,
                    seq=self.seq, recompute=self.recompute, task=self.task, stack=self.stack, when=self.when,
                    token_drop=self._drops_tokens(),
                    release=self.release, **set_)  # fmt: skip

    def _drops_tokens(self) -> bool:
        """As the row says; if it does not, as the recipes of its time for this framework do."""
        recipes = self.stack == "nemo2" and self.when > DROPPED_SINCE and self.shape().experts > 0
        return recipes if self.token_drop is None else self.token_drop

    def tflops_per_gpu(self) -> float | None:
        """Model TFLOP/s per GPU by the formula of this package with causal attention; None if it cannot be computed."""
        try:
            case = self.case() if self.dtype else self.replace(dtype="bf16").case()
        except UsageError:
            return None
        if case is None or self.tokens_per_s_per_gpu is None:
            return None
        return self.tokens_per_s_per_gpu * model_flops(case) / 1e12
