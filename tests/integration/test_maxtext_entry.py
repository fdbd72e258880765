"""The MaxText plugin's launches, started as they are: real training on CPU, and PGLE's phases as processes.

PGLE's phases are tested with a small trainer in MaxText's place (tests/fixtures/small_maxtext: real JAX, over processes
and forced devices, with real profiles), and once with MaxText itself. That a profile makes a step faster, that nsys
records XLA's ranges and that JAX recompiles with costs takes a GPU.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from llmbx.config.install import Install
from llmbx.config.profiles import Config
from llmbx.config.request import Request
from llmbx.launchers.local import LocalLauncher
from llmbx.model import Image, JobStatus, RunSpec, Wrapping
from llmbx.plugins.manager import load
from llmbx.resolve import resolve
from llmbx.run.collect import Log, collect_file
from llmbx_environments.venv.runtime import VenvRuntime
from llmbx_maxtext.configuration import expected
from llmbx_maxtext.entry.profile_cache import problem
from llmbx_maxtext.flops import compute
from llmbx_maxtext.grammar import parser
from llmbx_maxtext.launch import launch, request

from ..patience import PATIENCE_S
from .conftest import files_of

SMALL = Path(__file__).parents[1] / "fixtures" / "small_maxtext"
TERA = 1e12


@pytest.fixture(scope="session")
def maxtext_python(shared_install: Path) -> str:
    """An interpreter with MaxText: that of LLMBX_TEST_MAXTEXT_PYTHON, or of the environment that the lock describes."""
    given = os.environ.get("LLMBX_TEST_MAXTEXT_PYTHON")
    if given:
        return given
    Install(root=str(shared_install), origin="test").ensure()
    return VenvRuntime().prepare(request(resolved("llama2", shared_install)), shared_install, print).python


def resolved(workload: str, install: Path, **asked: Any) -> RunSpec:
    """The run that the command line would resolve to."""
    found = Request(workload=workload, plugin="maxtext", gpu_type="cpu", **asked)
    return resolve(found, load(), Config(), {}, {}, install=str(install))


class Ended:
    """A run that has ended: how, and what it left."""

    def __init__(self, spec: RunSpec, folder: Path, status: JobStatus) -> None:
        self.spec, self.folder, self.status = spec, folder, status
        self.log: Log = collect_file(parser(spec), folder / f"log-{spec.experiment}.out")
        self.text = (folder / f"log-{spec.experiment}.out").read_text()
        self.script = (folder / f"sbatch_{spec.experiment}.out").read_text()

    @property
    def phases(self) -> dict[str, dict[str, Any]]:
        """The phases that were entered and left, with their times."""
        return {phase["role"]: phase for phase in json.loads((self.folder / "exit.json").read_text())["phases"]}

    @property
    def ran(self) -> list[str]:
        """The phases that ran, in order."""
        return [role for role, phase in self.phases.items() if not phase["skipped"]]


class Start:
    """`start("llama2", small=True, gpus=2, …)`: one run through the local launcher, in an install of its own."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder = folder
        self.image = Image(kind="venv", reference="maxtext-cpu", python=python, digest="sha256:test")

    def __call__(
        self, workload: str, small: bool = False, env: Mapping[str, str] = {}, variables: Mapping[str, str] = {},
        **asked: Any,
    ) -> Ended:  # fmt: skip
        """`env` is the environment of the launcher, `variables` are those of `--env`."""
        spec = resolved(workload, self.folder / "install", env=dict(variables), **asked)
        folder = self.folder / f"run-{time.time_ns()}"
        folder.mkdir()
        made, launcher = launch(spec, self.image), LocalLauncher()
        script = folder / "run.sh"
        script.write_text(launcher.render(spec, made, tuple(Wrapping() for _ in made.phases), folder))
        place = {"PYTHONPATH": str(SMALL)} if small else {}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {"LLMBX_STOP_GRACE_S": "2", **place, **env}.items():
                patch.setenv(name, value)
            job = launcher.submit(script, spec, folder)
        end = time.monotonic() + PATIENCE_S
        while (status := launcher.status(job, folder)).state == "running":
            assert time.monotonic() < end, "it does not end"
            time.sleep(0.2)
        return Ended(spec, folder, status)

    def keep(self, profile: Path) -> Path:
        """Copy the cached profile of another install into the install of these runs."""
        mine = self.folder / "install" / "pgle" / profile.name
        shutil.copytree(profile, mine)
        return mine


@pytest.fixture
def start(tmp_path: Path, maxtext_python: str) -> Start:
    return Start(tmp_path, maxtext_python)


PGLE = {"pgle": "cpu-standin", "processes": "2"}


