"""The parts of the NeMo 2 driver that do not need NeMo: the fields that the specification sets in the recipe."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from llmbx.testing import resolve_spec
from llmbx_nemo.entry import nemo2_cpu, nemo2_recipe
from llmbx_nemo.entry.config import ConfigError

STRATEGY = "trainer.strategy"


def plain(workload: str, **options: Any) -> dict[str, Any]:
    """A specification as a rank reads it."""
    all_options = {"recipe": "nemo2", "launcher": "slurm", "gpu_type": "h100", **options}
    return dict(msgspec.to_builtins(resolve_spec(workload, **all_options)))


@pytest.mark.parametrize(
    ("workload", "size", "dtype", "gpus", "pp", "vp", "overlapped"),
    [("llama3.1", "405b", "fp8", 512, 8, 8, True), ("llama3.1", "8b", "bf16", 8, 1, None, False),
     ("grok1", "314b", "fp8", 512, 8, 8, True), ("llama4", "400b", "bf16", 512, 1, None, False)],
)  # fmt: skip
def test_the_strategy_gets_the_parallelism(
    workload: str, size: str, dtype: str, gpus: int, pp: int, vp: int | None, overlapped: bool
) -> None:
    fields = nemo2_recipe.specified(plain(workload, size=size, dtype=dtype, gpus=gpus))
    assert fields[f"{STRATEGY}.pipeline_model_parallel_size"] == pp
    assert fields[f"{STRATEGY}.virtual_pipeline_model_parallel_size"] == vp
    assert fields[f"{nemo2_recipe.OVERLAP}.overlap_param_gather_with_optimizer_step"] is overlapped
    assert (fields["trainer.num_nodes"], fields["trainer.devices"]) == (gpus // 8, 8)


def test_a_checkpoint_disables_the_overlap_with_the_optimizer_step() -> None:
    options = {"size": "405b", "dtype": "fp8", "gpus": 1024}
    saving = plain("llama3.1", **options, environ={"ENABLE_CHECKPOINT": "true"})
    fields = nemo2_recipe.specified(saving) | nemo2_recipe.run_fields(saving)
    assert fields[f"{nemo2_recipe.OVERLAP}.overlap_param_gather_with_optimizer_step"] is False
    assert fields["trainer.enable_checkpointing"] is True
    assert nemo2_recipe.run_fields(plain("llama3.1", **options))["trainer.enable_checkpointing"] is False


def test_only_what_the_user_set_replaces_the_recipes_value() -> None:
    row = {"size": "314b", "dtype": "bf16", "gpu_type": "gb200", "gpus": 128}
    assert nemo2_recipe.user_settings(plain("grok1", **row)) == {}
    assert nemo2_recipe.user_settings(plain("grok1", **row, settings={"lr": "1e-5"})) == {"optim.config.lr": 1e-5}
    option = {"nemo": {"lr": 1e-5}}
    assert nemo2_recipe.user_settings(plain("grok1", **row, plugin_settings=option)) == {"optim.config.lr": 1e-5}
    with pytest.raises(ConfigError, match="do not support --set attention, distributed_timeout_minutes: leave it out"):
        settings = {"attention": "sdpa", "distributed_timeout_minutes": "3"}
        nemo2_recipe.user_settings(plain("grok1", **row, settings=settings))


def recipe() -> Any:
    """Something with the attributes of a recipe that are options for here."""

    class MegatronCommOverlapCallback:
        pass

    overlap = SimpleNamespace(__fn_or_cls__=MegatronCommOverlapCallback, tp_comm_overlap=False)
    return SimpleNamespace(trainer=SimpleNamespace(callbacks=[overlap], max_steps=1))


def test_fields_are_set_by_their_path() -> None:
    found = recipe()
    nemo2_recipe.set_field(found, "trainer.max_steps", 7)
    nemo2_recipe.set_field(found, "callbacks.MegatronCommOverlapCallback.tp_comm_overlap", True)
    assert found.trainer.max_steps == 7 and found.trainer.callbacks[0].tp_comm_overlap is True
    nemo2_recipe.remove_callback(found, nemo2_cpu.OVERLAP)
    assert found.trainer.callbacks == []


@pytest.mark.parametrize("name", ["trainer.strategy.fsdp", "callbacks.MegatronTokenDropCallback.factor"])
def test_the_error_names_a_field_that_the_version_lacks(name: str) -> None:
    with pytest.raises(ConfigError, match=f"this NeMo.* has no {name}: use the recipe's image"):
        nemo2_recipe.set_field(recipe(), name, 1)
