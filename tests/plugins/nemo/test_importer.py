"""`llmbx catalog import` from small trees; tests/integration/test_nemo_import.py has Megatron-Bridge's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from llmbx.errors import UsageError
from llmbx_nemo.importer import exemplar
from llmbx_nemo.importer.verb import command
from llmbx_nemo.importer.yaml_subset import read_yaml

RECIPE = """
import torch
from megatron.bridge import AutoBridge
from megatron.bridge.recipes.common import base


def my_llm_7b_pretrain_16gpu_h100_bf16_config():
    cfg = base()
    cfg.model = AutoBridge.from_hf_pretrained("my/llm").to_megatron_provider(load_weights=False)
    cfg.model.params_dtype = torch.bfloat16
    cfg.model.tensor_model_parallel_size = 2
    cfg.train.global_batch_size = 32
    cfg.train.micro_batch_size = 1
    cfg.env_vars = {"MY_VARIABLE": 1}
    return cfg


def my_llm_7b_pretrain_32gpu_h100_bf16_config():
    cfg = my_llm_7b_pretrain_16gpu_h100_bf16_config()
    cfg.train.global_batch_size = 64
    return cfg


def my_llm_7b_pretrain_16gpu_h100_fp8cs_config():
    raise ValueError("not yet")
"""
COMMON = """
from megatron.bridge.training.config import ConfigContainer, TrainingConfig


def base():
    return ConfigContainer(model=None, train=TrainingConfig(global_batch_size=1))
"""
CONFIGS = """
from dataclasses import dataclass, fields, replace

from megatron.bridge.recipes.common import base
from megatron.core.optimizer import OptimizerConfig
from megatron.bridge.training.overlap import *


@dataclass
class Workload:
    num_gpus: int
    tensor_model_parallel_size: int = 1
    global_batch_size: int = 16


OPTIMIZER = [field.name for field in fields(OptimizerConfig)]
MY_LLM_7B_PRETRAIN_CONFIG_H100_BF16_V1 = Workload(16)
MY_LLM_7B_PRETRAIN_CONFIG_H100_BF16_V2 = replace(MY_LLM_7B_PRETRAIN_CONFIG_H100_BF16_V1, global_batch_size=32)
MY_LLM_7B_PRETRAIN_CONFIG_H100_FP8_CS_V1 = Workload(8, tensor_model_parallel_size=4)
MY_LLM_7B_PRETRAIN_CONFIG_H100_FP8_MX_LARGE_SCALE = Workload(64)
MY_LLM_7B_PRETRAIN_CONFIG_B200_NVFP4 = Workload(8)


def my_llm_7b_pretrain_config_h100(precision, mock, config_variant):
    workload = globals()[f"MY_LLM_7B_PRETRAIN_CONFIG_H100_{precision}_{config_variant}".upper()]
    cfg = base()
    cfg.model = cfg.model.to_megatron_provider()
    cfg.comm_overlap = Overlap()
    cfg.model.tensor_model_parallel_size = workload.tensor_model_parallel_size
    cfg.train.global_batch_size = workload.global_batch_size
    cfg.train.micro_batch_size = 1
    return cfg
"""
EXECUTORS = """
import nemo_run as run
from nemo_run.config import get_nemorun_home

HOME = get_nemorun_home() + "/home"


def slurm_executor(gpu, account, partition, log_dir, nodes, per_node, offline):
    return run.SlurmExecutor(env_vars={"HF_HUB_OFFLINE": str(int(offline))})
"""
PLUGINS = """
from dataclasses import dataclass
from nemo_run import Plugin, Script


@dataclass(kw_only=True)
class PerfEnvPlugin(Plugin):
    model_family_name: str
    model_recipe_name: str
    gpu: str
    compute_dtype: str
    train_task: str
    config_variant: str

    def setup(self, task, executor):
        assert isinstance(task, Script)
        executor.env_vars["MY_VARIABLE"] = f"{self.model_family_name} {self.compute_dtype} {self.config_variant}"
"""
METADATA = """
# Setup
general:
  workload: llama3.1
  workload_type: pretrain
  framework: megatron_bridge
container:
  images:
    - 'nvcr.io#nvidia/nemo:26.04.01'
run:
  gpu_configs:
    h100:
      model_configs:
        - model_size: '70b'
          dtypes:
            bf16: [64, 96]  # two
            fp8:
              scales: [128]
        - model_size: '3b'
          dtypes: 'fp8'
          scales: [8]
