"""Write plugins/maxtext/llmbx_maxtext/upstream: MaxText's own configuration of upstream's launches, executed.

    python benchmarks/maxtext_upstream.py PYTHON llama2 RECORDED.json MAXTEXT
    python benchmarks/maxtext_upstream.py PYTHON gpu-recipes GPU-RECIPES A3ULTRA A4
    python benchmarks/maxtext_upstream.py PYTHON own

PYTHON is the interpreter of an environment with MaxText 0.2.5 (`maxtext-cpu`). MAXTEXT, A3ULTRA and A4 are source
trees of MaxText: 8e55ab1 (2024-12-09), 3889010 (2025-01-10) and edfe9a5 (2025-03-17), the days of the images. GPU-
RECIPES is a source tree of AI-Hypercomputer/gpu-recipes (2e1fd5e). RECORDED.json has the configurations of the
MaxText Llama 2 recipe by `llama2:SIZE/DTYPE/GPU TYPE/GPUS/PHASE`, which its scripts gave with MAXTEXT. `own` are
MaxText's GPU configurations and that of JAX-Toolbox.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "plugins/maxtext/llmbx_maxtext/upstream"
NODE = 8
PHASES = {"perf": "", "prof": "collect."}
RECIPES = {"a3ultra": ("a3u", "70b", 50), "a3ultra-405b": ("a3u", "405b", 15), "a4": ("a4", "", 15)}
"""The recipes of the catalog: machine, size (empty: all) and steps of gpu-recipes."""
MACHINES = {"a3u": ("h200", "2025-01-10"), "a4": ("b200", "2025-03-17")}
"""GPU types, and days of the images."""
SEGMENTS = "max_segments_per_seq=32"
"""As in MaxText's own GPU configurations: MaxText 0.2 refuses the files without it."""

REMAINING = {
    "llama3-1-405b-256gpus-a3u-fp8.yaml": "dcn_data_parallelism=1",
    "llama3-1-405b-512gpus-a3u-fp8.yaml": "dcn_data_parallelism=1",
    "llama3-1-405b-768gpus-a3u-fp8.yaml": "ici_fsdp_parallelism=8",
}
"""What a -1 stands for: the devices or nodes that remain. MaxText fills it in when it makes the mesh."""

NO_QUANTIZATION = "quantization="
"""MaxText 0.2 has an empty text without this argument, and null with it; both are none."""

FILE = re.compile(r"llama3-1-(?P<size>\w+)-(?P<gpus>\d+)gpus-(?P<machine>\w+)-(?P<dtype>\w+?)(?P<batch>-gbs\d+)?\.yaml")
EXECUTE = """
import json, shutil, sys
from pathlib import Path
from unittest import mock
from google.cloud import storage
from llmbx_maxtext.entry import configuration, configure
tree, config, gpus, local, out, *arguments = sys.argv[1:]
if config:  # MaxText 0.2 takes only files of this name
    config = shutil.copy(config, f"{out}.yml")
module, utils, base = configure.of_tree(Path(tree)) if tree else configure.of_package("maxtext")
utils.maybe_initialize_jax_distributed_system = lambda *_, **__: None
utils.get_num_slices = lambda *_, **__: max(1, int(gpus) // 8)
configure.show_devices(int(gpus), int(local))
storage.Client = mock.MagicMock  # the files ask for a copy of the configuration in Google's storage
made = module.initialize(["train", config or str(base), *arguments])
values = configuration.values_of(module.config if made is None else made)
import yaml
written = yaml.safe_load(base.read_text())
Path(out).write_text(json.dumps({"final": values, "written": written}))
"""

Values = dict[str, Any]


def execute(
    python: str, tree: str, gpus: int, config: str = "", arguments: Iterable[str] = (), local: int = NODE
) -> tuple[Values, Values]:
    """The final configuration of a launch whose processes have `local` GPUs, and what base.yml has."""
    with tempfile.TemporaryDirectory() as folder:
        made = _executed(python, tree, gpus, local, config, arguments, Path(folder, "made.json"))
    return made["final"], made["written"]


def _executed(
    python: str, tree: str, gpus: int, local: int, config: str, arguments: Iterable[str], out: Path
) -> dict[str, Values]:
    subprocess.run(
        [python, "-c", EXECUTE, tree, config, str(gpus), str(local), str(out), *arguments],
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'core'}:{ROOT / 'plugins/maxtext'}",
            "JAX_PLATFORMS": "cpu",
            "DECOUPLE_GCLOUD": "TRUE",
            "XLA_FLAGS": "--xla_force_host_platform_device_count=1",
        },
        cwd=out.parent,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    made: dict[str, Values] = json.loads(out.read_text())
    return made