def rehearse(start: Start, **more: Any) -> Ended:
    """A run with PGLE over two processes of one device each, with the small trainer."""
    return start("llama2", small=True, gpus=2, steps=6, settings=PGLE, **more)


def profile_of(ended: Ended) -> dict[str, Any]:
    """What the run was told of its profile."""
    told: dict[str, Any] = json.loads((ended.folder / "spec.json").read_text())["pgle"]
    return told


def profile_folder(ended: Ended) -> Path:
    return Path(profile_of(ended)["folder"])


@pytest.fixture(scope="session")
def collected(maxtext_python: str, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """A run that collected its profile, while its second rank took three seconds longer than the first."""
    return rehearse(Start(tmp_path_factory.mktemp("collected"), maxtext_python), env={"SMALL_SLOW": "collect:1"})


def test_phases_run_in_order_and_each_is_waited_for(collected: Ended) -> None:
    found = collected
    assert found.status.exit_code == 0, found.text
    assert found.ran == ["check", "collect", "convert", "measure"]
    collect, convert, measure = (found.phases[role] for role in ("collect", "convert", "measure"))
    assert collect["ended"] - collect["started"] > 3 and collect["ended"] <= convert["started"]
    published = (profile_folder(found) / "key.json").stat().st_mtime
    assert convert["started"] <= published <= convert["ended"] <= measure["started"]
    for rank in range(2):
        lines = [line for line in (found.folder / f"rank-{rank}.log").read_text().splitlines() if "completed" in line]
        assert len(lines) == 15 + 6
    assert [step.number for step in found.log.steps] == list(range(6))


def test_a_profile_is_cached_and_used_again(start: Start, collected: Ended) -> None:
    folder = start.keep(profile_folder(collected))
    second = rehearse(start)
    assert second.status.exit_code == 0, second.text
    assert second.ran == ["check", "measure"] and profile_folder(second) == folder
    assert second.phases["collect"]["skipped"] and second.phases["convert"]["skipped"]
    assert "using cached PGLE profile" in second.text and "skipping phases collect and convert" in second.text
    seen, cached = (
        [event.facts for event in ended.log.events if event.kind == "phase_time"] for ended in (collected, second)
    )
    assert len(seen) == len(cached) == 1 and seen[0]["role"] == cached[0]["role"] == "collect"
    assert 0 < float(seen[0]["step_time_s"]) == pytest.approx(float(cached[0]["step_time_s"]), abs=0.00005)


def test_another_model_gets_a_profile_of_its_own(start: Start, collected: Ended) -> None:
    folder = start.keep(profile_folder(collected))
    other = start("llama2", small=True, gpus=2, steps=6, settings={**PGLE, "layers": "2"})
    assert profile_folder(other) != folder and "collect" in other.ran


def test_a_damaged_profile_is_renamed_and_collected_again(start: Start, collected: Ended) -> None:
    folder = start.keep(profile_folder(collected))
    costs = folder / "costs.pbtxt"
    costs.write_bytes(costs.read_bytes().replace(b"cost_us: ", b"cost_us: 9", 1)[:-1])
    again = rehearse(start)
    assert again.status.exit_code == 0, again.text
    assert again.ran == ["check", "collect", "convert", "measure"]
    assert "costs.pbtxt is damaged; renamed to" in again.text
    assert list(folder.parent.glob(f"{folder.name}.bad-*")) and costs.is_file()


@pytest.mark.parametrize("rank", [0, 1])
def test_a_failure_while_collecting_stops_the_run(start: Start, rank: int) -> None:
    found = rehearse(start, env={"SMALL_FAIL": f"collect:{rank}"})
    assert found.status.exit_code != 0 and found.status.phase == "collect"
    assert found.ran == ["check"] and not profile_folder(found).exists()
    assert found.log.steps == []


def test_an_empty_profile_is_not_cached_and_nothing_is_measured(start: Start) -> None:
    found = rehearse(start, env={"SMALL_EMPTY": "1"})
    assert (found.status.exit_code, found.status.phase) == (1, "convert")
    assert found.ran == ["check", "collect"] and not list(profile_folder(found).parent.iterdir())
    (event,) = [event for event in found.log.events if event.fatal]
    assert "the trace contains no XLA operations" in event.text


def test_a_failure_while_measuring_keeps_the_profile(start: Start, collected: Ended) -> None:
    start.keep(profile_folder(collected))
    found = rehearse(start, env={"SMALL_FAIL": "measure:1"})
    assert found.status.exit_code != 0 and found.status.phase == "measure"
    assert found.ran == ["check"] and problem(profile_of(found)) is None


def test_jaxs_own_pgle_is_not_believed_without_a_gpu(start: Start) -> None:
    """JAX collects, finds nothing and compiles nothing anew: the run says so instead of measuring something else."""
    found = start("llama2", gpus=1, steps=5, settings={"pgle": "jax"})
    assert (found.status.exit_code, found.status.phase) == (1, "convert"), found.text
    assert "JAX compiled no program with collected costs" in found.text
    assert "PGLE collected an empty trace" in found.text and found.log.steps == []


def test_llama2_trains(start: Start, record_property: Callable[[str, object], None]) -> None:
    """FSDP over four forced devices: the real MaxText, its own log line, and FLOPs that agree with ours."""
    found = start("llama2", gpus=4, steps=12)
    assert found.status.exit_code == 0, found.text
    assert [step.number for step in found.log.steps] == list(range(12)) and found.log.attempts == 1
    losses = [step.loss or 0.0 for step in found.log.steps]
    assert losses[0] > losses[-1] > 0 and losses[0] == pytest.approx(7.5, abs=0.3)  # ln 1024 = 6.9 and a little more
    assert "Num_devices: 4, shape (1, 1, 1, 4," in found.text
    evidence = json.loads((found.folder / "configs/final.json").read_text())
    assert evidence["versions"]["maxtext"] == "0.2.5" and len(evidence["final"]) > 500
    assert (evidence["final"]["steps"], evidence["final"]["ici_fsdp_parallelism"]) == (12, 4)
    flops = compute(found.spec.model).causal / found.spec.model.sequence_length
    step = max(found.log.steps, key=lambda step: step.tflops_per_gpu or 0)
    assert step.tflops_per_gpu and step.tokens_per_s_per_gpu
    rounding = 0.0005 / step.tflops_per_gpu
    assert step.tflops_per_gpu * TERA / step.tokens_per_s_per_gpu == pytest.approx(flops, rel=rounding + 1e-3)
    seen = json.loads((found.folder / "seen.json").read_text())
    assert seen["versions"]["maxtext"] == "0.2.5" and seen["affinity"] and seen["environment"]["JAX_PLATFORMS"] == "cpu"
    proven = {"claim": "trains", "workload": "llama2", "version": "MaxText 0.2.5", "ranks": 1, "split": "FSDP 4"}
    record_property("proves", proven)


def test_a_mixture_of_experts_trains(start: Start, record_property: Callable[[str, object], None]) -> None:
    found = start("mixtral", gpus=4, steps=8, settings={"ep": "2"})
    assert found.status.exit_code == 0, found.text
    assert [step.number for step in found.log.steps] == list(range(8))
    assert "moe_lb_loss" in found.text and found.log.steps[-1].loss is not None
    proven = {"claim": "trains", "workload": "mixtral", "version": "MaxText 0.2.5", "ranks": 1, "split": "EP 2 FSDP 2"}
    record_property("proves", proven)


@pytest.mark.parametrize("name", ["deepseek-v3", "gpt-oss", "llama3.1", "qwen3"])
def test_the_layers_of_other_models_train(
    name: str, start: Start, record_property: Callable[[str, object], None]
) -> None:
    """Two layers of each: what MaxText trained with is what it was asked for."""
    found = start(f"maxtext-{name}", gpus=1, steps=4, settings={"layers": "2"})
    assert found.status.exit_code == 0, found.text
    assert [step.number for step in found.log.steps] == list(range(4))
    final = json.loads((found.folder / "configs/final.json").read_text())["final"]
    assert expected(found.spec, found.folder).differences(final) == []
    proven = {"claim": "trains", "workload": f"maxtext-{name}", "version": "MaxText 0.2.5", "ranks": 1}
    record_property("proves", proven)


def test_maxtext_itself_goes_through_pgle(start: Start) -> None:
    found = start("llama2", gpus=2, steps=6, settings={"pgle": "cpu-standin"})
    assert found.status.exit_code == 0, found.text
    assert found.ran == ["check", "collect", "convert", "measure"]
    costs = (profile_folder(found) / "costs.pbtxt").read_text().splitlines()
    assert len(costs) > 100 and all(line.startswith('costs { name: "') for line in costs)
    assert len(found.log.steps) == 6


def test_a_profile_of_jax_lies_where_maxtext_puts_it(start: Start) -> None:
    found = start("llama2", gpus=1, steps=8, profile_steps="4-6", profile_tool="xplane")
    assert found.status.exit_code == 0, found.text
    (profile,) = found.folder.glob("maxtext/*/tensorboard/plugins/profile/*/*.xplane.pb")
    assert profile.stat().st_size > 100_000
    assert [step.number for step in found.log.steps if step.time_s is None] == [6, 7]


CHECK = """
import json, sys
import jax
from maxtext.configs import types
jax.devices()  # XLA reads its flags here, and ends the process on one that it does not know
known = {**types.MaxTextConfig.model_fields}
print(json.dumps([name for name in json.loads(sys.argv[1]) if name not in known]))
"""


def test_todays_maxtext_and_xla_know_every_word_of_a_cluster_launch(maxtext_python: str, tmp_path: Path) -> None:
    """Arguments and flags for Llama 2 70B on GPUs with MaxText 0.2, both phases, both PGLE modes, in one process."""
    names: set[str] = set()
    flags: set[str] = set()
    for pgle in ("jax", "nsys"):
        asked = Request(workload="llama2", plugin="maxtext", size="70b", dtype="fp8", gpu_type="h100", gpus=512,
                        settings={"maxtext": "0.2", "pgle": pgle, "profile_measured": "true"})  # fmt: skip
        spec = resolve(asked, load(), Config(), {}, {}, install=str(tmp_path))
        for phase in launch(spec, Image(kind="sif", reference="x", python="python3")).phases:
            if phase.role in ("collect", "measure"):
                names |= {argument.split("=")[0] for argument in phase.argv[3:]}
                flags |= {*phase.env["XLA_FLAGS"].split()}
    assert len(names) > 30 and len(flags) > 15
    given = {"JAX_PLATFORMS": "cpu", "DECOUPLE_GCLOUD": "TRUE", "XLA_FLAGS": " ".join(sorted(flags))}
    done = subprocess.run(
        [maxtext_python, "-c", CHECK, json.dumps(sorted(names))],
        env={**os.environ, **given}, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_an_argument_that_maxtext_does_not_know_is_told(start: Start) -> None:
    found = start("llama2", steps=5, settings={"extra": "stepz=3"})
    assert found.status.exit_code in (1, 2)
    assert [event.kind for event in found.log.events if event.fatal][:1] == ["config_error"]


def test_a_flag_that_xla_does_not_know_ends_the_run_before_the_training_in_one_line(start: Start) -> None:
    found = start(
        "llama2", small=True, gpus=2, steps=3, settings={"processes": "2"}, variables={"XLA_FLAGS": "--xla_no_such=1"}
    )
    assert found.status.exit_code == 2 and found.log.steps == []
    (event,) = [event for event in found.log.events if event.fatal]
    assert "--xla_no_such=1: remove your own flags from XLA_FLAGS" in event.text
    assert "Traceback" not in found.text and "Aborted" not in found.script


def test_an_image_without_maxtext_is_told_in_one_line(start: Start, tmp_path: Path) -> None:
    code = start("llama2", small=True, steps=3).folder
    done = subprocess.run(
        ["/usr/bin/env", "python3", "-S", "code/train.py", "train", "steps=3"],
        cwd=code,
        env={"PATH": os.environ["PATH"], "LLMBX_SPEC": "spec.json"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "recipe 'mini' needs MaxText 0.2 (package maxtext)" in done.stderr


def test_secrets_stay_out_of_what_was_seen(start: Start) -> None:
    found = start("llama2", small=True, steps=3, env={"HF_TOKEN": "planted-secret-1234"})
    assert found.status.exit_code == 0, found.text
    for file in found.folder.rglob("*"):
        assert not file.is_file() or b"planted-secret-1234" not in file.read_bytes(), file


def test_the_command_as_typed(
    maxtext_python: str, read_result: Callable[[Path], dict[str, Any]], shared_install: Path
) -> None:
    """As a user types it: 50 real steps, in a network namespace with nothing in it, not even loopback."""
    command = Path(sys.executable).with_name("llmbx")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LLMB", "SLURM", "SBATCH"))}
    done = subprocess.run(
        ["unshare", "--net", str(command), "run", "--plugin", "maxtext", "llama2"],
        env={**kept, "LLMB_INSTALL": str(shared_install), "LLMBX_CONFIG": "/dev/null"},
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "step 50/50" in done.stderr and "to go" in done.stderr
    folder = files_of(done.stdout)
    result = read_result(folder)
    assert (result["status"], result["data_valid"], result["steps_seen"]) == ("completed", True, 50)
    assert result["workload"]["plugin"] == "maxtext" and result["workload"]["gpus"] == 1
    assert result["window"]["policy"] == "auto" and result["window"]["first"] > 0
    assert result["loss"]["last"] < result["loss"]["first"] - 1, "it learns"
    assert result["mfu"]["value"] is None and result["comparable"] is False
    assert result["flops_per_sample"]["causal"] < result["flops_per_sample"]["full"]
    assert result["image"]["digest"] and (folder / "seen.json").is_file()
