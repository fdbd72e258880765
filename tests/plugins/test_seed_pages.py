"""The commands of the published recipes' pages, as typed on a login node without a GPU.

`VARIABLE=VALUE ./launch.sh` in a workload's folder is `VARIABLE=VALUE llmbx run WORKLOAD`, `llmb-run single …` is
`llmbx run …` (docs/guide.md). Where a page gives a template, its examples and their bounds stand here.
"""

from __future__ import annotations

import shlex
import shutil
from typing import Any

import pytest
from click.testing import CliRunner

from llmbx.api import settings_of
from llmbx.cli.run import command
from llmbx.model import RunSpec
from llmbx.testing import resolve_spec
from llmbx_profiling.settings import NsysSettings

NAMES = {"-w": "workload", "-s": "size", "--dtype": "dtype", "--scale": "gpus"}


def typed(line: str, workload: str = "", recipe: str | None = None) -> RunSpec:
    """The run of a line of a page; `recipe` for a page that is not the newest of its workload."""
    words = shlex.split(line)
    environ = dict(word.split("=", 1) for word in words if "=" in word and not word.startswith("-"))
    asked: dict[str, Any] = {"workload": workload, "recipe": recipe}
    if "llmb-run" in words:
        options = words[words.index("single") + 1 :]
        asked |= {NAMES[option]: options[options.index(option) + 1] for option in NAMES if option in options}
        asked |= {"profile": True} if "-p" in options else {}
        asked["gpus"] = int(asked["gpus"])
    return resolve_spec(**asked, environ=environ)


def said(spec: RunSpec) -> tuple[str, str, str, int, str]:
    """What a page says of a run."""
    return spec.size, spec.dtype, spec.gpu_type, spec.gpus, spec.recipe


LLAMA31 = [  # nemo:25.09
    ("JOB_TOTAL_GPUS=128 GPU_TYPE=gb200 ./launch.sh", ("405b", "fp8", "gb200", 128)),
    ("JOB_TOTAL_GPUS=256 GPU_TYPE=gb200 ./launch.sh", ("405b", "fp8", "gb200", 256)),
    ("JOB_TOTAL_GPUS=1024 GPU_TYPE=h100 ./launch.sh", ("405b", "fp8", "h100", 1024)),
    ("MODEL_SIZE=8b JOB_TOTAL_GPUS=8 GPU_TYPE=h100 ./launch.sh", ("8b", "fp8", "h100", 8)),
]


@pytest.fixture(autouse=True)
def login_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm's commands are there, as far as anybody asks, and a GPU is not."""
    monkeypatch.setattr(shutil, "which", lambda name, *_, **__: f"/usr/bin/{name}" if name == "sbatch" else None)


@pytest.mark.parametrize(("line", "says"), LLAMA31)
def test_llama31_on_megatron_bridge(line: str, says: tuple[Any, ...]) -> None:
    spec = typed(line, "llama3.1")
    assert said(spec) == (*says, "mbridge") and spec.launcher == "slurm" and spec.steps == 50


def test_the_predecessors_launcher_knew_the_clusters_gpu_type() -> None:
    """`llmb-run` has it from its installation; here it is said once, in a profile, a variable or an option."""
    for size, gpus in (("405b", 128), ("70b", 64), ("8b", 16)):
        line = f"GPU_TYPE=gb200 llmb-run single -w pretrain_llama3.1 -s {size} --dtype fp8 --scale {gpus}"
        assert said(typed(line)) == (size, "fp8", "gb200", gpus, "mbridge")


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ("nodelist=node001,node002", {"nodelist": "node001,node002"}),
        ("constraint=gpu&memory;exclusive", {"constraint": "gpu&memory", "exclusive": ""}),
        ("reservation=my_reservation", {"reservation": "my_reservation"}),
    ],
)
def test_additional_parameters_of_the_scheduler(given: str, options: dict[str, str]) -> None:
    spec = typed(f"ADDITIONAL_SLURM_PARAMS='{given}' JOB_TOTAL_GPUS=128 GPU_TYPE=gb200 ./launch.sh", "llama3.1")
    assert {name: spec.plugin_settings["slurm"]["sbatch"].get(name) for name in options} == options


def test_llama31_on_megatron_bridge_profiled() -> None:
    line = "GPU_TYPE=gb200 llmb-run single -w pretrain_llama3.1 -s 405b --dtype fp8 --scale 128 -p"
    for metrics in (False, True):
        spec = typed(f"ENABLE_GPU_METRICS=true {line}" if metrics else line)
        assert spec.profile and (spec.profile.start, spec.profile.stop, spec.profile.ranks) == (45, 50, "all")
        assert settings_of(spec, NsysSettings).gpu_metrics == metrics
    moved = typed(f"RUN_CONF_PROFILE_START_STEP=20 RUN_CONF_PROFILE_STOP_STEP=25 {line}").profile
    assert moved and (moved.start, moved.stop) == (20, 25)


@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
@pytest.mark.parametrize(("size", "first", "last"), [("8b", 8, 128), ("70b", 64, 2048), ("405b", 512, 2048)])
def test_llama31_on_nemo_2(dtype: str, size: str, first: int, last: int) -> None:
    for gpus in (first, last):
        line = f"DTYPE={dtype} MODEL_SIZE={size} JOB_TOTAL_GPUS={gpus} GPUS_PER_NODE=8 ./launch.sh"
        spec = typed(line, "llama3.1", "nemo2")
        assert said(spec) == (size, dtype, "h100", gpus, "nemo2") and (spec.steps, spec.window) == (50, "last")


