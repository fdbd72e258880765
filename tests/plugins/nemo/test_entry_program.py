"""The parts of a rank's program that need no framework: ranks, threads, drivers, checkpoints, versions."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import llmbx_nemo
from llmbx.entry import rank
from llmbx.model import ImageSource, RunSpec
from llmbx.plugins.payload import payload_files
from llmbx_nemo.entry import checkpoints, config, fake_te, train
from llmbx_nemo.image_versions import ImageVersions, image_versions

ENTRY = Path(llmbx_nemo.__path__[0]) / "entry"


def test_torch_gets_llmbxs_rank_and_address() -> None:
    this = rank.Rank(number=3, local=1, world=8, local_world=2, node=1, address="10.0.0.7", port=12008)
    assert train.rank_environment(this) == {
        "RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "10.0.0.7", "MASTER_PORT": "12008",
    }  # fmt: skip


@given(st.integers(1, 512), st.integers(1, 512))
def test_threads_fit_the_cores(cores: int, ranks: int) -> None:
    found = train.threads(cores, ranks, mini=False)
    assert 1 <= found <= train.CPU_THREADS and (found == 1 or found * ranks <= cores)
    assert train.threads(cores, ranks, mini=True) == 1, "a second thread slows a mini down"


def test_the_error_about_a_missing_driver_is_one_line_and_names_the_image() -> None:
    spec = {"driver": "nemo2", "recipe": "nemo2", "image": {"reference": "nvcr.io#nvidia/nemo:25.04.00"}}
    line = train.missing_driver(spec)
    assert (
        line
        and "NeMo 2" in line
        and "the image nvcr.io#nvidia/nemo:25.04.00 should have it" in line
        and "\n" not in line
    )
    built = train.missing_driver(
        {"driver": "megatron-bridge", "recipe": "mini", "image": None, "environment": "megatron-bridge-cpu"}
    )
    assert built and "megatron-bridge-cpu" in built
    assert "unknown" in (train.missing_driver({"driver": "abacus"}) or "")


def test_the_program_stops_with_status_2_before_anything_else_when_its_driver_is_missing(
    tmp_path: Path, make_spec: Callable[..., RunSpec]
) -> None:
    """It is started as in a run folder: with a copy of the code, and without an installed llmbx."""
    spec = make_spec(driver="nemo2", image=ImageSource(reference="nvcr.io#nvidia/nemo:25.04.00", source="test"))
    for name, content in payload_files(spec, "llmbx_nemo").items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    argv = [sys.executable, "-S", "code/train.py"]
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


def test_a_checkpoint_folder_is_the_parent_of_weights(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    assert "does not exist" in checkpoints.unusable(folder)
    (folder / "iter_0000050").mkdir(parents=True)
    (folder / "iter_0000050" / "__0_0.distcp").touch()
    assert checkpoints.saved_step(folder) is None and "is not a Megatron checkpoint" in checkpoints.unusable(folder)
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


WHOLE = {"cuda_graph_impl": "local", "cuda_graph_scope": ["full_iteration"]}
PARTS = {"cuda_graph_impl": "transformer_engine", "cuda_graph_scope": ["attn", "moe_router"]}
NONE = {"cuda_graph_impl": "none"}
NAMED = {"cuda_graph_impl", "cuda_graph_scope"}
KINDS = "Literal['none', 'local', 'transformer_engine', 'full_iteration']"


# The fields are those of the model configuration of Megatron-Bridge 0.1.0rc3, 0.2.0rc6, 0.3.0 and 0.6.2.
@pytest.mark.parametrize(
    ("fields", "known", "impl", "scope", "expected"),
    [
        (WHOLE, {"enable_cuda_graph"}, "", "str", {"enable_cuda_graph": True, "external_cuda_graph": False}),
        (PARTS, {"enable_cuda_graph"}, "", "str", {"enable_cuda_graph": False, "external_cuda_graph": True}),
        (NONE, {"enable_cuda_graph"}, "", "str", {"enable_cuda_graph": False, "external_cuda_graph": False}),
        (WHOLE, NAMED, "str", "str", {"cuda_graph_impl": "local", "cuda_graph_scope": "full_iteration"}),
        (PARTS, NAMED, "str", "str", {"cuda_graph_impl": "transformer_engine", "cuda_graph_scope": "attn"}),
        (WHOLE, NAMED, "str", "list[CudaGraphScope]", WHOLE),
        (PARTS, NAMED, "str", "list[CudaGraphScope]", PARTS),
        (WHOLE, NAMED, KINDS, "list[str]", {"cuda_graph_impl": "full_iteration", "cuda_graph_scope": []}),
        (NONE, NAMED, KINDS, "list[str]", NONE),
    ],
)
def test_cuda_graph_fields_are_those_of_each_version(
    fields: dict[str, Any], known: set[str], impl: str, scope: str, expected: dict[str, Any]
) -> None:
    found = config.graphs({**fields, "num_layers": 4}, known, impl, scope)
    assert found == {**expected, "num_layers": 4}


def test_loops_without_callback_support_notify_callbacks_through_wrapped_functions(
    monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """Fake modules replace `megatron.bridge.training` of version 0.1, with its names."""
    events: list[str] = []

    def train_step(forward: str, model: str, optimizer: str, scheduler: str, global_state: str) -> int:
        events.append(f"step {forward}")
        return 7

    def train(forward: str, model: str, optimizer: str, scheduler: str, global_state: str) -> None:
        results.append(loop_module.train_step(forward, model, optimizer, scheduler, global_state))

    results: list[int] = []
    package = types.ModuleType("megatron.bridge.training")
    loop_module: Any = types.ModuleType("megatron.bridge.training.train")
    program: Any = types.ModuleType("megatron.bridge.training.pretrain")
    loop_module.train, loop_module.train_step, program.train = train, train_step, train
    package.train, package.pretrain = loop_module, program  # type: ignore[attr-defined]
    for name in ("megatron", "megatron.bridge"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    for module in (package, loop_module, program):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    from llmbx_nemo.entry import loop

    class Watch(loop.Callback):
        def on_train_start(self, context: Any) -> None:
            events.append(f"start {context.optimizer}")

        def on_train_step_end(self, context: Any) -> None:
            events.append(f"end of step {context.state}")

        def on_train_end(self, context: Any) -> None:
            events.append("end")

    loop.attach([Watch()])
    program.train("forward", "model", "adam", "cosine", global_state="state")
    assert events == ["start adam", "step forward", "end of step state", "end"] and results == [7]


def test_the_saved_step_is_found_for_versions_that_write_no_tracker_file(tmp_path: Path) -> None:
    """Megatron-Bridge 0.1.0rc3 writes latest_train_state.pt; a folder without its own state is incomplete."""
    for name in ("iter_0000002", "iter_0000004"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train_state.pt").touch()
    (tmp_path / "iter_0000006").mkdir()
    assert checkpoints.saved_step(tmp_path) is None, "nothing says that a save was finished"
    (tmp_path / "latest_train_state.pt").touch()
    assert checkpoints.saved_step(tmp_path) == 4
    checkpoints.name_weights(tmp_path)
    assert (tmp_path / "latest_checkpointed_iteration.txt").read_text() == "4"
    assert (tmp_path / "weights").resolve().name == "iter_0000004"


@pytest.mark.parametrize("image", image_versions(), ids=lambda image: image.tag)
def test_the_transformer_engine_of_every_image_is_known(image: ImageVersions) -> None:
    """A check of Megatron that needs a newer one must neither fire nor be missed."""
    package, _, installed = image.packages[0].partition("==")
    releases = fake_te.VERSIONS[package]
    assert any(installed.startswith(release) for release in releases), f"add {package} {installed}"
    assert fake_te.version(package, installed) in releases.values()


def test_the_newest_bridge_has_the_transformer_engine_of_its_lock_file() -> None:
    assert fake_te.version("megatron-bridge", "0.6.2") == "2.17.1"
    assert fake_te.version("megatron-bridge", "0.1.0rc3") == "2.7.0"
