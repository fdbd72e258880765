"""What a request must not contain, whatever else is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from llmbx.errors import UsageError
from llmbx.model import RANK_VARIABLES

from .curves import CLUSTER, resolved


@pytest.mark.parametrize("options", [{}, {"size": "mini"}, {"gpu_type": "h100"}, {"gpu_type": "h100", "gpus": 3}])
def test_an_unknown_recipe_is_reported_first(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"^curve has no recipe 'nwe' \(did you mean 'new'\?\)$"):
        resolved(recipe="nwe", **options)


@pytest.mark.parametrize(
    ("options", "environ", "origin"),
    [({"gpu_type": "h200"}, {}, "--gpu-type"), ({}, {"GPU_TYPE": "H200"}, "GPU_TYPE")],
)
def test_a_profile_of_other_gpus_than_the_requested_ones_is_an_error(
    options: dict[str, Any], environ: dict[str, str], origin: str
) -> None:
    """A job for another cluster would be submitted, or compared with the wrong peak."""
    with pytest.raises(UsageError) as refused:
        resolved(environ, {"gpu_type": "h100"}, **options)
    assert str(refused.value) == (
        f"{origin} h200, but the {CLUSTER} has gpu_type h100: choose a profile of a cluster with h200 "
        "(--cluster NAME), or none (LLMBX_CONFIG=/dev/null)"
    )
    for cluster in ({"gpu_type": "H200"}, {}):
        with pytest.raises(UsageError, match=r"^curve 8b bf16 on h200: add --gpus N"):  # of the layout of h100
            resolved(environ, cluster, size="8b", **options)


def test_every_cluster_has_cpus() -> None:
    assert resolved({}, {"gpu_type": "h100"}, gpu_type="cpu").gpu_type == "cpu"


@pytest.mark.parametrize("name", RANK_VARIABLES)
def test_rank_variables_cannot_be_exported(name: str) -> None:
    with pytest.raises(UsageError, match=f"^--env: {name} is reserved: llmbx or the launcher sets it for every rank"):
        resolved(env={name: "3"})
    with pytest.raises(UsageError, match=f"^{CLUSTER}: {name} is reserved"):
        resolved({}, {"env": {name: "3"}}, gpu_type="cpu")