def base_of(python: str, tree: str, model: str) -> Values:
    """What base.yml and the file of a model give, without what MaxText computes."""
    final, written = execute(
        python, tree, NODE, arguments=(f"model_name={model}", "run_name=x", "base_output_directory=x")
    )
    (file,) = Path(tree).glob(f"*/configs/models/{model}.yml")
    own = re.findall(r"^(\w+):", file.read_text(), re.MULTILINE)
    unchanged = {key: final[key] for key in final if key in own or (key in written and final[key] == written[key])}
    return {**unchanged, "run_name": "", "base_output_directory": ""}


def split(configurations: dict[str, Values]) -> tuple[Values, dict[str, Values]]:
    """What all have in common, and the rest of each."""
    first = next(iter(configurations.values()))
    common = {
        key: value
        for key, value in first.items()
        if all(key in values and values[key] == value for values in configurations.values())
    }
    rest = {
        name: {key: value for key, value in values.items() if key not in common}
        for name, values in configurations.items()
    }
    return common, rest


def write(name: str, source: str, configurations: dict[str, Values], base: dict[str, Values], **more: Any) -> None:
    """Write one file."""
    common, rest = split(dict(sorted(configurations.items())))
    shared, by_size = split(base) if base else ({}, {})
    content = {
        "source": source,
        **more,
        "base": {"": shared, **by_size} if base else {},
        "common": common,
        "configurations": rest,
    }
    FOLDER.mkdir(exist_ok=True)
    text = json.dumps(content, indent=0, sort_keys=True, separators=(",", ":"))
    text = re.sub(r'"/[^"]*/(site-packages/)', r'"\1', text)  # where the package is, is not a part of the recipe
    text = re.sub(r"\[[^\[\]{}]*\]", lambda match: match[0].replace("\n", ""), text)
    (FOLDER / f"{name}.json").write_text(text + "\n")
    print(f"{name}: {len(configurations)} configurations, {sum(map(len, configurations.values()))} values")


def llama2(python: str, recorded: str, tree: str) -> None:
    """The recipe of seed 002: BF16 and FP8, both phases."""
    configurations: dict[str, Values] = {}
    for name, values in json.loads(Path(recorded).read_text()).items():
        key, _, phase = name.removeprefix("llama2:").rpartition("/")
        named = {f"{PHASES[phase]}{field}": value for field, value in values.items()}
        configurations.setdefault(key, {}).update(named)
    source = "MaxText 8e55ab1 (2024-12-09) with the arguments of the MaxText Llama 2 recipe (2025-01)"
    base = {"70b": base_of(python, tree, "llama2-70b")}
    write("llama2-pgle-25.01-2024.12", source, configurations, base, gpu_types={"a100": "h100"})


def gpu_recipes(python: str, recipes: str, *trees: str) -> None:
    """Google's recipes: with the MaxText of their images' days, and with MaxText 0.2.5."""
    tree_of = dict(zip(MACHINES, trees, strict=True))
    for recipe, (machine, only, steps) in RECIPES.items():
        gpu_type, day = MACHINES[machine]
        arguments = (f"steps={steps}", "base_output_directory=maxtext", "run_name=job")
        old: dict[str, Values] = {}
        new: dict[str, Values] = {}
        base: dict[str, Values] = {}
        files = sorted(Path(recipes).glob(f"src/frameworks/*/maxtext-configs/llama3-1-{only}*-{machine}-*.yaml"))
        for file in files:
            match = FILE.fullmatch(file.name)
            assert match is not None, file
            if match["batch"] and (file.parent / file.name.replace(match["batch"], "")).exists():
                continue  # the catalog has one row for a size, dtype and number of GPUs
            size, gpus = match["size"], int(match["gpus"])
            key = f"{size}/{match['dtype']}/{gpu_type}/{gpus}"
            words = [*arguments, *REMAINING.get(file.name, "").split()]
            old[key], _ = execute(python, tree_of[machine], gpus, str(file), words)
            plain = () if match["dtype"] == "fp8" else (NO_QUANTIZATION,)
            new[key], _ = execute(python, "", gpus, str(file), [*words, SEGMENTS, *plain])
            if size not in base:
                base[size] = base_of(python, tree_of[machine], f"llama3.1-{size}")
        what = f"gpu-recipes 2e1fd5e, src/frameworks/*/maxtext-configs/*-{machine}-*.yaml"
        write(f"maxtext-llama3.1-{recipe}-2024.12", f"MaxText of {day} with {what}", old, base)
        write(f"maxtext-llama3.1-{recipe}-0.2", f"MaxText 0.2.5 with {what} and {SEGMENTS}", new, {})


