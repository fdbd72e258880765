"""Pending jobs that can never start are named, with what to change; those that only wait are left alone."""

from __future__ import annotations

import pytest

from llmbx.errors import InfraError, UsageError
from llmbx.model import Job
from llmbx_slurm.launcher import SlurmLauncher
from llmbx_slurm.pending import NEVER_S, Pending
from llmbx_slurm.reasons import code_of, too_large, too_many_nodes, why_never
from llmbx_slurm.settings import queue_limit
from llmbx_slurm.state import SlurmState

from ...core.launchers.conftest import make_spec

JOB = Job(launcher="slurm", job_id="7", submitted=0.0)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("PartitionTimeLimit", "--walltime"),
        ("BadConstraints", "no node can satisfy"),
        ("InvalidQOS", "--slurm-qos"),
        ("QOSNotAllowed", "--slurm-qos"),
        ("InvalidAccount", "--slurm-account"),
        ("AccountNotAllowed", "--slurm-account"),
        ("DependencyNeverSatisfied", "dependency"),
        ("ReservationDeleted", "--slurm-reservation"),
        ("QOSMaxNodePerJobLimit", "more than the QOS allows for one job: see `sacctmgr show qos`"),
        ("QOSMaxWallDurationPerJobLimit", "more than the QOS allows"),
        ("QOSMaxGRESPerNode", "more than the QOS allows"),
        ("QOSMinNode", "less than the QOS requires"),
        ("QOSMinCpuNotSatisfied", "less than the QOS requires"),
        (
            "AssocMaxNodePerJobLimit",
            "more than your account's association allows for one job: see `sacctmgr show assoc`",
        ),
        ("AssocMaxWallDurationPerJobLimit", "association allows"),
    ],
)
def test_a_reason_that_does_not_pass_says_what_to_change(code: str, said: str) -> None:
    assert said in (why_never(code) or "")


@pytest.mark.parametrize(
    "reason",
    [
        "None", "", "Resources", "Priority", "BeginTime", "Dependency", "Licenses", "Reservation", "JobHeldUser",
        "JobHeldAdmin", "QOSMaxNodePerUserLimit", "QOSMaxGRESPerUser", "QOSMaxJobsPerUserLimit", "QOSGrpNodeLimit",
        "AssocGrpNodeLimit", "AssocGrpCPUMinutesLimit", "AssocMaxJobsLimit", "MaxNodePerAccount", "PartitionDown",
        "PartitionInactive", "NodeDown", "ReqNodeNotAvail, UnavailableNodes:n[1-4]", "Constraints", "Cleaning",
    ],
)  # fmt: skip
def test_a_reason_that_may_pass_is_waited_for(reason: str) -> None:
    assert why_never(code_of(reason)) is None
    pending = Pending(now=lambda: 0.0)
    assert pending.status(JOB, SlurmState(name="PENDING", reason=reason)).verdict is None


def scontrol(nodes: str = "4", partitions: str = "batch", **limits: str) -> object:
    """Stand-in for `scontrol --oneliner show`, with the fields that Slurm 22.05 and 24.05 print."""
    own = {"MaxNodes": "UNLIMITED", "MinNodes": "0", "TotalNodes": "8", **limits}

    def call(*command: str) -> str:
        if command[-2] == "job":
            return (
                f"JobId={command[-1]} JobName=x Partition={partitions} NumNodes={nodes} NumCPUs=8 TimeLimit=01:00:00\n"
            )
        shown = " ".join(f"{key}={value}" for key, value in own.items())
        return f"PartitionName={command[-1]} AllowGroups=ALL {shown} State=UP\n"

    return call


@pytest.mark.parametrize(
    ("nodes", "limits", "said"),
    [
        ("4", {"MaxNodes": "2"}, "it asks for 4 nodes, but the partition batch allows at most 2 (MaxNodes)"),
        ("4-4", {"TotalNodes": "3"}, "it asks for 4 nodes, but the partition batch has 3"),
        ("1", {"MinNodes": "2"}, "it asks for 1 node, but the partition batch requires at least 2 (MinNodes)"),
        ("4", {}, None),
        ("4", {"MaxNodes": "4"}, None),
        ("?", {"MaxNodes": "2"}, None),
    ],
)
def test_a_limit_on_nodes_is_compared_with_the_partitions(nodes: str, limits: dict[str, str], said: str | None) -> None:
    """Slurm gives the same reason if nodes of the partition are down, and then the job starts later."""
    found = too_many_nodes((), "7", scontrol(nodes, **limits))  # type: ignore[arg-type]
    assert (found or "").startswith(said or "") and (found is None) == (said is None)


