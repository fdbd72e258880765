"""Findings on the profiles of a finished run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.model import Capture, Launch, Phase, ProfileSpec, RunSpec
from llmbx_profiling import post_run
from llmbx_profiling.analysis.analyze import analyze
from llmbx_profiling.collect import collect
from llmbx_profiling.nsys_wrap import wrap
from llmbx_profiling.post_run import check_steps, findings

from .exports import Export

MakeSpec = Callable[..., RunSpec]


@pytest.fixture
def run_dir(make_spec: MakeSpec, tmp_path: Path) -> Callable[..., Path]:
    """`run_dir("0,8", name=…)` returns the folder of a run on two nodes with a requested profile of steps 45 to 50."""

    def make(ranks: str, **profile: object) -> Path:
        spec = make_spec(
            gpus=16, launcher="slurm", profile=ProfileSpec(tool="nsys", start=45, stop=50, ranks=ranks, **profile)
        )
        launch = Launch(nodes=2, ranks_per_node=8, gpus_per_rank=1, phases=(Phase(role="train", argv=("x",)),))
        return write(tmp_path, wrap(spec, launch)[0])

    return make


def write(folder: Path, launch: Launch) -> Path:
    for name, content in launch.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def left(folder: Path, *names: str) -> None:
    for name in names:
        (folder / "nsys_profile" / name).write_bytes(b"report")


def test_all_there(run_dir: Callable[..., Path]) -> None:
    folder = run_dir("0,8", name="profile_{job}_{node}_{local_rank}")
    left(folder, "profile_77_0_0.nsys-rep", "profile_77_1_0.nsys-rep")
    (found,) = collect(folder, {})
    assert found.findings == () and [file.name for file in found.files] == [
        "profile_77_0_0.nsys-rep",
        "profile_77_1_0.nsys-rep",
    ]


@pytest.mark.parametrize(
    ("ranks", "name", "there", "says"),
    [
        ("0,8", "profile_{job}_{node}_{rank}", ["profile_77_0_0.nsys-rep"], "rank 8 wrote no profile of phase train"),
        ("all", "p_{rank}", ["p_3.nsys-rep"], "ranks 0-2,4-15 wrote no profile"),
        ("all", "p_{rank}", [], "ranks 0-15 wrote no profile"),
        ("4", "run-perf", [], "rank 4 wrote no profile"),
        ("0-1", "p_{rank}", ["other_1.nsys-rep", "p_0.nsys-rep"], "rank 1 wrote no profile"),
    ],
)
def test_ranks_without_a_profile_are_named(
    ranks: str, name: str, there: list[str], says: str, run_dir: Callable[..., Path]
) -> None:
    folder = run_dir(ranks, name=name)
    left(folder, *there)
    (found,) = collect(folder, {})
    (finding,) = found.findings
    assert says in finding.problem and "steps 45-50 never started" in finding.problem
    assert finding.rule == "profile_missing" and not finding.warning


def test_a_capture_that_is_not_required_only_warns(make_spec: MakeSpec, tmp_path: Path) -> None:
    phase = Phase(role="train", argv=("x",), capture=Capture(start=1, stop=2, tool="nsys", output="nsys_profile/perf"))
    launch = Launch(nodes=1, ranks_per_node=1, gpus_per_rank=1, phases=(phase,))
    (found,) = collect(write(tmp_path, wrap(make_spec(gpus=1), launch)[0]), {})
    assert [finding.warning for finding in found.findings] == [True]


@pytest.mark.parametrize(
    ("early", "says"), [([0], "on rank 0"), ([0, 8], "on ranks 0,8"), ([5], "steps 45-50 never started")]
)
def test_a_profile_that_nsys_did_not_finish_is_its_fault(
    early: list[int], says: str, run_dir: Callable[..., Path]
) -> None:
    folder = run_dir("0,8", name="p_{rank}")
    for rank in early:
        (folder / f"nsys_profile/ended-early-{rank}").write_text("0\n")
    (found,) = collect(folder, {})
    (finding,) = found.findings
    assert says in finding.problem and ("nsys ended before the program" in finding.problem) == (early != [5])


def test_a_phase_that_may_be_skipped_need_not_leave_a_profile(make_spec: MakeSpec, tmp_path: Path) -> None:
    """The phase that collects PGLE's profile is skipped if the profile is kept from an earlier run."""
    capture = Capture(start=1, stop=2, tool="nsys", required=True, output="nsys_profile/prof")
    phase = Phase(role="collect", argv=("x",), capture=capture, skip_if="kept.pbtxt")
    launch = Launch(nodes=1, ranks_per_node=1, gpus_per_rank=1, phases=(phase,))
    (found,) = collect(write(tmp_path, wrap(make_spec(gpus=1), launch)[0]), {})
    assert found.findings == ()