def test_llama31_on_nemo_2_profiled_traced_and_with_checkpoints() -> None:
    line = "DTYPE=fp8 MODEL_SIZE=70b JOB_TOTAL_GPUS=256 GPUS_PER_NODE=8 ./launch.sh"
    profiled = typed(f"ENABLE_PROFILE=true {line}", "llama3.1", "nemo2")
    assert profiled.profile and profiled.steps == 25
    assert (profiled.profile.start, profiled.profile.stop, profiled.profile.ranks) == (20, 25, "0-7")
    assert typed(f"ENABLE_NCCLTRACE=true {line}", "llama3.1", "nemo2").trace is not None
    assert typed(f"ENABLE_CHECKPOINT=true {line}", "llama3.1", "nemo2").checkpoint.save
    assert typed(f"LOAD_CHECKPOINT_PATH=/c {line}", "llama3.1", "nemo2").checkpoint.load == "/c"


@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_llama2_on_maxtext(dtype: str) -> None:
    """Its page is started by sbatch with a number of nodes; 32 of them are 256 GPUs."""
    spec = typed(f"DTYPE={dtype} JOB_TOTAL_GPUS=256 GPU_TYPE=h100 ./launch.sh", "llama2")
    assert (spec.size, spec.dtype, spec.gpus, spec.nodes, spec.global_batch_size) == ("70b", dtype, 256, 32, 512)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("llmb-run single -w pretrain_llama4_maverick -s 400b --dtype fp8 --scale 128", ("400b", "fp8", "gb200", 128)),
        (
            "llmb-run single -w pretrain_llama4_maverick -s 400b --dtype bf16 --scale 256",
            ("400b", "bf16", "gb200", 256),
        ),
        ("JOB_TOTAL_GPUS=128 DTYPE=bf16 GPU_TYPE=gb200 ./launch.sh", ("400b", "bf16", "gb200", 128)),
        ("JOB_TOTAL_GPUS=256 DTYPE=fp8 GPU_TYPE=gb200 ./launch.sh", ("400b", "fp8", "gb200", 256)),
        ("JOB_TOTAL_GPUS=512 DTYPE=fp8 GPU_TYPE=h100 ./launch.sh", ("400b", "fp8", "h100", 512)),
        ("JOB_TOTAL_GPUS=128 GPU_TYPE=gb200 ./launch.sh", ("400b", "bf16", "gb200", 128)),
    ],
)
def test_maverick(line: str, says: tuple[Any, ...]) -> None:
    spec = typed(line, "" if "llmb-run" in line else "llama4")
    assert said(spec) == (*says, "nemo2") and spec.window == "11-44"


def test_maverick_profiled_and_traced() -> None:
    profile = typed("ENABLE_PROFILE=true JOB_TOTAL_GPUS=128 DTYPE=bf16 GPU_TYPE=gb200 ./launch.sh", "llama4").profile
    assert profile and (profile.start, profile.stop, profile.ranks) == (45, 50, "0-8")
    traced = typed("ENABLE_NCCLTRACE=true JOB_TOTAL_GPUS=256 DTYPE=fp8 GPU_TYPE=gb200 ./launch.sh", "llama4")
    assert traced.trace is not None


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("llmb-run single -w pretrain_grok1 -s 314b --dtype fp8 --scale 128", ("314b", "fp8", "gb200", 128)),
        ("llmb-run single -w pretrain_grok1 -s 314b --dtype bf16 --scale 256", ("314b", "bf16", "gb200", 256)),
        ("JOB_TOTAL_GPUS=128 DTYPE=fp8 ./launch.sh", ("314b", "fp8", "gb200", 128)),
        ("JOB_TOTAL_GPUS=256 DTYPE=bf16 ./launch.sh", ("314b", "bf16", "gb200", 256)),
        ("JOB_TOTAL_GPUS=512 DTYPE=bf16 ./launch.sh", ("314b", "bf16", "gb200", 512)),
    ],
)
def test_grok1(line: str, says: tuple[Any, ...]) -> None:
    spec = typed(line, "" if "llmb-run" in line else "grok1")
    assert said(spec) == (*says, "nemo2") and spec.window == "11-44"


def test_grok1_profiled_and_traced() -> None:
    profile = typed("ENABLE_PROFILE=true JOB_TOTAL_GPUS=256 DTYPE=fp8 ./launch.sh", "grok1").profile
    assert profile and (profile.start, profile.stop, profile.ranks) == (45, 50, "all")
    assert typed("ENABLE_NCCLTRACE=true JOB_TOTAL_GPUS=256 DTYPE=fp8 ./launch.sh", "grok1").trace is not None


def test_the_command_line_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the command itself, with the variables in the environment."""
    monkeypatch.setenv("JOB_TOTAL_GPUS", "128")
    monkeypatch.setenv("DTYPE", "fp8")
    done = CliRunner().invoke(command, ["grok1", "--dry-run"])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("grok1 314b fp8 on 128 x gb200, 50 steps, recipe nemo2, ")
