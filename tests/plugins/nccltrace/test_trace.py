"""Traced launches, and the checks before they start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from llmbx.model import Launch, Parallelism, Phase, RunSpec, TraceSpec
from llmbx_nccltrace import plugin
from llmbx_nccltrace.settings import TraceSettings
from llmbx_nccltrace.trace import enable_tracing, expected_bytes

LAUNCH = Launch(
    nodes=2,
    ranks_per_node=8,
    gpus_per_rank=1,
    phases=(
        Phase(role="collect", argv=("python", "train.py"), env={"A": "1"}),
        Phase(role="convert", argv=("python", "convert.py"), ranks="first"),
        Phase(role="train", argv=("python", "train.py"), env={"A": "1", "NCCL_DEBUG": "WARN", "NCCL_NVLS_ENABLE": "0"}),
    ),
    files={"train.py": b"pass"},
)


@pytest.fixture
def traced_run(make_spec: Callable[..., RunSpec]) -> Callable[..., RunSpec]:
    """`traced_run(**changes)` returns a traced run of 16 ranks on a cluster."""

    def made(**changes: Any) -> RunSpec:
        values = {"gpus": 16, "gpus_per_node": 8, "steps": 5, "launcher": "slurm", "trace": TraceSpec(tool="nccltrace")}
        return make_spec(**{**values, "parallelism": Parallelism(tp=4, dp=4), **changes})

    return made


def test_only_the_training_phase_is_traced(
    traced_run: Callable[..., RunSpec], golden: Callable[[str, str], None]
) -> None:
    launch = plugin.wrap_command(traced_run(), LAUNCH)
    assert launch is not None
    assert launch.phases[:2] == LAUNCH.phases[:2] and launch.files == LAUNCH.files
    assert launch.phases[2].argv == LAUNCH.phases[2].argv
    golden("traced.json", msgspec.json.format(msgspec.json.encode(launch), indent=2).decode() + "\n")


def test_files_per_rank_have_a_folder() -> None:
    trace = TraceSettings(trace_subsystems="INIT,COLL,NET,TUNING,P2P", trace_file_per_rank=True)
    launch = enable_tracing(trace, LAUNCH)
    env = launch.phases[2].env
    assert env["NCCL_DEBUG_FILE"] == "nccl_trace/nccl.%h.%p.log"
    assert env["NCCL_DEBUG_SUBSYS"] == "INIT,COLL,NET,TUNING,P2P"
    assert set(launch.files) == {"train.py", "nccl_trace/README"}


def test_a_phase_of_the_first_rank_only_is_not_the_training_phase() -> None:
    launch = enable_tracing(TraceSettings(), LAUNCH.replace(phases=(LAUNCH.phases[2], LAUNCH.phases[1])))
    assert launch.phases[0].env["NCCL_DEBUG"] == "INFO"
    assert launch.phases[1] == LAUNCH.phases[1]


def test_a_run_that_is_not_traced_is_unchanged(traced_run: Callable[..., RunSpec]) -> None:
    assert plugin.wrap_command(traced_run(trace=None), LAUNCH) is None
    assert plugin.check_spec(traced_run(trace=None)) == []


def test_an_unknown_subsystem_is_rejected_with_a_suggestion(traced_run: Callable[..., RunSpec]) -> None:
    found = plugin.check_spec(traced_run(plugin_settings={"nccltrace": {"trace_subsystems": "INIT,COL,^NET"}}))
    (refused,) = [finding for finding in found if not finding.warning]
    assert "no debug subsystem 'COL' (did you mean 'COLL'?)" in refused.problem


def test_the_size_is_estimated_and_grows_with_the_run(traced_run: Callable[..., RunSpec]) -> None:
    (finding,) = plugin.check_spec(traced_run())
    assert finding.warning and "1 GB" in finding.problem
    large = traced_run(gpus=2048, gradient_accumulation=64)
    assert expected_bytes(large) > 100 * expected_bytes(traced_run())
    (finding,) = plugin.check_spec(large)
    assert finding.warning and f"{expected_bytes(large) / 1e9:,.0f} GB" in finding.problem


def test_a_trace_on_cpus_is_a_warning(traced_run: Callable[..., RunSpec]) -> None:
    assert any("empty" in f.problem for f in plugin.check_spec(traced_run(gpu_type="cpu")))
