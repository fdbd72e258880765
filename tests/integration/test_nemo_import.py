"""`llmbx catalog import` from Megatron-Bridge's own wheels, which are installed without what they require."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx_nemo.workloads import NAMES

from .conftest import ROOT

Tree = Callable[[str], Path]
Import = Callable[..., subprocess.CompletedProcess[str]]

CATALOG = ROOT / "plugins" / "nemo" / "llmbx_nemo" / "catalog"
IMPORTED = tuple(name for name in NAMES if name not in ("mlperf-llama3.1", "llama4", "grok1"))
"""Workloads whose recipe is in the wheel."""

CHANGES = {
    "gpt_oss/h100/gpt_oss": (
        ("gpt_oss_120b_pretrain_64gpu_h100_bf16", "cfg.model.tensor_model_parallel_size = 2"),
        ("gpt_oss_120b_pretrain_64gpu_h100_fp8cs", "cfg.model.pipeline_model_parallel_size = 2"),
    ),
    "gpt_oss/b200/gpt_oss": (
        ("gpt_oss_120b_pretrain_64gpu_b200_bf16", "cfg.train.global_batch_size = 512"),
        ("gpt_oss_120b_pretrain_64gpu_b200_fp8mx", "cfg.train.micro_batch_size = 2"),
    ),
    "llama/h100/llama3": (
        ("llama3_70b_pretrain_64gpu_h100_bf16", "cfg.env_vars['NCCL_P2P_NET_CHUNKSIZE'] = 1048576"),
        ("llama3_70b_pretrain_64gpu_h100_fp8cs", "cfg.model.cuda_graph_impl = 'local'"),
    ),
    "kimi/h100/kimi_k2": (("kimi_k2_pretrain_1024gpu_h100_bf16", "cfg.model.expert_model_parallel_size = 32"),),
}
"""Changed values, by module: what a function sets more."""

MORE = {
    "qwen/h100/qwen3_moe": (
        "def qwen3_30b_a3b_pretrain_128gpu_h100_bf16_config():\n"
        "    return qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config()\n\n"
        "qwen3_30b_a3b_pretrain_64gpu_h100_fp8cs_config = None\n"
    ),
    "llama/h100/llama3": (
        "def my_llm_9b_pretrain_8gpu_h100_bf16_config():\n    return llama3_8b_pretrain_8gpu_h100_bf16_config()\n"
    ),
}
"""A new scale, a removed function, a new model."""

EXPECTED = """\
gpt-oss 120b/mxfp8/b200/64: mbs 4 -> 2
gpt-oss 120b/bf16/b200/64: gbs 1280 -> 512
gpt-oss 120b/fp8/h100/64: pp 4 -> 2
gpt-oss 120b/bf16/h100/64: tp 1 -> 2
kimi-k2 1t/bf16/h100/1024: ep 64 -> 32
llama3.1 70b/fp8/h100/64: cuda_graphs false -> true
llama3.1 70b/bf16/h100/64: NCCL_P2P_NET_CHUNKSIZE 2097152 -> 1048576
qwen3 30b-a3b/fp8/h100/64: gone
qwen3 30b-a3b/bf16/h100/128: new
my_llm_9b: a new model with 1 functions: name it with --model my_llm_9b=WORKLOAD/SIZE
"""


@pytest.fixture(scope="session")
def tree() -> Tree:
    """`tree("0.6.2")`: the folder with this version of the package."""

    def install(version: str) -> Path:
        folder = Path(os.environ.get("LLMBX_TEST_ROOT", ROOT / ".test")) / "wheels" / f"megatron-bridge-{version}"
        if not (folder / "megatron").is_dir():
            part = folder.with_name(f"{folder.name}-{os.getpid()}")
            argv = ["pip", "install", "--quiet", "--no-deps", "--python-version", "3.12", "--target", str(part)]
            subprocess.run([sys.executable, "-m", "uv", *argv, f"megatron-bridge=={version}"], check=True)
            shutil.rmtree(folder, ignore_errors=True)
            part.rename(folder)
        return folder

    return install


@pytest.fixture
def imported(llmbx: Import) -> Import:
    def call(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return llmbx("catalog", "import", *map(str, arguments))

    return call


def test_the_shipped_rows_are_those_of_the_wheel(tree: Tree, imported: Import, tmp_path: Path) -> None:
    """Byte for byte, and without the shipped ones: the import writes them into empty files."""
    done = imported(tree("0.6.2"), "--check")
    assert (done.returncode, done.stdout) == (0, ""), done.stdout
    assert imported(tree("0.6.2"), "--into", tmp_path).returncode == 0
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(IMPORTED)
    for path in tmp_path.iterdir():
        assert path.read_text().strip() in (CATALOG / path.name).read_text()


def test_an_update_gives_what_a_fresh_import_gives(tree: Tree, imported: Import, tmp_path: Path) -> None:
    for version in ("0.6.0", "0.6.2"):
        assert imported(tree(version), "--into", tmp_path / "updated").returncode == 0
    assert imported(tree("0.6.2"), "--into", tmp_path / "fresh").returncode == 0
    for path in (tmp_path / "fresh").iterdir():
        assert (tmp_path / "updated" / path.name).read_text() == path.read_text()


def test_a_release_without_performance_recipes_is_refused(tree: Tree, imported: Import) -> None:
    done = imported(tree("0.5.1"), "--check", "--image", "nemo:26.06.01")
    assert done.returncode == 2
    assert "Megatron-Bridge 0.5.1 has no performance recipes" in done.stderr


def test_ten_changes_of_a_tree_are_the_ten_differences(tree: Tree, imported: Import, tmp_path: Path) -> None:
    copy = tmp_path / "tree"
    shutil.copytree(tree("0.6.2"), copy)
    recipes = copy / "megatron" / "bridge" / "perf_recipes"
    for module, changes in CHANGES.items():
        with (recipes / f"{module}.py").open("a", encoding="utf-8") as stream:
            for function, statement in changes:
                name = f"{function}_config"
                stream.write(
                    f"\n_{name} = {name}\ndef {name}():\n    cfg = _{name}()\n    {statement}\n    return cfg\n"
                )
    for module, text in MORE.items():
        with (recipes / f"{module}.py").open("a", encoding="utf-8") as stream:
            stream.write(f"\n{text}")
    done = imported(copy, "--check")
    assert (done.returncode, done.stdout) == (1, EXPECTED)


def test_the_recipes_of_a_site_become_its_own_catalog(tree: Tree, imported: Import, tmp_path: Path) -> None:
    """As docs/how-to/own-recipes.md shows it."""
    copy = tmp_path / "tree"
    shutil.copytree(tree("0.6.2"), copy)
    with (copy / "megatron/bridge/perf_recipes/llama/h100/llama3.py").open("a", encoding="utf-8") as stream:
        stream.write(MORE["llama/h100/llama3"])
    model = ("--model", "my_llm_9b=my-llm/9b", "--image", "registry.example/my-llm:1")
    done = imported(copy, "--into", tmp_path / "catalog", *model)
    assert (done.returncode, done.stdout) == (0, "my-llm 9b/bf16/h100/8: new\n")
    (path,) = (tmp_path / "catalog").iterdir()
    assert path.name == "my-llm.toml" and "registry.example/my-llm:1" in path.read_text()
    assert imported(copy, "--into", tmp_path / "catalog", "--check", *model).returncode == 0
