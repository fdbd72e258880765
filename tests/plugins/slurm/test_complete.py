"""Settings of Slurm that depend on the run: the size of segments, `--wait`, the boost slider."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from llmbx.errors import UsageError
from llmbx.model import RunSpec
from llmbx.testing import render_spec, resolve_spec
from llmbx_slurm.complete import segment_size


def resolved(environ: Mapping[str, str] | None = None, **request: Any) -> RunSpec:
    """Llama 3.1 8B on 8 GB200 (2 nodes), started with Slurm."""
    wanted = {"size": "8b", "dtype": "fp8", "gpu_type": "gb200", "gpus": 8, "launcher": "slurm", **request}
    return resolve_spec("llama3.1", environ=environ, **wanted)


def segment(spec: RunSpec) -> tuple[str | None, str | None]:
    value = spec.plugin_settings.get("slurm", {}).get("sbatch", {}).get("segment")
    return value, spec.origins.get("slurm.sbatch.segment")


def options(**values: Any) -> dict[str, Any]:
    return {"plugin_settings": {"slurm": values}}


@pytest.mark.parametrize(
    ("nodes", "size"), [(1, 1), (2, 2), (17, 17), (18, 18), (19, 1), (20, 10), (32, 16), (36, 18), (128, 16), (54, 18)]
)
def test_a_segment_is_the_largest_divisor_that_fits_into_an_nvlink_domain(nodes: int, size: int) -> None:
    assert segment_size(nodes, 18) == size


def test_the_recipe_gives_the_rule_and_the_origin_says_so() -> None:
    value, origin = segment(resolved(gpus=128))
    assert value == "16"
    assert origin == "recipe mbridge: largest divisor of 32 nodes up to the 18 of an NVLink domain"
    assert segment(resolved(gpu_type="h100")) == (None, None)
    assert segment(resolved(launcher="local", gpus=4)) == (None, None)


def test_the_user_overrides_the_recipe() -> None:
    assert segment(resolved(**options(segment="1"))) == ("1", "--slurm-segment")
    assert segment(resolved({"SBATCH_SEGMENT_SIZE": "1"})) == ("1", "SBATCH_SEGMENT_SIZE")
    assert segment(resolved(**options(segment="none"))) == (None, None)
    assert segment(resolved(gpus=16, **options(segment="auto-if-larger"))) == (None, None)
    assert segment(resolved(gpus=128, **options(segment="auto-if-larger")))[0] == "16"


def test_a_profile_has_a_number(tmp_path: Path) -> None:
    file = tmp_path / "llmbx.toml"
    file.write_text("[clusters.eos]\nsegment = 2\n")
    assert segment(resolved({"LLMBX_CONFIG": str(file)}, cluster="eos"))[0] == "2"


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5"])
def test_what_is_no_number_of_nodes_is_rejected(value: str) -> None:
    with pytest.raises(
        UsageError, match=rf"segment={value} \(--slurm-segment\): expected a number of nodes, none, auto"
    ):
        resolved(**options(segment=value))


def test_auto_needs_nvlink_between_nodes() -> None:
    with pytest.raises(UsageError, match="h100 nodes are not connected by NVLink; set a number"):
        resolved(gpu_type="h100", **options(segment="auto"))


def test_a_gpu_type_of_the_user_may_have_an_nvlink_domain(tmp_path: Path) -> None:
    file = tmp_path / "llmbx.toml"
    file.write_text("[gpus.gb200]\nnvlink_domain_nodes = 4\n")
    assert segment(resolved({"LLMBX_CONFIG": str(file)}, gpus=32))[0] == "4"


def step(spec: RunSpec) -> str:
    """The srun command of the training."""
    script = render_spec(spec.replace(runtime="pyxis")).script
    return script[script.index("rank_train() {") :].partition("}")[0]


def test_srun_waits_as_upstreams_does_but_never_cuts_off_a_profile(tmp_path: Path) -> None:
    assert "--wait=60" in step(resolved())
    assert "--wait" not in step(resolved(profile=True))
    file = tmp_path / "llmbx.toml"
    file.write_text("[clusters.eos.slurm.srun]\nwait = 7\n")
    known = {"LLMBX_CONFIG": str(file)}
    assert "--wait=7" in step(resolved(known, cluster="eos"))
    assert "--wait=7" in step(resolved(known, cluster="eos", profile=True))


def test_the_boost_slider_is_the_recipes_and_can_be_left_alone() -> None:
    older = {"gpu_type": "h100", "recipe": "nemo2"}
    spec = resolved(**older)
    assert (spec.plugin_settings["slurm"]["vboost"], spec.origins["slurm.vboost"]) == (1, "recipe nemo2")
    assert "set_vboost 1 1\n" in render_spec(spec.replace(runtime="pyxis")).script
    off = resolved(**older, **options(vboost=0))
    assert "boost-slider" not in render_spec(off.replace(runtime="pyxis")).script
    assert "boost-slider" not in render_spec(resolved().replace(runtime="pyxis")).script
    with pytest.raises(UsageError, match=r"vboost=-1 \(--slurm-vboost\): expected 0 or more"):
        resolved(**options(vboost=-1))