"""
SUITE = """
config:
  scale: 512
workloads:
  h100:
  - pretrain_llama3.1_405b:
      dtypes: [fp8]
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    package = tmp_path / "tree" / "src" / "megatron" / "bridge"
    for path, text in {
        "package_info.py": "MAJOR = 0\nMINOR = 7\nPATCH = 1\n",
        "perf_recipes/__init__.py": "",
        "perf_recipes/mine/__init__.py": "",
        "perf_recipes/mine/my_llm.py": RECIPE,
        "recipes/__init__.py": "",
        "recipes/common.py": COMMON,
    }.items():
        (package / path).parent.mkdir(parents=True, exist_ok=True)
        (package / path).write_text(text)
    return tmp_path / "tree"


def test_a_site_imports_its_own_recipes_and_checks_them(tree: Path, tmp_path: Path) -> None:
    folder, model = tmp_path / "catalog", ["--model", "my_llm_7b=my-llm/7b", "--image", "my/image:7"]
    first = CliRunner().invoke(command, [str(tree), "--into", str(folder), *model])
    assert (first.exit_code, first.stdout) == (0, "my-llm 7b/bf16/h100/16: new\nmy-llm 7b/bf16/h100/32: new\n")
    text = (folder / "my-llm.toml").read_text()
    row = (
        '{ size = "7b", dtypes = ["bf16"], gpu_types = ["h100"], gpus = ["16", "32"], tp = 2, mbs = 1, gbs = "GPUs*2" }'
    )
    assert row in text and 'MY_VARIABLE = "1"' in text and 'released = "0.7"' in text
    assert "# Left out (it fails: ValueError: not yet): my_llm_7b_pretrain_16gpu_h100_fp8cs." in text
    (folder / "my-llm.toml").write_text(f"# Mine.\n{text.replace('GPUs*2', 'GPUs*4')}# Also mine.\n")
    check = CliRunner().invoke(command, [str(tree), "--into", str(folder), "--check", *model])
    assert check.exit_code == 1
    assert check.stdout == "my-llm 7b/bf16/h100/16: gbs 64 -> 32\nmy-llm 7b/bf16/h100/32: gbs 128 -> 64\n"
    CliRunner().invoke(command, [str(tree), "--into", str(folder), *model])
    assert (folder / "my-llm.toml").read_text() == f"# Mine.\n{text}# Also mine.\n"


def test_a_second_name_is_a_row_and_larger_jobs_are_scaled_from_a_first_one(tree: Path, tmp_path: Path) -> None:
    """As upstream's program does: it scales only functions that are defined, and takes that with the most GPUs."""
    name = "my_llm_7b_pretrain_{}gpu_h100_bf16_config"
    with (tree / "src/megatron/bridge/perf_recipes/mine/my_llm.py").open("a", encoding="utf-8") as stream:
        stream.write(f"\n{name.format(64)} = {name.format(32)}\n")
    arguments = ["--into", str(tmp_path / "catalog"), "--model", "my_llm_7b=my-llm/7b", "--image", "my/image:7"]
    done = CliRunner().invoke(command, [str(tree), *arguments])
    assert done.stdout.splitlines()[-1] == "my-llm 7b/bf16/h100/64: new"
    text = (tmp_path / "catalog" / "my-llm.toml").read_text()
    assert 'gpus = ["64"], tp = 2, mbs = 1, gbs = "GPUs" }' in text
    scaled = 'gpus = ["128", "256", "512", "1024", "2048"], scaled_from = 32, tp = 2, mbs = 1, gbs = "GPUs*2" }'
    assert scaled in text


@pytest.fixture
def older(tree: Path, tmp_path: Path) -> Path:
    """A checkout of release 0.5, whose recipes are no part of the package."""
    package, scripts = "src/megatron/bridge", "scripts/performance"
    for path, text in {
        f"{package}/package_info.py": "MAJOR = 0\nMINOR = 5\nPATCH = 1\n",
        f"{package}/recipes/__init__.py": "",
        f"{package}/recipes/common.py": COMMON.replace("model=None", "model=ConfigContainer()"),
        f"{package}/training/overlap.py": "class Overlap: ...\n",
        f"{scripts}/configs/mine/__init__.py": CONFIGS,
        f"{scripts}/utils/__init__.py": "",
        f"{scripts}/utils/executors.py": EXECUTORS,
        f"{scripts}/perf_plugins.py": PLUGINS,
    }.items():
        (tmp_path / "older" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "older" / path).write_text(text)
    return tmp_path / "older"


