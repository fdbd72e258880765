"""The FLOPs of MaxText's minis, term by term, are the matrix products in the jaxpr of its training step."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.model import Image, RunSpec
from llmbx.testing import resolve_spec
from llmbx_maxtext.configuration import phases
from llmbx_maxtext.flops import compute
from llmbx_maxtext.launch import launch
from llmbx_maxtext.releases import release_of
from llmbx_maxtext.workloads import workloads

from .test_maxtext_entry import maxtext_python, resolved

__all__ = ["maxtext_python"]

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
Llmbx = Callable[..., subprocess.CompletedProcess[str]]

SCORES = ("btkgd,bskd->bkgts", "bkgts,bskd->btkgd")
EXPERTS = ("wi_0/EBCM,EMH -> EBCH", "wi_1/EBCM,EMH -> EBCH", "wo/EBCH,EHM -> EBCM")
ENDS = ("jvp()", "transpose(jvp())")
"""Products outside of the layers: those of the logits, and of the embedding's table with one-hot tokens."""
ROUTING = ("dispatch/BSM,BSEC -> EBCM", "combine/EBCM,BSEC -> BSM")
"""The products by which tokens get to the slots of their experts and back; the formula has none."""
LAYERS = ""
"""Every other product of the layers: projections, dense feed-forward parts and the router."""


def kind(name: str) -> str:
    """The term of a product by the name that JAX gives it."""
    if name.startswith("rematted_computation"):
        return "recomputed"
    if "...k,k->...k" in name:
        return "scales"  # of the norms: a product for each number
    terms = {"scores": SCORES, "experts": EXPERTS, "ends": ENDS, "routing": ROUTING, "layers": (LAYERS,)}
    return next(term for term, names in terms.items() if name in names)


@pytest.fixture
def counted(maxtext_python: str, tmp_path: Path) -> Callable[..., Counter[str]]:
    """`counted(spec)`: operations of one sample, by term."""

    def count(spec: RunSpec) -> Counter[str]:
        found = launch(spec, Image(kind="venv", reference="test", python=maxtext_python))
        for name, content in found.files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(content)
        (phase,) = found.phases
        argv = [maxtext_python, str(HERE / "mini_dot_products.py"), *phase.argv[2:]]
        done = subprocess.run(
            argv, cwd=tmp_path, env={**os.environ, **phase.env}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        sums: Counter[str] = Counter()
        for name, flops in json.loads((tmp_path / "operations.json").read_text()):
            sums[kind(name)] += flops / spec.global_batch_size
        return sums

    return count


@pytest.mark.parametrize("workload", ["llama2", "mixtral"])
def test_show_prints_what_a_step_of_the_mini_computes(
    workload: str, llmbx: Llmbx, counted: Callable[..., Counter[str]], tmp_path: Path
) -> None:
    shown = llmbx("show", "maxtext", workload, "--size", "mini", "--flops", "--format", "json")
    terms = {row["part"]: row["full"] for row in json.loads(shown.stdout)}
    spec = resolved(workload, tmp_path, size="mini", steps=1)
    sums, m = counted(spec), spec.model
    lookup = 2 * 2 * m.sequence_length * m.vocab_size * m.hidden_size
    assert sums["ends"] - lookup == terms["embedding"]
    layers = sums["layers"] + sums["scores"]
    if not m.experts:
        assert layers == terms["attention"] + terms["mlp"]
        return
    assert layers == terms["attention"] + terms["router"]
    # Each expert has a number of slots, of which some stay empty: the products of all of them are computed.
    assert sums["experts"] == terms["mlp"] * spec.settings["capacity_factor"]


OWN = """
import json, sys
from llmbx_maxtext.entry import configure
module, utils, base = configure.of_package("maxtext")
utils.maybe_initialize_jax_distributed_system = lambda *_, **__: None
utils.get_num_slices = lambda *_, **__: 2
from maxtext.utils.maxtext_utils import calculate_tflops_training_per_device
for name, words in json.load(sys.stdin).items():
    config = module.initialize(["train", str(base), *words])
    tera, *_ = calculate_tflops_training_per_device(config, log=False)
    print("own", name, repr(tera * 1e12 / config.per_device_batch_size))
"""


def test_maxtexts_own_formula_gives_the_same(maxtext_python: str) -> None:
    """Every mini and every full size: MaxText 0.2 counts the causal convention, with the router."""
    sizes = [(workload.name, size) for workload in workloads() for size in workload.sizes if size != "70b-1gpu"]
    specs = {f"{name}/{size}": of_size(name, size) for name, size in sizes}
    words = {name: phases(spec, release_of(spec))[""] for name, spec in specs.items()}
    environment = {"JAX_PLATFORMS": "cpu", "DECOUPLE_GCLOUD": "TRUE", "HF_HUB_OFFLINE": "1"}
    environment |= {"PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("core", "plugins/maxtext"))}
    done = subprocess.run(
        [maxtext_python, "-c", OWN], input=json.dumps(words), env={**os.environ, **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("own ")]
    own = {name: float(flops) for _, name, flops in lines}
    assert own == pytest.approx({name: compute(spec.model).causal for name, spec in specs.items()}, rel=1e-9)
    assert len(own) == 14


def of_size(name: str, size: str) -> RunSpec:
    """A run of a size of a workload with MaxText 0.2, on one GPU: the mesh has no part in the FLOPs."""
    settings = {"maxtext": "0.2", "pgle": "off"}
    return resolve_spec(name, plugin="maxtext", size=size, dtype="bf16", gpu_type="h100", gpus=1, settings=settings)
