"""Classification of failures as infrastructure or application failures."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmbx.model import Event, JobStatus, Result, Step
from llmbx.run.collect import Log
from llmbx.run.verdict import infrastructure_cause, refusals

FAILED = JobStatus(state="ended", exit_code=1)
STEPS = [Step(number=1, time_s=0.1)]


def result(status: str = "failed", **more: object) -> Result:
    return Result(run_id="x_1", status=status, data_valid=False).replace(**more)  # type: ignore[arg-type]


def cause(*kinds: str, text: str = "it failed", steps: bool = False, status: JobStatus = FAILED) -> str | None:
    events = [Event(kind=kind, text=text, fatal=True) for kind in kinds]
    return infrastructure_cause(status, result(), Log(steps=STEPS if steps else [], events=events), [])


@pytest.mark.parametrize("kinds", [("network_error",), ("nccl_error",), ("port_in_use",), ("nccl_error", "peer_lost")])
def test_connection_errors_before_the_first_step_are_infrastructure_failures(kinds: tuple[str, ...]) -> None:
    assert cause(*kinds) == "it failed"
    assert cause(*kinds, steps=True) is None  # by then another rank's death looks the same


@pytest.mark.parametrize("kind", ["exception", "out_of_memory", "import_error", "killed", "disk_full", "config_error"])
def test_failures_that_the_application_may_have_caused_are_not(kind: str) -> None:
    assert cause(kind) is None
    assert cause(kind, "network_error") is None


def test_wrong_use_of_nccl_is_an_application_failure() -> None:
    assert cause("nccl_error", text="NCCL error: ncclInvalidArgument: datatype") is None


def test_a_gpu_that_reports_its_memory_broken() -> None:
    assert cause("gpu_error", text="CUDA error: uncorrectable ECC error encountered", steps=True) is not None
    assert cause("gpu_error", text="CUDA error: an illegal memory access was encountered") is None


def test_failures_reported_by_the_scheduler() -> None:
    status = JobStatus(state="ended", verdict="node_fail", node="n4")
    assert infrastructure_cause(status, result("node_fail", cause="n4 failed"), Log(steps=STEPS), []) == "n4 failed"
    for word in ("cancelled", "timeout", "out_of_memory", "lost"):
        assert infrastructure_cause(FAILED.replace(verdict=word), result(word), Log(), []) is None


def test_a_run_with_valid_data_is_never_retried() -> None:
    status = JobStatus(state="ended", verdict="node_fail")
    assert infrastructure_cause(status, result("node_fail", data_valid=True), Log(steps=STEPS), []) is None


def test_a_failure_without_evidence_has_no_infrastructure_cause() -> None:
    assert cause() is None


@pytest.mark.parametrize(
    ("pattern", "line", "refused"),
    [
        (r"tool: error: (?!exec)", "3: tool: error: no such image", True),
        (r"tool: error: (?!exec)", "3: tool: error: exec: no such program", False),
        ("", "tool: error: no such image", False),
    ],
)
def test_a_container_that_did_not_start(tmp_path: Path, pattern: str, line: str, refused: bool) -> None:
    (tmp_path / "log-x.out").write_text(f"something else\n{line}\n")
    lines = refusals(pattern, tmp_path)
    text = "a container did not start: tool: error: no such image"
    assert infrastructure_cause(FAILED, result(), Log(), lines) == (text if refused else None)
    assert infrastructure_cause(FAILED, result(), Log(steps=STEPS), lines) is None