def test_a_job_in_several_partitions_needs_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def call(*command: str) -> str:
        if command[-2] == "job":
            return "JobId=7 Partition=small,large NumNodes=4\n"
        return f"PartitionName={command[-1]} MaxNodes={2 if command[-1] == 'small' else 64} MinNodes=0 TotalNodes=99\n"

    assert too_many_nodes((), "7", call) is None

    def silent(*command: str) -> str:
        raise InfraError("scontrol: no answer")

    assert too_many_nodes((), "7", silent) is None
    assert too_large(999, None, silent) is None


PARTITIONS = """\
PartitionName=batch Default=YES MinNodes=0 MaxNodes=UNLIMITED TotalNodes=8 State=UP
PartitionName=large Default=NO MinNodes=0 MaxNodes=UNLIMITED TotalNodes=64 State=DOWN
"""


@pytest.mark.parametrize(
    ("nodes", "partition", "said"),
    [
        (8, None, None),
        (9, None, "it asks for 9 nodes, but the partition batch has 8: choose another with --slurm-partition"),
        (64, "large", None),
        (65, "batch,large", "it asks for 65 nodes, but the partition batch has 8; the partition large has 64: choose"),
        (64, "batch,large", None),
        (99, "gone", None),
    ],
)
def test_a_job_that_no_partition_can_ever_run_is_known_before_it_is_submitted(
    nodes: int, partition: str | None, said: str | None
) -> None:
    """Whether nodes are down or busy now does not matter. sbatch itself reports a partition that does not exist."""
    found = too_large(nodes, partition, lambda *command: PARTITIONS)
    assert (found or "").startswith(said or "") and (found is None) == (said is None)


@pytest.mark.parametrize(
    ("reason", "partitions", "never"),
    [
        ("PartitionTimeLimit", "batch", True),
        ("PartitionTimeLimit", "short,long", False),
        ("QOSNotAllowed", "short,long", False),
        ("DependencyNeverSatisfied", "short,long", True),
    ],
)
def test_the_reason_of_one_of_several_partitions_is_not_that_of_the_job(
    reason: str, partitions: str, never: bool
) -> None:
    clock = [0.0]
    pending = Pending(scontrol(partitions=partitions), lambda: clock[0])  # type: ignore[arg-type]
    state = SlurmState(name="PENDING", reason=reason)
    assert pending.status(JOB, state).verdict is None
    clock[0] = NEVER_S
    assert (pending.status(JOB, state).verdict == "not_started") is never


def test_a_reason_counts_only_after_a_while_and_is_asked_for_once() -> None:
    clock, asked = [0.0], []

    def call(*command: str) -> str:
        asked.append(command)
        return scontrol(MaxNodes="2")(*command)  # type: ignore[operator,no-any-return]

    pending = Pending(call, lambda: clock[0])
    small = SlurmState(name="PENDING", reason="PartitionNodeLimit")
    first = pending.status(JOB, small)
    assert first.verdict is None and first.reason.startswith("it can never start (PartitionNodeLimit): it asks for 4")
    clock[0] = NEVER_S / 2
    assert pending.status(JOB, SlurmState(name="PENDING", reason="Priority")).reason == "pending: Priority"
    clock[0] = NEVER_S
    assert pending.status(JOB, small).verdict is None, "the limit was changed in between, and back"
    clock[0] = 2 * NEVER_S
    assert pending.status(JOB, small).verdict == "not_started"
    assert len(asked) == 4


@pytest.mark.parametrize(
    ("text", "seconds"), [(None, 7 * 86400.0), ("90", 5400.0), ("2-12", 216000.0), ("unlimited", None)]
)
def test_the_longest_wait_is_a_week_or_as_set(text: str | None, seconds: float | None) -> None:
    spec = make_spec().replace(plugin_settings={"slurm": {"max_wait": text}} if text else {})
    found = SlurmLauncher().queue_limit(spec)
    assert (found[0] if found else None) == seconds


def test_a_wait_that_is_no_time_is_refused_with_its_origin() -> None:
    spec = make_spec().replace(
        plugin_settings={"slurm": {"max_wait": "soon"}}, origins={"slurm.max_wait": "--slurm-max-wait"}
    )
    with pytest.raises(UsageError, match=r"^max_wait=soon \(--slurm-max-wait\): expected minutes"):
        queue_limit(spec)
    with pytest.raises(UsageError, match="max_wait=soon"):
        SlurmLauncher().check_spec(spec, {})


def test_the_setting_does_not_go_to_sbatch() -> None:
    from llmbx.config.plugin_settings import join
    from llmbx_slurm.settings import SlurmSettings

    assert join(SlurmSettings, None, {}, {"max_wait": "60"}).values == {"max_wait": "60"}
