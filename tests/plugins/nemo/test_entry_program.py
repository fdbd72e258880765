"""The program of one rank, as far as it needs no framework: ranks, threads, facts, drivers, checkpoints, versions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import llmbx_nemo
from llmbx_nemo.entry import checkpoints, config, seen, train

ENTRY = Path(llmbx_nemo.__path__[0]) / "entry"


def test_ranks_come_from_llmbx_and_a_lone_process_needs_none() -> None:
    ours = {"LLMBX_RANK": "3", "LLMBX_WORLD_SIZE": "8", "LLMBX_MASTER_ADDR": "node7", "RANK": "0"}
    found = train.rank_environment(ours)
    assert (found["RANK"], found["WORLD_SIZE"], found["MASTER_ADDR"]) == ("3", "8", "node7")
    assert train.rank_environment({})["WORLD_SIZE"] == "1" and train.rank_environment({"RANK": "2"})["RANK"] == "2"


@given(st.integers(1, 512), st.integers(1, 512))
def test_threads_fit_the_cores(cores: int, ranks: int) -> None:
    found = train.threads(cores, ranks)
    assert 1 <= found <= train.CPU_THREADS and (found == 1 or found * ranks <= cores)


def test_a_missing_driver_is_said_in_one_line_with_the_image_that_has_it() -> None:
    spec = {"driver": "nemo2", "recipe": "nemo2", "image": {"reference": "nvcr.io#nvidia/nemo:25.04.00"}}
    line = train.missing_driver(spec)
    assert line and "NeMo 2" in line and "the image nvcr.io#nvidia/nemo:25.04.00 has it" in line and "\n" not in line
    built = train.missing_driver(
        {"driver": "megatron-bridge", "recipe": "mini", "image": None, "environment": "megatron-bridge-cpu"}
    )
    assert built and "megatron-bridge-cpu" in built
    assert "unknown" in (train.missing_driver({"driver": "abacus"}) or "")


def test_the_program_stops_with_status_2_before_anything_else_when_its_driver_is_missing(tmp_path: Path) -> None:
    """Started as in a run folder: the code lies beside it, and nothing of llmbx is installed."""
    code = tmp_path / "code"
    (code / "llmbx_nemo" / "entry").mkdir(parents=True)
    for name in ("__init__.py", "seen.py"):
        (code / "llmbx_nemo" / "entry" / name).write_bytes((ENTRY / name).read_bytes())
    (code / "llmbx_nemo" / "__init__.py").touch()
    (code / "train.py").write_bytes((ENTRY / "train.py").read_bytes())
    spec = {"driver": "nemo2", "recipe": "nemo2", "image": {"reference": "nvcr.io#nvidia/nemo:25.04.00"}}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    argv = [sys.executable, "-I", "-c", f"import sys, runpy; sys.path.insert(0, {str(code)!r}); "
            f"runpy.run_path({str(code / 'train.py')!r}, run_name='__main__')"]  # fmt: skip
    for local_rank, lines in (("0", 1), ("1", 0)):
        env = {"PATH": os.environ["PATH"], "LLMBX_LOCAL_RANK": local_rank}
        done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == lines and done.stderr.startswith("llmbx: error: "[: 99 * lines])


def test_memory_is_limited_to_the_ranks_share(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9000000 kB\nMemAvailable:    4000000 kB\n")
    text = (
        f"import sys, resource; sys.path.insert(0, {str(ENTRY.parents[1])!r})\n"
        "from pathlib import Path\nfrom llmbx_nemo.entry import train\n"
        f"train.limit_memory(2, Path({str(meminfo)!r}))\n"
        "print(resource.getrlimit(resource.RLIMIT_DATA)[0])\n"
        "try:\n    bytearray(3_000_000_000)\nexcept MemoryError:\n    print('refused')\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(4000000 * 1024 // 2), "refused"]


def test_seen_hides_secrets_and_keeps_the_rest() -> None:
    env = {"HF_TOKEN": "abc", "MY_API_KEY": "def", "TOKENIZERS_PARALLELISM": "False", "PATH": "/bin"}
    assert seen.redacted(env) == {
        "HF_TOKEN": "***",
        "MY_API_KEY": "***",
        "PATH": "/bin",
        "TOKENIZERS_PARALLELISM": "False",
    }


@given(st.sets(st.integers(0, 300)))
def test_compact_lists_can_be_read_back(numbers: set[int]) -> None:
    text = seen.compact(numbers)
    spans = [part.split("-") for part in text.split(",") if part]
    assert {n for span in spans for n in range(int(span[0]), int(span[-1]) + 1)} == numbers


def test_versions_are_read_without_an_import() -> None:
    assert seen.versions(["pytest", "no-such-package"]) == {"pytest": pytest.__version__}


def test_a_checkpoint_folder_is_the_parent_of_weights(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    assert "is not there" in checkpoints.unusable(folder)
    (folder / "iter_0000050").mkdir(parents=True)
    (folder / "iter_0000050" / "__0_0.distcp").touch()
    assert checkpoints.saved_step(folder) is None and "no Megatron checkpoint" in checkpoints.unusable(folder)
    (folder / checkpoints.TRACKER).write_text("50")
    for _ in range(2):
        checkpoints.name_weights(folder)
        assert list((folder / "weights").glob("*.distcp")) == [folder / "weights" / "__0_0.distcp"]
    assert checkpoints.saved_step(folder) == 50
    nemo = tmp_path / "default--None=0.0000-epoch=0"
    (nemo / "weights").mkdir(parents=True)
    (nemo / "weights" / "__0_0.distcp").touch()
    assert "NeMo 2 checkpoint" in checkpoints.unusable(nemo)


@dataclass
class Train:
    train_iters: int = 0
    eval_iters: int | None = None


@dataclass
class Validation:
    eval_iters: int = 1


@dataclass
class Model:
    cuda_graph_impl: Literal["none", "local"] = "none"


@dataclass
class LaterModel:
    cuda_graph_impl: Literal["none", "full_iteration"] = "none"


def test_fields_go_where_the_installed_version_has_them() -> None:
    sections: dict[str, Any] = {"train": {"train_iters": 5, "eval_iters": 0}, "comm_overlap": None}
    old = {"train": config.fields_of(Train), "validation": set[str]()}
    assert config.relocate(sections, old) == sections
    new = {"train": config.fields_of(Train), "validation": config.fields_of(Validation)}
    assert config.relocate(sections, new) == {
        "train": {"train_iters": 5},
        "validation": {"eval_iters": 0},
        "comm_overlap": None,
    }


def test_a_field_that_matters_must_exist_and_one_that_tunes_may_be_missing() -> None:
    with pytest.raises(config.ConfigError, match=r"no train\.train_iter \(did you mean 'train_iters'\?\)"):
        config.assemble(Train, {"train_iter": 5}, "train")
    assert config.assemble(Train, {"train_iters": 5}, "train") == Train(train_iters=5)
    config.OPTIONAL.add("train.tuning")
    try:
        assert config.assemble(Train, {"tuning": 1}, "train") == Train()
    finally:
        config.OPTIONAL.discard("train.tuning")


def test_whole_iteration_graphs_have_two_names() -> None:
    fields = {"cuda_graph_impl": "local", "cuda_graph_scope": ["full_iteration"]}
    assert config.graph_fields(fields, Model) == {}

    assert config.graph_fields(fields, LaterModel) == {"cuda_graph_impl": "full_iteration", "cuda_graph_scope": []}
    assert config.graph_fields({"cuda_graph_impl": "none"}, LaterModel) == {}
