"""Write plugins/maxtext/llmbx_maxtext/upstream: MaxText's own configuration of upstream's launches, executed.

    python benchmarks/maxtext_upstream.py PYTHON llama2 RECORDED.json MAXTEXT
    python benchmarks/maxtext_upstream.py PYTHON gpu-recipes GPU-RECIPES A3ULTRA A4

PYTHON is the interpreter of an environment with MaxText 0.2.5 (`maxtext-cpu`). MAXTEXT, A3ULTRA and A4 are source trees
of MaxText: 8e55ab1 (2024-12-09), 3889010 (2025-01-10) and edfe9a5 (2025-03-17), the days of the images. GPU-RECIPES is a
source tree of AI-Hypercomputer/gpu-recipes (2e1fd5e). RECORDED.json has the configurations of the MaxText Llama 2 recipe
by `llama2:SIZE/DTYPE/GPU TYPE/GPUS/PHASE`, which its scripts gave with MAXTEXT.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "plugins/maxtext/llmbx_maxtext/upstream"
NODE = 8
PHASES = {"perf": "", "prof": "collect."}
IMAGES = {"a3u": ("h200", "2025-01-10"), "a4": ("b200", "2025-03-17")}
FILE = re.compile(r"llama3-1-(?P<size>\w+)-(?P<gpus>\d+)gpus-(?P<machine>\w+)-(?P<dtype>\w+?)(?P<batch>-gbs\d+)?\.yaml")
EXECUTE = """
import json, sys
from pathlib import Path
from llmbx_maxtext.entry import configuration, configure
tree, config, slices, out, *arguments = sys.argv[1:]
module, utils, base = configure.of_tree(Path(tree)) if tree else configure.of_package("maxtext")
utils.maybe_initialize_jax_distributed_system = lambda *_, **__: None
utils.get_num_slices = lambda *_, **__: int(slices)
utils.write_config_raw_keys_for_gcs = lambda *_, **__: None
made = module.initialize(["train", config or str(base), *arguments])
values = configuration.values_of(module.config if made is None else made)
import yaml
written = yaml.safe_load(base.read_text())
Path(out).write_text(json.dumps({"final": values, "written": written}))
"""

Values = dict[str, Any]


def execute(python: str, tree: str, gpus: int, config: str = "", arguments: Iterable[str] = ()) -> tuple[Values, Values]:
    """The final configuration of a launch, and what base.yml has."""
    out = Path("/tmp") / f"maxtext-upstream-{os.getpid()}.json"
    subprocess.run(
        [python, "-c", EXECUTE, tree, config, str(max(1, gpus // NODE)), str(out), *arguments],
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'core'}:{ROOT / 'plugins/maxtext'}",
            "JAX_PLATFORMS": "cpu",
            "DECOUPLE_GCLOUD": "TRUE",
            "XLA_FLAGS": f"--xla_force_host_platform_device_count={gpus}",
        },
        stdout=subprocess.DEVNULL,
        check=True,
    )
    made = json.loads(out.read_text())
    out.unlink()
    return made["final"], made["written"]


def base_of(python: str, tree: str, model: str) -> Values:
    """What base.yml and the file of a model give, without what MaxText computes."""
    final, written = execute(python, tree, NODE, arguments=(f"model_name={model}", "run_name=x", "base_output_directory=x"))
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
    content = {"source": source, **more, "base": {"": shared, **by_size} if base else {}, "common": common, "configurations": rest}
    FOLDER.mkdir(exist_ok=True)
    text = json.dumps(content, indent=0, sort_keys=True, separators=(",", ":"))
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
    for (machine, (gpu_type, day)), tree in zip(IMAGES.items(), trees, strict=True):
        old: dict[str, Values] = {}
        new: dict[str, Values] = {}
        base: dict[str, Values] = {}
        for file in sorted(Path(recipes).glob(f"src/frameworks/*/maxtext-configs/llama3-1-*-{machine}-*.yaml")):
            match = FILE.fullmatch(file.name)
            assert match is not None, file
            key = f"{match['size']}/{match['dtype']}/{gpu_type}/{match['gpus']}"
            if match["batch"] and (file.parent / file.name.replace(match["batch"], "")).exists():
                continue
            steps = 50 if (match["size"], machine) == ("70b", "a3u") else 15
            arguments = (f"steps={steps}", "base_output_directory=maxtext", "run_name=job")
            gpus = int(match["gpus"])
            old[key], _ = execute(python, tree, gpus, str(file), arguments)
            new[key], _ = execute(python, "", gpus, str(file), arguments)
            base.setdefault(match["size"], base_of(python, tree, f"llama3.1-{match['size']}"))
        name = f"maxtext-llama3.1-gpu-recipes-{gpu_type}"
        what = f"gpu-recipes 2e1fd5e, src/frameworks/*/maxtext-configs/*-{machine}-*.yaml"
        write(f"{name}-2024.12", f"MaxText of {day} with {what}", old, base)
        write(f"{name}-0.2", f"MaxText 0.2.5 with {what}", new, {})


if __name__ == "__main__":
    {"llama2": llama2, "gpu-recipes": gpu_recipes}[sys.argv[2]](sys.argv[1], *sys.argv[3:])
