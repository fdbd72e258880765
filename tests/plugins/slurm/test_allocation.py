"""Detection of a surrounding Slurm allocation, its resources, and errors if it is too small."""

from __future__ import annotations

import pytest

from llmbx.errors import InfraError, UsageError
from llmbx_slurm.allocation import Allocation, check_cpus, current_allocation, restricted

from ...core.launchers.conftest import make_spec

SHOWN = (
    "JobId=7 JobName=interactive UserId=root(0) JobState={state} Reason=None NodeList=n[1-3] BatchHost=n1 NumNodes=3 "
    "NumCPUs=6 NumTasks=6 CPUs/Task=1 TRES=cpu=6,mem=8000M,node=3,billing=4{tres} TresPerNode={each} \n"
)


class FakeSlurm:
    """Emulates scontrol for one job; host lists support only the forms used by the tests."""

    def __init__(self, state: str = "RUNNING", tres: str = "", each: str = "gres:gpu:8") -> None:
        self.shown = SHOWN.format(state=state, tres=tres, each=each)

    def __call__(self, *command: str) -> str:
        if command[:3] == ("scontrol", "show", "hostnames"):
            return command[3].replace("n[1-3]", "n1,n2,n3").replace(",", "\n") + "\n"
        assert command == ("scontrol", "--oneliner", "show", "job", "7")
        return self.shown


def forgotten(*command: str) -> str:
    raise InfraError("scontrol: slurm_load_jobs error: Invalid job id specified")


def test_outside_of_a_job_there_is_no_allocation() -> None:
    assert current_allocation({"SLURM_CONF": "/etc/slurm.conf"}, forgotten) is None


@pytest.mark.parametrize(
    ("environ", "overlap"),
    [
        ({}, False),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, False),
        ({"SLURM_STEP_ID": "4294967290", "SLURM_STEP_NUM_TASKS": "1"}, False),
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}, True),
    ],
    ids=["salloc", "batch script", "interactive step", "srun --pty"],
)
def test_where_llmbx_was_started(environ: dict[str, str], overlap: bool) -> None:
    found = current_allocation({"SLURM_JOB_ID": "7", **environ}, FakeSlurm())
    assert found == Allocation("7", ("n1", "n2", "n3"), cpus=6, gpus=24, overlap=overlap)


@pytest.mark.parametrize(
    ("slurm", "gpus"),
    [
        (FakeSlurm(each="gres/gpu:h100:4"), 12),
        (FakeSlurm(tres=",gres/gpu=9", each="gres/gpu:8"), 9),
        (FakeSlurm(each="(null)"), None),
    ],
)
def test_how_many_gpus_it_has(slurm: FakeSlurm, gpus: int | None) -> None:
    found = current_allocation({"SLURM_JOB_ID": "7"}, slurm)
    assert found is not None and found.gpus == gpus


@pytest.mark.parametrize(("slurm", "says"), [(FakeSlurm("COMPLETED"), "completed"), (forgotten, "not found")])
def test_a_shell_that_outlived_its_job_is_told_so(slurm: FakeSlurm, says: str) -> None:
    expected = rf"SLURM_JOB_ID is set to 7, but that job is not running \({says}\): run `unset SLURM_JOB_ID`"
    with pytest.raises(UsageError, match=expected):
        current_allocation({"SLURM_JOB_ID": "7"}, slurm)


def test_several_tasks_that_each_start_llmbx_are_refused() -> None:
    environ = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "2", "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "3"}
    with pytest.raises(UsageError, match=r"as task 3 of 4 in step 7.2: start llmbx only once"):
        current_allocation(environ, FakeSlurm())


def test_a_heterogeneous_allocation_is_refused_in_plain_words() -> None:
    with pytest.raises(UsageError, match=r"job 7 is a heterogeneous allocation: 2 parts .*salloc without ':'"):
        current_allocation({"SLURM_JOB_ID": "7", "SLURM_HET_SIZE": "2"}, FakeSlurm())
    assert current_allocation({"SLURM_JOB_ID": "7", "SLURM_HET_SIZE": "1"}, FakeSlurm()) is not None


ALLOCATION = Allocation("7", ("n1", "n2", "n3"), cpus=6, gpus=12)


@pytest.mark.parametrize(
    ("scheduler", "hosts"),
    [({}, ("n1", "n2")), ({"exclude": "n1"}, ("n2", "n3")), ({"nodelist": "n3,n1"}, ("n1", "n3"))],
)
def test_the_run_takes_the_first_nodes_that_it_may(scheduler: dict[str, str], hosts: tuple[str, ...]) -> None:
    spec = make_spec(gpus=4, gpus_per_node=2, sbatch=scheduler)
    assert restricted(ALLOCATION, spec, FakeSlurm()).hosts == hosts


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"gpus": 8, "gpus_per_node": 2}, r"needs 4 nodes, but Slurm job 7 \(n1, n2, n3\) has 3: allocate more"),
        ({"gpus": 4, "gpus_per_node": 2, "sbatch": {"exclude": "n1,n2"}},
         r"needs 2 nodes, but .* has 1 of 3 after nodelist and exclude"),
        ({"gpus": 8, "gpus_per_node": 8, "gpu_type": "h100"}, "needs 8 GPUs per node, but .* has 4"),
    ],
)  # fmt: skip
def test_an_allocation_that_is_too_small_is_refused_with_both_numbers(changes: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        restricted(ALLOCATION, make_spec(**changes), FakeSlurm())


def test_too_few_cpus_are_refused_with_both_numbers() -> None:
    check_cpus(ALLOCATION, 6, make_spec())
    with pytest.raises(UsageError, match=r"8 ranks need 16 CPUs, but .* has 6"):
        check_cpus(ALLOCATION, 8, make_spec(sbatch={"cpus-per-task": "2"}))
