"""What runs inside, with the real framework: what Megatron-Bridge makes of every configuration, and single traits."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import llmbx
import llmbx_nemo
from llmbx.catalog.scales import scales
from llmbx.config.profiles import Config
from llmbx.config.request import Request
from llmbx.model import Image, RunSpec
from llmbx.model.layers import Term
from llmbx.plugins.manager import load
from llmbx.resolve import resolve
from llmbx_nemo.launch import launch, request
from llmbx_nemo.workloads import workloads

from ..patience import PATIENCE_S
from .conftest import prepared

HERE = Path(__file__).parent
PLUGIN = Path(llmbx_nemo.__path__[0]).parent
CORE = Path(llmbx.__path__[0]).parent
Start = Callable[..., subprocess.Popen[str]]


def resolved(workload: str, **asked: Any) -> RunSpec:
    return resolve(Request(workload=workload, **asked), load(), Config(), {}, {})


@pytest.fixture(scope="session")
def nemo_python(shared_install: Path) -> str:
    """The interpreter of the CPU environment; LLMBX_TEST_NEMO_PYTHON names one that is there already."""
    given = os.environ.get("LLMBX_TEST_NEMO_PYTHON")
    return given or prepared(request(resolved("grok1")), shared_install).python


@pytest.fixture
def start(nemo_python: str, tmp_path: Path) -> Iterator[Start]:
    """`start(spec)`: one rank of a launch, in a run folder, as the launcher would start it."""
    started: list[subprocess.Popen[str]] = []

    def begin(spec: RunSpec) -> subprocess.Popen[str]:
        found = launch(spec, Image(kind="venv", reference="test", python=nemo_python))
        for name, content in found.files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(content)
        (phase,) = found.phases
        env = {**os.environ, **phase.env, "LLMBX_MASTER_PORT": "0"}  # other tests train beside this one
        process = subprocess.Popen(
            phase.argv, cwd=tmp_path, env=env, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def in_framework(python: str, *argv: str, text: str = "") -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(PLUGIN), str(CORE), str(PLUGIN.parent / "kit")])
    env = {**os.environ, "PYTHONPATH": path, "TORCHDYNAMO_DISABLE": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run([python, *argv], env=env, input=text, capture_output=True, text=True, check=False)


def published() -> list[RunSpec]:
    """Every row of every recipe for GPUs at its smallest scale, as Megatron-Bridge would run it.

    ``bridge-0.5`` and ``bridge-0.6`` start from functions of newer ones: ``test_nemo_upstream.py`` has their values.
    """
    found = []
    for workload in workloads():
        for recipe in workload.recipes:
            for row in recipe.rows:
                if recipe.source == "llmbx" or recipe.name in ("bridge-0.5", "bridge-0.6"):
                    continue
                gpus = scales(row.gpus)[0]
                for gpu_type in row.gpu_types:
                    for dtype in row.dtypes:
                        asked: dict[str, Any] = {"recipe": recipe.name, "size": row.size, "gpu_type": gpu_type}
                        found.append(resolved(workload.name, dtype=dtype, gpus=gpus, **asked))
    return found


def test_megatron_accepts_every_published_row(nemo_python: str) -> None:
    specs = published()
    lines = "\n".join(msgspec.json.encode(spec).decode() for spec in specs)
    done = in_framework(nemo_python, str(HERE / "megatron_accepts.py"), text=lines)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(answers) == len(specs) > 30
    for spec, answer in zip(specs, answers, strict=True):
        assert "error" not in answer, (spec.experiment, answer)
        assert answer["data_parallel_size"] == spec.parallelism.dp
        assert bool(answer["fp8"]) == (spec.dtype == "fp8") and answer["fsdp"] == bool(spec.parallelism.fsdp)
        assert (answer["cuda_graphs"] != "none") == spec.cuda_graphs
        assert answer["overlap_grad_reduce"] == (spec.parallelism.dp > 1)
        assert answer["tp_comm_overlap"] == (spec.parallelism.tp > 1)
    tuned = {spec.size for spec, answer in zip(specs, answers, strict=True) if answer["tuned_buffers"]}
    assert {"405b", "70b"} <= tuned


def test_megatron_refuses_what_cannot_be(nemo_python: str) -> None:
    """The check above would notice: offloading activations does not go with pipeline stages."""
    spec = resolved("llama3.1", size="405b", gpu_type="h100", gpus=1024)
    broken = spec.replace(offload_layers=2)
    done = in_framework(nemo_python, str(HERE / "megatron_accepts.py"), text=msgspec.json.encode(broken).decode())
    assert "no support for Pipeline parallelism with CPU offloading" in json.loads(done.stdout)["error"], done.stderr


def test_megatron_accepts_the_rows_of_one_gpu_without_transformer_engine(nemo_python: str) -> None:
    sizes = {"llama3.1": ("8b-1gpu", "70b-1gpu"), "grok1": ("314b-1gpu",), "llama4": ("400b-1gpu",)}
    specs = [resolved(name, size=size, gpu_type="h200", gpus=1) for name in sizes for size in sizes[name]]
    specs.append(resolved("llama3.1", size="8b-1gpu", gpu_type="h200", gpus=1, settings={"attention": "unfused"}))
    lines = "\n".join(msgspec.json.encode(spec).decode() for spec in specs)
    done = in_framework(nemo_python, str(HERE / "megatron_accepts.py"), "--without-te", text=lines)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [answer.get("error") for answer in answers] == [None] * 5
    kinds = [answer["attention"] for answer in answers]
    assert kinds == [["SdpaAttention_sdpa"]] * 3 + [["SdpaAttention_sdpa"] * 4, ["DotProductAttention"]]
    assert not any(answer["overlap_grad_reduce"] for answer in answers)
    assert [answer["fused"] for answer in answers] == [[True] * 3] * 2 + [[False, True, True]] + [[True] * 3] * 2


def test_attention_through_torch_is_the_same_attention(nemo_python: str) -> None:
    done = in_framework(nemo_python, str(HERE / "attention_agrees.py"))
    assert done.returncode == 0, done.stderr
    *said, last = done.stdout.splitlines()
    # cuDNN's kernel, which a CPU does not have, was tried first and refused
    assert "torch attention kernel: MATH; CUDNN_ATTENTION: " in "\n".join(said)
    errors = json.loads(last)
    assert set(errors) == {
        f"{kind} {heads}/{groups}" for kind in ("fp32", "bf16") for heads, groups in ((8, 2), (4, 4))
    }
    for case, (context, *gradients) in errors.items():
        allowed = 1e-5 if case.startswith("fp32") else 2e-2
        assert context < allowed and all(error < allowed for error in gradients), errors
        assert len(gradients) == 3


def test_a_gpu_without_transformer_engine_gets_stubs_and_no_cpu_shims(nemo_python: str) -> None:
    text = (
        "import os, sys; os.environ['WORLD_SIZE'] = '1'\n"
        "import torch; torch.cuda.is_available = lambda: True\n"
        "from llmbx_nemo.entry import bridge\n"
        "print(bridge.prepare())\n"
        "assert 'llmbx_nemo.entry.cpu_shims' not in sys.modules\n"
        "assert torch.cuda.Stream.__module__ == 'torch.cuda.streams'\n"
        "from megatron.bridge.training import initialize\n"
        "from megatron.core.transformer.moe import moe_utils\n"
        "assert moe_utils.te_general_gemm is None\n"
        "initialize.compile_helpers()\n"
    )
    done = in_framework(nemo_python, "-c", text)
    assert (done.returncode, done.stdout) == (0, "Host(cuda=True, te=False, world=1)\n"), done.stderr


def test_the_cpu_shims_cannot_be_imported_with_cuda(nemo_python: str) -> None:
    text = "import torch; torch.cuda.is_available = lambda: True; import llmbx_nemo.entry.cpu_shims"
    done = in_framework(nemo_python, "-c", text)
    assert done.returncode == 1 and "must not be used if CUDA is available" in done.stderr


def test_stubs_are_removed_after_the_import(nemo_python: str) -> None:
    text = (
        "import os; os.environ['WORLD_SIZE'] = '1'\n"
        "from llmbx_nemo.entry import bridge, stubs\n"
        "print(bridge.prepare())\n"
        "assert 'transformer_engine' in stubs.absent()\n"
        "import transformer_engine\n"
    )
    done = in_framework(nemo_python, "-c", text)
    assert done.stdout == "Host(cuda=False, te=False, world=1)\n"
    assert done.stderr.strip().splitlines()[-1] == "ModuleNotFoundError: No module named 'transformer_engine'"


def test_torch_profiles_exactly_the_steps_also_the_last_ones(start: Start, tmp_path: Path) -> None:
    spec = resolved("llama3.1", steps=5, profile=True, profile_steps="3-5", profile_tool="torch", profile_ranks="0")
    out, _ = start(spec).communicate(timeout=300)
    trace = json.loads(gzip.decompress((tmp_path / "torch_profile" / "rank0.pt.trace.json.gz").read_bytes()))
    steps = {event["name"] for event in trace["traceEvents"] if str(event.get("name")).startswith("ProfilerStep#")}
    assert steps == {"ProfilerStep#3", "ProfilerStep#4"}, out


def test_a_checkpoint_is_written_once(start: Start, tmp_path: Path) -> None:
    out, _ = start(resolved("llama4", steps=2, checkpoint=True)).communicate(timeout=300)
    assert out.count("saving checkpoint at iteration") == out.count("successfully saved checkpoint") == 1, out
    assert list((tmp_path / "checkpoints" / "weights").glob("*.distcp"))
    assert sorted(path.name for path in (tmp_path / "checkpoints").glob("iter_*")) == ["iter_0000002"]


def test_a_rank_shows_its_stacks_when_asked(start: Start) -> None:
    process = start(resolved("llama3.1", steps=500))
    assert process.stdout is not None
    for line in process.stdout:
        if "iteration        2/" in line:
            break
    process.send_signal(signal.SIGUSR1)
    end = time.monotonic() + PATIENCE_S
    while "most recent call first" not in process.stdout.readline():
        assert time.monotonic() < end
    process.terminate()
    assert process.wait(timeout=PATIENCE_S) == -signal.SIGTERM


def test_flops_of_layers_are_the_operations_that_torch_counts(nemo_python: str) -> None:
    done = in_framework(nemo_python, str(HERE / "layer_operations.py"))
    assert done.returncode == 0, done.stderr
    counted = json.loads(done.stdout)
    terms = [
        Term.attention(64, 32, 4, 2, 10),
        Term.latent_attention(64, 32, 4, kv_rank=12, q_rank=20, key_width=8, rope_width=4, value_width=6),
        Term.mlp(64, 32, 48, name="gated mlp"),
        Term.mlp(64, 32, 48, gated=False, name="plain mlp"),
        Term.mixture(64, 32, 24, 8, 2, shared_width=48),
        Term.convolution(16, 16, 3, 32),
        Term.logits(64, 32, 96),
    ]
    assert {term.name: {"flops": term.full, "parameters": term.parameters} for term in terms} == counted


def test_masks_say_which_of_the_counted_pairs_they_hide(nemo_python: str) -> None:
    done = in_framework(nemo_python, str(HERE / "masked_operations.py"))
    assert done.returncode == 0, done.stderr
    per_pair, pairs = 3 * 3 * 4 * 4 * 8, 64 * 64  # samples, passes, operations, heads, width
    causal, window = 64 * 65 // 2, sum(min(position + 1, 10) for position in range(64))
    for name, seen in (("none", pairs), ("causal", causal), ("window", window), ("added", window)):
        counted = json.loads(done.stdout)[name]
        assert (counted["flops"], counted["samples"]) == (per_pair * pairs, 3)
        assert counted["hidden"] == pytest.approx(per_pair * (pairs - seen), rel=1e-5, abs=1)
        assert counted["per_position"] == per_pair * 64
