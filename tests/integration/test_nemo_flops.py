"""The FLOPs of the minis, term by term, are the operations that PyTorch counts while Megatron-Bridge trains them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.model import Image, RunSpec
from llmbx_nemo.launch import launch

from .test_nemo_entry import nemo_python, resolved
from .test_nemo_versions import RECIPE, newest_python

__all__ = ["nemo_python", "newest_python"]

HERE = Path(__file__).parent
Llmbx = Callable[..., subprocess.CompletedProcess[str]]


def operations(workload: str, recipe: str | None, python: str, folder: Path) -> tuple[RunSpec, dict[str, float]]:
    """What PyTorch counts for one sample, by module, while one step of the mini is trained in `folder`."""
    spec = resolved(workload, size="mini", steps=1, **({"recipe": recipe} if recipe else {}))
    found = launch(spec, Image(kind="venv", reference="test", python=python))
    for name, content in found.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    env = {**os.environ, **found.phases[0].env, "LLMBX_MASTER_PORT": port}
    done = subprocess.run(
        [python, str(HERE / "mini_operations.py")], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    modules = json.loads((folder / "operations.json").read_text())
    return spec, {name: flops / spec.global_batch_size for name, flops in modules.items()}


def shown_terms(llmbx: Llmbx, workload: str, *chosen: str) -> dict[str, float]:
    """The terms that `show --flops` prints for a mini, under the full convention."""
    shown = llmbx("show", "nemo", workload, "--size", "mini", *chosen, "--flops", "--format", "json")
    return {row["part"]: row["full"] for row in json.loads(shown.stdout)}


@pytest.mark.parametrize(
    ("workload", "recipe"), [("llama3.1", RECIPE), ("grok1", RECIPE), ("llama4", RECIPE), ("grok1", None)]
)
def test_show_prints_what_a_step_of_the_mini_computes(
    workload: str, recipe: str | None, llmbx: Llmbx, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    terms = shown_terms(llmbx, workload, *(("--recipe", recipe) if recipe else ()))
    python = request.getfixturevalue("newest_python" if recipe else "nemo_python")
    spec, counted = operations(workload, recipe, python, tmp_path)
    attention = sum(flops for name, flops in counted.items() if name.endswith(".self_attention"))
    assert attention == terms["attention"]
    assert counted["DistributedDataParallel.module.output_layer"] == terms["embedding"]
    # The formula of the recipes has no router: 2 x hidden size x experts for each token, three times for training.
    m = spec.model
    routed = m.layers // m.moe_layer_every if m.experts else 0
    router = 6 * routed * m.hidden_size * (m.experts or 0) * m.sequence_length
    assert counted["Global"] == terms["sum"] + router


@pytest.mark.parametrize("workload", ["deepseek-v3", "kimi-k2", "qwen3", "gpt-oss"])
def test_the_sum_over_the_layers_is_what_a_step_computes(
    workload: str, llmbx: Llmbx, newest_python: str, tmp_path: Path
) -> None:
    terms = shown_terms(llmbx, workload)
    spec, counted = operations(workload, None, newest_python, tmp_path)
    m = spec.model
    # Megatron's own attention computes every pair of positions, and masks those outside of the window afterwards.
    masked = (m.windowed_layers or 0) * m.sequence_length * (m.sequence_length - (m.attention_window or 0))
    unseen = 3 * 4 * masked * m.heads * (m.head_width or 0)
    assert counted["Global"] == terms["sum"] + unseen
    kinds = ("attention", "windowed attention", "latent attention")
    attention = sum(flops for name, flops in counted.items() if name.endswith(".self_attention"))
    assert attention == sum(terms.get(kind, 0) for kind in kinds) + unseen
