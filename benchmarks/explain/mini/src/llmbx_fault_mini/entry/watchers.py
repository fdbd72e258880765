"""Other tools that watch the same training: traceml-ai and the straggler report of nvidia-resiliency-ext."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from llmbx.entry.rank import Rank

Loading = contextlib.AbstractContextManager[Any]
FIRST = 10
"""The first step that counts."""


class Watchers:
    """Each begins with the training and sees its steps; without settings there are none."""

    def __init__(self, settings: dict[str, Any], this: Rank, address: str) -> None:
        self.this, self.number, self.traceml, self.nvrx = this, 0, None, None
        if "traceml" in settings:
            world, local = str(this.world), str(this.number)
            os.environ |= {"RANK": local, "WORLD_SIZE": world, "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": world}
            traceml_ai = importlib.import_module("traceml_ai")
            host = {"aggregator_host": address, "aggregator_port": settings["port"]}
            traceml_ai.init(mode="auto", session_id=settings["session"], logs_dir=settings["logs"], **host)
            self.traceml = traceml_ai
        if "nvrx" in settings:
            self.nvrx = straggler_report()

    def begin(self, training: Any) -> None:
        """Let NVRx see the passes and the optimizer; the ranks must be connected."""
        if self.nvrx is not None:
            scores = ["relative_perf_scores", "individual_perf_scores"]
            self.nvrx.Detector.initialize(scores_to_compute=scores, gather_on_rank0=True)
            callables = [(torch.Tensor, "backward"), (training.optimizer, "step"), (training, "forward")]
            self.nvrx.Detector.wrap_callables([self.nvrx.CallableId(*of) for of in callables])

    @contextlib.contextmanager
    def step(self, model: torch.nn.Module) -> Iterator[None]:
        """Watch a step."""
        if self.nvrx is not None and self.number == FIRST:
            self.nvrx.Detector.generate_report()
        self.number += 1
        with self.traceml.trace_step(model) if self.traceml else contextlib.nullcontext():
            yield

    def loading(self) -> Loading:
        """Watch the loading of data."""
        if self.nvrx is None:
            return contextlib.nullcontext()
        section: Loading = self.nvrx.Detector.detection_section("data", profile_cuda=False)
        return section

    def end(self) -> None:
        """Write what NVRx says; traceml's aggregator does so itself."""
        if self.nvrx is None:
            return
        report = self.nvrx.Detector.generate_report()
        if self.this.first:
            named = report.identify_stragglers()
            answers = {}
            for kind in ("relative", "individual"):
                sections = named[f"straggler_sections_{kind}"]
                answers[kind] = {name: sorted(of.rank for of in ids) for name, ids in sections.items()}
            Path("nvrx.json").write_text(json.dumps(answers))


def straggler_report() -> Any:
    """Return NVRx's package. Without a GPU its calls of CUDA and CUPTI do nothing: sections are by the host's clock."""
    cupti = Path(next(iter(importlib.import_module("nvidia").__path__))) / "cuda_cupti/lib/libcupti.so.12"
    ctypes.CDLL(str(cupti), ctypes.RTLD_GLOBAL)
    straggler = importlib.import_module("nvidia_resiliency_ext.straggler")
    manager = importlib.import_module("nvidia_resiliency_ext.straggler.cupti").CuptiManager

    torch.cuda.synchronize = lambda *_: None
    for name in ("initialize", "start_profiling", "stop_profiling", "get_results", "reset_results"):
        setattr(manager, name, lambda _: {})
    return straggler