def test_a_stream_without_importer_is_an_error(run_dir: Callable[..., Path]) -> None:
    folder = run_dir("0", name="perf")
    left(folder, "perf.qdstrm")
    (found,) = collect(folder, {"PATH": "/nowhere"})
    (finding,) = found.findings
    assert finding.rule == "profile_unfinished" and not finding.warning and "no QdstrmImporter" in finding.problem


def test_only_ranks_that_left_nothing_are_missing_beside_an_unfinished_profile(run_dir: Callable[..., Path]) -> None:
    folder = run_dir("0,1,8", name="p_{rank}")
    left(folder, "p_0.qdstrm", "p_1.nsys-rep")
    (found,) = collect(folder, {"PATH": "/nowhere"})
    unfinished, missing = found.findings
    assert "p_0.qdstrm is an unfinished report" in unfinished.problem
    assert "rank 8 wrote no profile" in missing.problem


def test_a_stream_with_a_secret_is_marked(run_dir: Callable[..., Path]) -> None:
    folder = run_dir("0", name="perf")
    stream = folder / "nsys_profile" / "perf.qdstrm"
    stream.write_bytes(b"\0HF_TOKEN=hf_planted_token\0")
    (found,) = collect(folder, {"PATH": "/nowhere", "HF_TOKEN": "hf_planted_token"})
    assert [finding.rule for finding in found.findings] == ["profile_unfinished", "profile_secret"]
    assert stream.with_name("perf.qdstrm.contains-secrets").is_file() and stream.stat().st_mode & 0o77 == 0


def test_a_run_without_profiles_has_no_findings(tmp_path: Path) -> None:
    assert findings(tmp_path) == []


def test_large_profiles_are_not_analyzed_automatically(
    run_dir: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run_dir("0", name="perf")
    left(folder, "perf.nsys-rep")
    monkeypatch.setattr(post_run, "MAX_ANALYZED_BYTES", 3)
    (finding,) = findings(folder)
    assert finding.warning and f"to analyze them: llmbx nsys {folder}" in finding.fix


def test_other_steps_than_requested_are_reported(tmp_path: Path) -> None:
    made = Export()
    made.domain(1, "llmbx")
    for step in (45, 46, 48):
        made.range(100 * step, 100 * step + 90, "step", domain=1, payload=step)
    analysis = analyze([made.write(tmp_path / "p_rank2.sqlite")])
    (finding,) = check_steps(analysis, [{"steps": [45, 50]}])
    assert finding.warning and "rank 2 contains steps 45, 46, 48 instead of the 5" in finding.problem
    assert check_steps(analysis, [{"steps": [45, 47]}, {"steps": [48, 49]}]) == []


def test_an_empty_profile_is_an_error(tmp_path: Path) -> None:
    (finding,) = check_steps(analyze([Export().write(tmp_path / "p.sqlite")]), [])
    assert finding.rule == "profile_empty" and not finding.warning


def test_exposed_communication_is_reported_with_the_upper_bound(tmp_path: Path) -> None:
    made = Export()
    made.kernel(0, 600, "gemm")
    made.kernel(500, 1_000, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL()")
    (finding,) = post_run.summary(analyze([made.write(tmp_path / "p.sqlite")]), tmp_path)
    assert (
        "40.0% of the profiled time" in finding.problem
        and "upper bound on the speed-up without it: 1.67x" in finding.fix
    )
