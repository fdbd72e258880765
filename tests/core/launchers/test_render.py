"""Rendering of launcher scripts: golden files, and quoting of values."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmbx.errors import UsageError
from llmbx.launchers.local import LocalLauncher
from llmbx.launchers.shim import rank_condition, render_shim
from llmbx.model import JOB_NAME, Launch, Phase, Prefix, RunSpec, Wrapping
from llmbx_slurm.allocation import Allocation
from llmbx_slurm.inside import InsideLauncher
from llmbx_slurm.launcher import SlurmLauncher

from .conftest import make_launch, make_spec, shell_phase

Golden = Callable[[str, str], None]
RUN_DIR = Path("/install/workloads/pretrain_toy/experiments/x/x_1/x")
NSYS = ("nsys", "profile", "-o", "nsys_profile/rank%q{LLMBX_RANK}")

AWKWARD = Phase(
    role="train",
    argv=("python3", "it's.py", "--text", 'a "b" & c; $HOME `date`', "two\nlines", "", "-x"),
    env={"NAME": 'it\'s $HOME & "more";\nand more', "LEADING": "--dash"},
)

DOCKER = Wrapping(
    argv=("docker", "run", "--rm", "--env", "NCCL_DEBUG", "--env", "LLMBX_RANK", "image:1"),
    host_env={"DOCKER_HOST": "unix:///run/my docker.sock"},
)

PYXIS = Wrapping(
    launcher_flags=("--container-image=/install/images/a b.sqsh", "--container-env=NCCL_DEBUG,LLMBX_RANK", "--mpi=pmix")
)


NAMED = Wrapping(
    launcher_flags=("--container-image=/install/images/a.sqsh", f"--container-name={JOB_NAME}"),
    cleanup=("enroot", "remove", "--force", f"pyxis_{JOB_NAME}"),
)

IN_ADVANCE = RUN_DIR.parent.parent / "x_TIMESTAMP" / "x"
"""The run folder of a script that is written before it is known when it starts."""


def pgle() -> tuple[Phase, ...]:
    """The three phases of profile-guided compilation."""
    collect = shell_phase("collect", "collect", skip_if="/cache/profile.pbtxt", makes=("nsys_profile/*.nsys-rep",))
    collect = collect.replace(prefixes=(Prefix(argv=NSYS, ranks="first"),), env={"XLA_FLAGS": "--a --b=1"})
    convert = shell_phase(
        "convert", "convert", ranks="first", skip_if="/cache/profile.pbtxt", needs=("nsys_profile/rank0.nsys-rep",),
        makes=("/cache/profile.pbtxt",),
    )  # fmt: skip
    return collect, convert, shell_phase("train", needs=("/cache/profile.pbtxt",))


def local(launch: Launch, spec: RunSpec | None = None, *wrappings: Wrapping) -> str:
    wraps = wrappings or tuple(Wrapping() for _ in launch.phases)
    return LocalLauncher().render(spec or make_spec(gpus=launch.world_size), launch, wraps, RUN_DIR)


def slurm(launch: Launch, spec: RunSpec | None = None, *wrappings: Wrapping, run_dir: Path = RUN_DIR) -> str:
    wraps = wrappings or tuple(Wrapping() for _ in launch.phases)
    spec = spec or make_spec(gpus=launch.world_size, launcher="slurm")
    return SlurmLauncher().render(spec, launch, wraps, run_dir)


def inside(launch: Launch, spec: RunSpec, allocation: Allocation) -> str:
    return InsideLauncher(allocation).render(spec, launch, tuple(Wrapping() for _ in launch.phases), RUN_DIR)


CASES: dict[str, Callable[[], str]] = {
    "local-1-rank.sh": lambda: local(make_launch("echo hello", files={"spec.json": b"{}\n"})),
    "local-4-ranks.sh": lambda: local(
        make_launch(shell_phase("work", prefixes=(Prefix(argv=NSYS, ranks="first,mid,last"),)), ranks=4)
    ),
    "local-three-phases.sh": lambda: local(make_launch(*pgle(), ranks=2, files={"bin/code": b"\x00\x01"})),
    "local-docker.sh": lambda: local(make_launch(shell_phase("work", env={"NCCL_DEBUG": "INFO"})), None, DOCKER),
    "local-awkward.sh": lambda: local(make_launch(AWKWARD), make_spec(env={"SPACED": " a  b "})),
    "slurm-2-nodes-pyxis.sh": lambda: slurm(
        make_launch(shell_phase("work", env={"NCCL_DEBUG": "INFO"}), nodes=2, ranks=8, ranks_per_numa_node=4),
        make_spec(
            gpus=16, gpu_type="h100", mini=False, walltime_minutes=95, setup=("module load slurm-extras",),
            secrets=("HF_TOKEN",), srun={"wait": "60"},
            sbatch={
                "account": "bench", "partition": "gpu", "qos": "high", "reservation": "mine", "gpus-per-node": "8",
                "constraint": "gpu&memory", "nodelist": "node001,node002", "exclude": "node009", "segment": "16",
                "comment": "it's a \"test\" \\ #1", "cpus-per-task": "12",
            },
        ),
        PYXIS,
    ),
    "slurm-preflight.sh": lambda: slurm(
        make_launch(shell_phase("work", env={"HF_HOME": "/hf"}), nodes=2, ranks=8),
        make_spec(
            gpus=16, gpu_type="h100", mini=False, launcher="slurm",
            preflight=True, repositories=("meta-llama/Llama-3.1-8B",),
        ),
        PYXIS,
    ),
    "slurm-three-phases.sh": lambda: slurm(make_launch(*pgle(), nodes=2, ranks=1), make_spec(gpus=2, launcher="slurm")),
    "slurm-in-advance.sh": lambda: slurm(
        make_launch(*pgle(), nodes=2, ranks=1),
        make_spec(gpus=2, launcher="slurm", vboost=1, srun={"wait": "60"}),
        *(NAMED for _ in range(3)),
        run_dir=IN_ADVANCE,
    ),
    "local-in-advance.sh": lambda: LocalLauncher().render(
        make_spec(), make_launch("echo hello"), (Wrapping(),), IN_ADVANCE
    ),
    "slurm-inside.sh": lambda: inside(
        make_launch(shell_phase("work"), shell_phase("last", "last", ranks="first"), nodes=2, ranks=4),
        make_spec(gpus=8, sbatch={"account": "not here", "gpus-per-node": "4", "cpus-per-task": "2"}),
        Allocation("4711", ("n2", "n3"), 32, 16, overlap=True),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_golden(golden: Golden, name: str) -> None:
    golden(name, CASES[name]())


@pytest.mark.parametrize("name", CASES)
def test_rendered_scripts_are_valid_bash(name: str, tmp_path: Path) -> None:
    script = tmp_path / name
    script.write_text(CASES[name]())
    checked = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


ANY = st.text(st.characters(exclude_characters="\0", codec="utf-8"))


@settings(max_examples=50, deadline=None)
@given(ANY, ANY)
def test_no_value_breaks_out_of_a_script(argument: str, value: str) -> None:
    phase = Phase(role="train", argv=("python3", argument), env={"NAME": value})
    for text in (local(make_launch(phase)), slurm(make_launch(phase))):
        assert subprocess.run(["bash", "-n"], input=text.encode(), check=False).returncode == 0


def test_the_shim_is_portable_shell(tmp_path: Path) -> None:
    launch = make_launch(AWKWARD, ranks=8, ranks_per_numa_node=4)
    shim = tmp_path / "rank.sh"
    shim.write_text(render_shim(launch.phases[0], launch))
    for shell in ("sh", "bash"):
        checked = subprocess.run([shell, "-n", shim], capture_output=True, text=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")


def ranks_of(selector: str, world: int) -> list[int]:
    """The ranks of a selector, as the shell evaluates its condition."""
    condition = rank_condition(selector, world) or "true"
    loop = f'LLMBX_RANK=0; while [ "$LLMBX_RANK" -lt {world} ]; do if {condition}; then echo "$LLMBX_RANK"; fi; '
    text = loop + "LLMBX_RANK=$((LLMBX_RANK + 1)); done"
    return [int(line) for line in subprocess.run(["sh", "-c", text], capture_output=True, check=True).stdout.split()]


@pytest.mark.parametrize(
    ("selector", "ranks"),
    [
        ("all", list(range(16))),
        ("first", [0]),
        ("last", [15]),
        ("first,mid,last", [0, 8, 15]),
        ("0,8,15", [0, 8, 15]),
        ("0-7", list(range(8))),
        ("3, 5-6 ,3", [3, 5, 6]),
        ("0-15", list(range(16))),
    ],
)
def test_rank_selectors(selector: str, ranks: list[int]) -> None:
    assert ranks_of(selector, 16) == ranks


@pytest.mark.parametrize(
    ("selector", "says"),
    [
        ("16", "there is no rank 16"),
        ("7-3", "ends before it starts"),
        ("middle", "got 'middle'"),
        ("", "got ''"),
        ("1,", "got ''"),
    ],
)
def test_invalid_rank_selectors(selector: str, says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        rank_condition(selector, 16)


def test_prefixes_have_the_order_of_the_command_line() -> None:
    prefixes = (Prefix(argv=("outer",)), Prefix(argv=("inner",), local_first=True))
    phase = Phase(role="train", argv=("program",), prefixes=prefixes)
    text = render_shim(phase, make_launch(phase, ranks=2))
    assert text.index("set -- program") < text.index("set -- inner") < text.index("set -- outer")
    assert 'if [ "$LLMBX_LOCAL_RANK" -eq 0 ]; then set -- inner' in text


@pytest.mark.parametrize(
    ("phases", "says"),
    [
        ((Phase(role="a/b", argv=("x",)),), "'a/b': a role may contain only"),
        ((Phase(role="a", argv=("x",)), Phase(role="a", argv=("y",))), "two phases"),
        ((Phase(role="a", argv=()),), "its argv is empty"),
        ((Phase(role="a", argv=("x\0",)),), "NUL"),
        ((Phase(role="a", argv=("x",), env={"A-B": "1"}),), "'A-B': a name may contain only"),
        ((Phase(role="a", argv=("x",), env={"A": "\0"}),), "NUL"),
    ],
)
def test_invalid_launches_are_rejected(phases: tuple[Phase, ...], says: str) -> None:
    launch = make_launch(*phases)
    for render in (local, slurm):
        with pytest.raises(UsageError, match=re.escape(says)):
            render(launch)


@pytest.mark.parametrize("name", ["/etc/passwd", "../outside", "a/../../b"])
def test_files_stay_in_the_run_folder(name: str) -> None:
    with pytest.raises(UsageError, match="inside the run folder"):
        local(make_launch("true", files={name: b"x\n"}))


def test_the_local_launcher_rejects_what_needs_slurm() -> None:
    with pytest.raises(UsageError, match="the run needs 2 nodes, but the launcher local has only this machine"):
        local(make_launch("true", nodes=2))
    with pytest.raises(UsageError, match="needs flags that the launcher local does not support"):
        local(make_launch("true"), None, PYXIS)


def header(**changes: object) -> list[str]:
    spec = make_spec(launcher="slurm", **changes)
    lines = slurm(make_launch("true", nodes=2, ranks=8), spec).splitlines()
    return [line.removeprefix("#SBATCH --") for line in lines if line.startswith("#SBATCH")]


def test_a_benchmark_on_gpus_takes_whole_nodes_by_default() -> None:
    whole = {"gpus": 16, "gpu_type": "h100", "mini": False}
    assert {"exclusive", "mem=0", "no-requeue"} <= set(header(**whole))
    assert not {"exclusive", "mem=0"} & set(header(gpus=16))
    told = header(**whole, sbatch={"exclusive": "none", "mem": "64G", "requeue": ""})
    assert {"mem=64G", "requeue"} <= set(told)
    assert not [line for line in told if line.startswith(("exclusive", "no-requeue"))]
    assert "mem=0" not in header(**whole, sbatch={"mem-per-gpu": "100G", "oversubscribe": ""})


def test_secrets_pass_when_not_everything_is_exported() -> None:
    spec = make_spec(secrets=("HF_TOKEN",), env={"WANDB_API_KEY": "x"}, sbatch={"export": "NONE"}, gpus=1)
    text = slurm(make_launch(shell_phase("true", forward=("EXTRA",))), spec)
    assert "#SBATCH --export=HF_TOKEN,EXTRA,WANDB_API_KEY\n" in text
    assert "export=ALL,A" in header(secrets=("HF_TOKEN",), sbatch={"export": "ALL,A"})
    assert not [line for line in header(secrets=("HF_TOKEN",)) if line.startswith("export")]


def test_an_srun_option_of_the_user_comes_after_the_runtimes() -> None:
    spec = make_spec(gpus=2, launcher="slurm", srun={"mpi": "none", "cpu-bind": "cores"})
    script = slurm(make_launch("true", ranks=2), spec, PYXIS)
    (step,) = re.findall(r"exec srun (?:.*\\\n)*.*", script)
    assert step.index("--mpi=pmix") < step.index("--mpi=none") and step.count("--mpi=none") == 1
    assert step.index("--cpu-bind=cores") < step.index("--container-image")
