"""Slurm settings: the forms of sbatch options in a profile, and conflicts between the user's sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from llmbx.api import settings_of
from llmbx.config.plugin_settings import join
from llmbx.config.profiles import Cluster, Profile
from llmbx.errors import UsageError
from llmbx.testing import resolve_spec
from llmbx_slurm.launcher import SlurmLauncher
from llmbx_slurm.settings import SlurmSettings, sbatch_options

from ...core.launchers.conftest import make_spec


def profile(**keys: Any) -> Profile:
    return Profile(name="c", file="llmbx.toml", cluster=Cluster(plugin_keys=keys))


@pytest.mark.parametrize(
    "keys",
    [
        {"partition": "p", "sbatch": {"gpus-per-node": 8, "exclusive": True, "hold": False}},
        {"slurm": {"partition": "p", "sbatch": {"gpus_per_node": "8", "exclusive": True}}},
        {"slurm": {"partition": "p", "gpus-per-node": 8, "exclusive": True, "hold": False}},
    ],
)
def test_an_option_of_sbatch_has_several_spellings(keys: dict[str, Any]) -> None:
    found = join(SlurmSettings, profile(**keys), {}, {})
    assert found.values == {"sbatch": {"partition": "p", "gpus-per-node": "8", "exclusive": ""}}
    assert set(found.origins) >= {"sbatch.partition", "sbatch.gpus-per-node", "sbatch.exclusive"}


def test_nodes_are_a_text_or_a_list_of_names() -> None:
    for keys in ({"nodelist": ["n1", "n2"]}, {"slurm": {"sbatch": {"nodelist": ["n1", "n2"]}}}):
        assert join(SlurmSettings, profile(**keys), {}, {}).values == {"sbatch": {"nodelist": "n1,n2"}}
    assert join(SlurmSettings, None, {}, {"exclude": ["n3"]}).values == {"sbatch": {"exclude": "n3"}}
    for wrong in ([], ["n1", 2]):
        with pytest.raises(UsageError, match="nodelist: expected a list of names of nodes"):
            join(SlurmSettings, None, {}, {"nodelist": wrong})
    with pytest.raises(UsageError, match="partition: expected a text"):
        join(SlurmSettings, None, {}, {"partition": ["p"]})


def test_false_values_of_a_profile_are_omitted_from_srun_and_sbatch() -> None:
    options = {"overlap": False, "exact": True, "wait": 0, "mpi": "none"}
    flat = join(SlurmSettings, profile(srun=options, sbatch=options), {}, {}).values
    table = join(SlurmSettings, profile(slurm={"srun": options, "sbatch": options}), {}, {}).values
    kept = {"exact": "", "wait": "0", "mpi": "none"}
    assert flat == table == {"srun": kept, "sbatch": kept}


def test_the_users_own_ways_must_not_contradict_each_other() -> None:
    environ = {"SBATCH_PARTITION": "a", "ADDITIONAL_SLURM_PARAMS": "partition=a"}
    assert join(SlurmSettings, None, environ, {"partition": "a"}).values == {"sbatch": {"partition": "a"}}
    with pytest.raises(UsageError, match="partition: SBATCH_PARTITION sets 'a', but ADDITIONAL_SLURM_PARAMS sets 'b'"):
        join(SlurmSettings, None, {**environ, "ADDITIONAL_SLURM_PARAMS": "partition=b"}, {})
    with pytest.raises(UsageError, match="partition: ADDITIONAL_SLURM_PARAMS sets 'a', but --slurm-partition sets 'c'"):
        join(SlurmSettings, None, environ, {"partition": "c"})


def test_gpus_per_node_go_to_sbatch_where_the_profile_asks_for_it() -> None:
    spec = make_spec(gpus=16, gpus_per_node=4)
    flagged = spec.replace(plugin_settings={"slurm": {"gpus_per_node_flag": True}})
    assert sbatch_options(flagged) == {"gpus-per-node": "4"} and sbatch_options(spec) == {}


def test_the_next_attempt_leaves_the_node_out() -> None:
    launcher, spec = SlurmLauncher(), make_spec(sbatch={"exclude": "n1"})
    without = launcher.without_node(spec, "n2")
    assert without is not None and sbatch_options(without)["exclude"] == "n1,n2"
    assert without.origins["slurm.sbatch.exclude"] == "n2 left out by llmbx"
    assert launcher.without_node(make_spec(sbatch={"nodelist": "n1,n2"}), "n2") is None


def test_the_node_check_is_the_default_of_large_jobs(tmp_path: Path) -> None:
    def checks(gpus: int, environ: dict[str, str] | None = None, **options: Any) -> tuple[Any, str | None]:
        spec = resolve_spec(
            "llama3.1", plugin="nemo", size="405b", gpu_type="h100", dtype="bf16", gpus=gpus, environ=environ, **options
        )
        return settings_of(spec, SlurmSettings).preflight, spec.origins.get("slurm.preflight")

    no, yes = {"slurm": {"preflight": False}}, {"slurm": {"preflight": True}}
    assert checks(8) == (None, None) and checks(16) == (True, "the run has several nodes")
    assert checks(16, plugin_settings=no) == (False, "--preflight")
    assert checks(8, launcher="slurm", plugin_settings=yes) == (True, "--preflight")
    (tmp_path / "llmbx.toml").write_text('default_cluster = "c"\n[clusters.c]\npreflight = true\n')
    environ = {"LLMBX_CONFIG": str(tmp_path / "llmbx.toml")}
    assert checks(8, environ)[0] is True and str(checks(8, environ)[1]).startswith("cluster 'c' in ")
    assert checks(8, environ, launcher="local")[0] is True, "a profile's default is harmless on another launcher"
    assert checks(128, launcher="local") == (None, None)
    said = r"^--preflight is an option of slurm, but the launcher is local: add --launcher slurm$"
    with pytest.raises(UsageError, match=said):
        checks(8, launcher="local", plugin_settings=yes)
    with pytest.raises(UsageError, match=r"^--slurm-partition is an option of slurm, but the launcher is local"):
        checks(64, launcher="local", plugin_settings={"slurm": {"partition": "batch"}})
