"""The NeMo 2 driver, as far as it needs no NeMo: which fields go to the model, and which to the strategy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from llmbx.testing import resolve_spec
from llmbx_nemo.entry import nemo2
from llmbx_nemo.entry.execution import Host
from llmbx_nemo.entry.settings import settings


@dataclass
class Config:
    """Fields of NeMo's model configurations; like theirs it refuses pipeline stages that come without their dtype."""

    num_layers: int = 1
    pipeline_model_parallel_size: int = 1
    virtual_pipeline_model_parallel_size: int | None = None
    tensor_model_parallel_size: int = 1
    account_for_loss_in_pipeline_split: bool = False
    pipeline_dtype: Any = None

    def __post_init__(self) -> None:
        if self.pipeline_model_parallel_size > 1 and self.pipeline_dtype is None:
            raise ValueError("When using pipeline parallelism, pipeline_dtype must be specified")


@pytest.mark.parametrize(
    ("workload", "size", "gpu_type", "gpus", "pp", "vp", "counted"),
    [("llama3.1", "405b", "h100", 512, 8, 8, True), ("llama3.1", "70b", "h100", 64, 8, 5, False),
     ("grok1", "314b", "h100", 512, 8, 8, False), ("llama3.1", "8b", "h100", 8, 1, None, False)],
)  # fmt: skip
def test_parallelism_goes_to_the_strategy_and_not_into_the_models_configuration(
    workload: str, size: str, gpu_type: str, gpus: int, pp: int, vp: int | None, counted: bool
) -> None:
    asked = {"size": size, "dtype": "fp8", "gpu_type": gpu_type, "gpus": gpus, "recipe": "nemo2", "launcher": "slurm"}
    spec = resolve_spec(workload, **asked)
    plain = msgspec.to_builtins(spec)
    fields = settings(plain, Host(cuda=True, te=True, world=gpus))["model"] or {}
    config = nemo2.known(Config, fields)
    assert (config.num_layers, config.pipeline_model_parallel_size) == (spec.model.layers, 1)
    degrees = nemo2.parallel(fields)
    assert (degrees["pipeline_model_parallel_size"], degrees["virtual_pipeline_model_parallel_size"]) == (pp, vp)
    assert degrees["account_for_loss_in_pipeline_split"] is counted
    assert degrees["account_for_embedding_in_pipeline_split"] is counted