TOOLBOX = [
    "model_name=llama2-7b",
    "per_device_batch_size=2",
    "steps=15",
    "scan_layers=false",
    "remat_policy=minimal_flash",
    "attention=cudnn_flash_te",
    "max_target_length=4096",
    "use_iota_embed=true",
    "logits_dot_in_fp32=false",
    "enable_checkpointing=false",
    "base_output_directory=local_train",
    "dataset_path=local",
    "dataset_type=synthetic",
    "hardware=gpu_multiprocess",
    "run_name=demo",
]
"""The arguments of JAX-Toolbox' docs/frameworks/maxtext/example_slurm.sub (d29fd15)."""


MESH = ("ici_fsdp_parallelism=8", "dcn_data_parallelism=1")
"""What remains for the axes that the script leaves out."""


STEPS = "steps=30"
"""gpt-oss-20b.yml has no number of steps; the other files have this one."""

MODELS = {
    "llama2": {"llama2_70b": "70b/bf16/b200/8"},
    "maxtext-llama3.1": {"llama3_8b": "llama3-8b/bf16/h100/8", "llama3_70b": "llama3-70b/bf16/b200/8"},
    "mixtral": {"mixtral_8x7b": "8x7b/bf16/h200/8"},
    "maxtext-gpt-oss": {"gpt-oss-20b": "20b/bf16/h100/8"},
}
"""Files of configs/gpu/models by workload, and the rows that they give: one node, which they leave open."""

SCRIPT = re.compile(r"^ +([a-z_0-9]+)=([\w.-]+)", re.MULTILINE)
"""An argument of 128vm.sh; `enable_checkpointing: False` is none, and its file has it."""


def gpu_models(python: str, models: Path) -> None:
    """MaxText's GPU configurations that leave the machine open, and the script for Llama 3.1 405B on 128 nodes."""
    for workload, files in MODELS.items():
        made = {}
        for file, row in files.items():
            words = (STEPS, *MESH, "base_output_directory=maxtext", "run_name=job", NO_QUANTIZATION)
            made[row], _ = execute(python, "", NODE, str(models / f"{file}.yml"), words)
        write(f"{workload}-gpu-models-0.2", "MaxText 0.2.5, configs/gpu/models", made, {})
    script = (models.parent / "a3/llama_3.1_405b/128vm.sh").read_text()
    words = [f"{key}={value}" for key, value in SCRIPT.findall(script) if key != "base_config"]
    words += ["dcn_data_parallelism=1", "base_output_directory=maxtext", "run_name=job", NO_QUANTIZATION]
    large, _ = execute(python, "", 128 * NODE, str(models / "llama3.1_405b.yml"), words)
    source = "MaxText 0.2.5, configs/gpu/a3/llama_3.1_405b/128vm.sh without `enable_checkpointing: False`"
    write("maxtext-llama3.1-a3-0.2", source, {"405b/bf16/h100/1024": large}, {})


def own(python: str) -> None:
    """The configurations and scripts that come with MaxText 0.2.5, and JAX-Toolbox' script."""
    found = subprocess.run([python, "-c", "import maxtext; print(*maxtext.__path__)"], capture_output=True, text=True)
    config = Path(found.stdout.split()[-1], "configs/gpu/models/llama2_7b.yml")
    gpu_models(python, config.parent)
    made = {}
    for gpus in (8, 16, 32, 64, 128):
        words = (f"dcn_data_parallelism={gpus // NODE}", f"ici_fsdp_parallelism={NODE}", "profiler=xplane")
        words += ("base_output_directory=maxtext", "run_name=job", NO_QUANTIZATION)
        made[f"7b/bf16/h100/{gpus}"], _ = execute(python, "", gpus, str(config), words)
    write("llama2-a3-0.2", "MaxText 0.2.5, configs/gpu/a3/llama_2_7b/*vm.sh", made, {})
    toolbox, _ = execute(python, "", NODE, arguments=[*TOOLBOX, *MESH, SEGMENTS, NO_QUANTIZATION], local=1)
    source = f"MaxText 0.2.5 with docs/frameworks/maxtext/example_slurm.sub of JAX-Toolbox d29fd15 and {SEGMENTS}"
    write("llama2-jax-toolbox-0.2", source, {"7b/bf16/h100/8": toolbox}, {})


if __name__ == "__main__":
    {"llama2": llama2, "gpu-recipes": gpu_recipes, "own": own}[sys.argv[2]](sys.argv[1], *sys.argv[3:])