def test_an_update_from_a_checkout_of_the_older_layout(older: Path, tree: Path, tmp_path: Path) -> None:
    """Of two versions for one number of GPUs the later counts, as upstream's launch has it by default."""
    arguments = ["--into", str(tmp_path / "catalog"), "--model", "my_llm_7b=my-llm/7b", "--image", "my/image:5"]
    first = CliRunner().invoke(command, [str(older), *arguments])
    assert (first.exit_code, first.stdout) == (0, "my-llm 7b/fp8/h100/8: new\nmy-llm 7b/bf16/h100/16: new\n")
    text = (tmp_path / "catalog" / "my-llm.toml").read_text()
    assert 'name = "bridge-0.5"' in text and 'source = "Megatron-Bridge 0.5.1, scripts/performance"' in text
    assert 'dtypes = ["fp8"], gpu_types = ["h100"], gpus = ["8"], tp = 4, mbs = 1, gbs = "GPUs*2"' in text
    assert 'MY_VARIABLE = "mine fp8_cs v1"' in text and 'MY_VARIABLE = "mine bf16 v2"' in text
    assert "# Left out (variants of a dtype): MY_LLM_7B_PRETRAIN_CONFIG_H100_FP8_MX_LARGE_SCALE." in text
    assert "my_llm_7b_pretrain_config_b200" in text
    update = CliRunner().invoke(command, [str(tree), *arguments])
    assert update.stdout == (
        "my-llm 7b/fp8/h100/8: gone\nmy-llm 7b/bf16/h100/16: tp 1 -> 2\n"
        "my-llm 7b/bf16/h100/16: MY_VARIABLE mine bf16 v2 -> 1\nmy-llm 7b/bf16/h100/32: new\n"
    )


def test_a_package_without_recipes_is_refused(older: Path) -> None:
    (older / "scripts").rename(older / "elsewhere")
    done = CliRunner().invoke(command, [str(older), "--image", "i"])
    assert isinstance(done.exception, UsageError)
    assert "0.5.1 has no performance recipes in its package" in str(done.exception)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "the image with Megatron-Bridge 0.7.1 is not known: use --image IMAGE"),
        (["--image", "i", "--model", "x"], "--model x: expected MODEL=WORKLOAD/SIZE"),
    ],
)
def test_what_is_missing_is_said(tree: Path, arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(command, [str(tree), "--check", *arguments])
    assert isinstance(done.exception, UsageError) and said in str(done.exception)


def test_a_folder_without_a_tree_and_one_mark_are_refused(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = CliRunner().invoke(command, [str(tmp_path / "empty")])
    assert isinstance(done.exception, UsageError) and "no megatron/bridge in it" in str(done.exception)
    (tmp_path / "my-llm.toml").write_text("# End of the import.\n")
    arguments = [str(tree), "--into", str(tmp_path), "--model", "my_llm_7b=my-llm/7b", "--image", "i"]
    done = CliRunner().invoke(command, arguments)
    assert isinstance(done.exception, UsageError) and "the marks" in str(done.exception)


def test_a_checkout_of_exemplar_is_compared_with_the_catalog(tmp_path: Path) -> None:
    (tmp_path / "llama3.1").mkdir()
    (tmp_path / "llama3.1" / "metadata.yaml").write_text(METADATA)
    (tmp_path / "exemplar.yaml").write_text(SUITE)
    assert [(cell.size, cell.dtype, cell.gpus) for cell in exemplar.cells(tmp_path)] == [
        ("70b", "bf16", 64), ("70b", "bf16", 96), ("70b", "fp8", 128), ("3b", "fp8", 8),
    ]  # fmt: skip
    done = CliRunner().invoke(command, [str(tmp_path)])
    assert done.exit_code == 1
    assert done.stdout.startswith("llama3.1 3b/fp8/h100/8: llama3.1 has no size '3b'")
    assert "4 rows: 2 as published, 1 scaled or borrowed" in done.stderr
    assert "1 cells of the certification: 1 as published" in done.stderr


@pytest.mark.parametrize("text", ["a:\n  b: 1\n c: 2\n", "- a\nb\n", "a: 1\n  b: 2\n"])
def test_other_yaml_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"x\.yaml: cannot be read"):
        read_yaml(text, "x.yaml")
