"""Resolving a request with configuration files and environment, for the workload of the toy plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from llmbx.config.profiles import Cluster, Config
from llmbx.config.request import Request
from llmbx.errors import UsageError
from llmbx.model import RANK_VARIABLES, RunSpec
from llmbx.plugins.manager import load
from llmbx.resolve import resolve


def spec(workload: str = "line", environ: Mapping[str, str] | None = None, **asked: Any) -> RunSpec:
    """Resolve a request; `cluster` has the members of the default cluster profile."""
    cluster = Cluster(**asked.pop("cluster", {}))
    config = Config(default_cluster="c", clusters={"c": cluster})
    return resolve(Request(workload=workload, **asked), load(), config, {"c": "llmbx.toml"}, environ or {})


@pytest.mark.parametrize(("key", "typed"), [("line", "fit_line"), ("line", "line"), ("fit_line", "line")])
def test_a_profiles_time_limit_applies_to_a_workload_and_its_aliases(key: str, typed: str) -> None:
    limits = {"default": 60, "other": 10, key: 5}
    assert spec(typed, cluster={"walltime_minutes": limits}).walltime_minutes == 5


def test_false_values_of_a_profile_are_omitted_from_srun_and_sbatch() -> None:
    options = {"overlap": False, "exact": True, "wait": 0, "mpi": "none"}
    flat = spec(cluster={"plugin_keys": {"srun": options, "sbatch": options}}).plugin_settings
    own = spec(cluster={"plugin_keys": {"slurm": {"srun": options, "sbatch": options}}}).plugin_settings
    left = {"exact": "", "wait": "0", "mpi": "none"}
    assert flat == own == {"slurm": {"srun": left, "sbatch": left}}


@pytest.mark.parametrize("asked", [{}, {"size": "mini"}, {"gpu_type": "h100"}, {"gpu_type": "h100", "gpus": 3}])
def test_an_unknown_recipe_is_reported_first(asked: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"line has no recipe 'plane' \(did you mean 'plain'\?\)"):
        spec(recipe="plane", **asked)


@pytest.mark.parametrize(
    ("asked", "environ", "origin"), [({"gpu_type": "h200"}, {}, "--gpu-type"), ({}, {"GPU_TYPE": "H200"}, "GPU_TYPE")]
)
def test_a_profile_of_other_gpus_than_the_requested_ones_is_an_error(
    asked: dict[str, Any], environ: dict[str, str], origin: str
) -> None:
    """A job for another cluster would be submitted, or compared with the wrong peak."""
    with pytest.raises(UsageError) as refused:
        spec(environ=environ, cluster={"gpu_type": "h100"}, **asked)
    assert str(refused.value).startswith(f"{origin} h200, but the cluster 'c' in llmbx.toml has gpu_type h100: ")
    for cluster in ({"gpu_type": "H200"}, {}):  # accepted: what is missing now is a configuration of this workload
        with pytest.raises(UsageError, match=r"^line mini has no configuration for h200"):
            spec(environ=environ, size="mini", cluster=cluster, **asked)
    assert spec(gpu_type="cpu", cluster={"gpu_type": "h100"}).gpu_type == "cpu", "every cluster has CPUs"


@pytest.mark.parametrize("name", RANK_VARIABLES)
def test_rank_variables_cannot_be_exported(name: str) -> None:
    with pytest.raises(UsageError, match=f"^--env: {name} is reserved: llmbx or the launcher sets it for every rank"):
        spec(env={name: "3"})
    with pytest.raises(UsageError, match=f"^cluster 'c' in llmbx.toml: {name} is reserved"):
        spec(cluster={"env": {name: "3"}})
