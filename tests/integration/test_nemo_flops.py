"""The FLOPs of the minis, term by term, are the operations that PyTorch counts while Megatron-Bridge trains them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.model import Image
from llmbx_nemo.launch import launch

from .test_nemo_entry import nemo_python, resolved
from .test_nemo_versions import RECIPE, newest_python

__all__ = ["nemo_python", "newest_python"]

HERE = Path(__file__).parent
Llmbx = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize(
    ("workload", "recipe"), [("llama3.1", RECIPE), ("grok1", RECIPE), ("llama4", RECIPE), ("grok1", None)]
)
def test_show_prints_what_a_step_of_the_mini_computes(
    workload: str, recipe: str | None, llmbx: Llmbx, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    chosen = ("--recipe", recipe) if recipe else ()
    shown = llmbx("show", "nemo", workload, "--size", "mini", *chosen, "--flops", "--format", "json")
    terms = {row["part"]: row["full"] for row in json.loads(shown.stdout)}
    spec = resolved(workload, size="mini", steps=1, **({"recipe": recipe} if recipe else {}))
    python = request.getfixturevalue("newest_python" if recipe else "nemo_python")
    found = launch(spec, Image(kind="venv", reference="test", python=python))
    for name, content in found.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    env = {**os.environ, **found.phases[0].env}
    done = subprocess.run(
        [python, str(HERE / "mini_operations.py")], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    modules = json.loads((tmp_path / "operations.json").read_text())
    counted = {name: flops / spec.global_batch_size for name, flops in modules.items()}
    attention = sum(flops for name, flops in counted.items() if name.endswith(".self_attention"))
    assert attention == terms["attention"]
    assert counted["DistributedDataParallel.module.output_layer"] == terms["embedding"]
    # The formula of the recipes has no router: 2 x hidden size x experts for each token, three times for training.
    m = spec.model
    routed = m.layers // m.moe_layer_every if m.experts else 0
    router = 6 * routed * m.hidden_size * (m.experts or 0) * m.sequence_length
    assert counted["Global"] == terms["sum"] + router
