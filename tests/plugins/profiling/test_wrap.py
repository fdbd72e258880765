"""Launches wrapped with nsys: ranks, phases, commands and expected files."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from llmbx.launchers.shim import render_shim
from llmbx.model import Capture, Launch, Parallelism, Phase, Prefix, ProfileSpec, RunSpec
from llmbx.resolve.ranks import numbers
from llmbx_profiling.host_nsys import HostNsys, find_host_nsys
from llmbx_profiling.nsys_wrap import MANIFEST, NO_SECRETS, START_SCRIPT, first_of_each_node, wrap

MakeSpec = Callable[..., RunSpec]
Golden = Callable[[str, str], None]


def launch(nodes: int = 1, ranks: int = 2, *phases: Phase) -> Launch:
    train = Phase(role="train", argv=("/env/bin/python", "train.py", "a b"))
    return Launch(
        nodes=nodes, ranks_per_node=ranks, gpus_per_rank=1, phases=phases or (train,), files={"train.py": b""}
    )


def nsys_of(phase: Phase) -> list[Prefix]:
    return [prefix for prefix in phase.prefixes if "profile" in prefix.argv]


METRICS = {"nsys": {"gpu_metrics": True}}


def show(wrapped: Launch) -> str:
    """Return a text with the prefixes and outputs of every phase, and the expected files."""
    lines = []
    for phase in wrapped.phases:
        lines += [f"phase {phase.role}", *(f"makes {path}" for path in phase.makes)]
        lines += [f"ranks {prefix.ranks}: {shlex.join(prefix.argv)}" for prefix in phase.prefixes]
        lines += [f"argv {shlex.join(phase.argv)}", ""]
        render_shim(phase, wrapped)
    return "\n".join(lines) + wrapped.files[MANIFEST].decode()


def test_cpu(make_spec: MakeSpec, golden: Golden) -> None:
    spec = make_spec(gpu_type="cpu", profile=ProfileSpec(tool="nsys", start=45, stop=50, ranks="0"))
    golden("wrap-cpu.txt", show(wrap(spec, launch())[0]))


def test_cluster_with_gpu_metrics(make_spec: MakeSpec, golden: Golden) -> None:
    profile = ProfileSpec(
        tool="nsys", start=45, stop=50, ranks="0,8,9,28", name="{workload}-{size}_{job}_{node}_{rank}"
    )
    spec = make_spec(
        gpus=32, gpus_per_node=8, launcher="slurm", parallelism=Parallelism(pp=4, dp=8), profile=profile,
        plugin_settings=METRICS,
    )  # fmt: skip
    golden("wrap-cluster.txt", show(wrap(spec, launch(4, 8))[0]))


def test_phases_with_their_own_capture(make_spec: MakeSpec, golden: Golden) -> None:
    """PGLE: the collect phase is captured, the measured phase is profiled, and neither is wrapped twice."""
    capture = Capture(start=9, stop=12, tool="nsys", required=True, output="nsys_profile/run-prof")
    phases = (
        Phase(role="check", argv=("true",), ranks="first"),
        Phase(role="collect", argv=("python", "collect.py"), capture=capture),
        Phase(role="convert", argv=("convert",), ranks="first"),
        Phase(role="measure", argv=("python", "measure.py"), prefixes=(Prefix(argv=("nice",)),)),
    )
    profile = ProfileSpec(tool="nsys", start=10, stop=15, ranks="0", name="run_{job}-perf")
    spec = make_spec(gpus=16, launcher="slurm", profile=profile, plugin_settings=METRICS)
    wrapped = wrap(spec, launch(2, 8, *phases))[0]
    golden("wrap-pgle.txt", show(wrapped))
    assert all(len(nsys_of(phase)) <= 1 for phase in wrapped.phases)


def test_a_capture_needs_no_profile_of_the_run(make_spec: MakeSpec) -> None:
    capture = Capture(start=1, stop=2, tool="nsys", output="nsys_profile/prof")
    phases = (Phase(role="collect", argv=("a",), capture=capture), Phase(role="measure", argv=("b",)))
    wrapped, asked = wrap(make_spec(), launch(1, 2, *phases))
    assert [len(nsys_of(phase)) for phase in wrapped.phases] == [1, 0]
    assert [(a.role, a.ranks, a.required) for a in asked] == [("collect", (0,), False)]
    assert wrapped.phases[0].makes == (), "a profile that may be missing fails no phase"


def test_a_launch_without_profile_is_unchanged(make_spec: MakeSpec) -> None:
    plain = launch()
    assert wrap(make_spec(), plain) == (plain, ())
    other_tool = make_spec(profile=ProfileSpec(start=1, stop=2, tool="torch"))
    assert wrap(other_tool, plain) == (plain, ())


@pytest.mark.parametrize("ranks", ["all", "0-7", "0,8,15", "3"])
@pytest.mark.parametrize("metrics", [False, True])
def test_every_requested_rank_gets_nsys_once(ranks: str, metrics: bool, make_spec: MakeSpec) -> None:
    profile = ProfileSpec(tool="nsys", start=1, stop=2, ranks=ranks)
    spec = make_spec(gpus=16, profile=profile, plugin_settings=METRICS if metrics else {})
    (phase,) = wrap(spec, launch(2, 8))[0].phases
    wrapped = [rank for prefix in nsys_of(phase) for rank in numbers(prefix.ranks, 16)]
    assert sorted(wrapped) == list(numbers(ranks, 16))
    with_metrics = [r for p in phase.prefixes if "--gpu-metrics-device=all" in p.argv for r in numbers(p.ranks, 16)]
    assert tuple(with_metrics) == (first_of_each_node(numbers(ranks, 16), 8) if metrics else ())


def test_the_expected_files_are_written_next_to_the_profiles(make_spec: MakeSpec) -> None:
    spec = make_spec(gpus=16, profile=ProfileSpec(tool="nsys", start=45, stop=50, ranks="0,8"))
    wrapped, asked = wrap(spec, launch(2, 8))
    facts = json.loads(wrapped.files[MANIFEST])
    assert facts["ranks_per_node"] == 8 and facts["files"] == json.loads(msgspec.json.encode(asked))
    assert facts["files"][0]["steps"] == [45, 50] and facts["files"][0]["ranks"] == [0, 8]
    assert NO_SECRETS in wrapped.files and wrapped.files["train.py"] == b""


def test_another_command_for_nsys(make_spec: MakeSpec) -> None:
    spec = make_spec(profile=ProfileSpec(tool="nsys", start=1, stop=2, ranks="0"))
    (phase,) = wrap(spec, launch(), "/opt/nsys/bin/nsys")[0].phases
    (prefix,) = nsys_of(phase)
    assert "/opt/nsys/bin/nsys" in prefix.argv and "nsys" not in prefix.argv


def test_the_host_nsys_is_mounted_into_images(make_spec: MakeSpec) -> None:
    spec = make_spec(runtime="docker", profile=ProfileSpec(tool="nsys", start=1, stop=2, ranks="0"))
    host_nsys = HostNsys(program="/opt/n/target/nsys", folder="/opt/n", libraries={"libelf.so.1": "/lib/libelf.so.1"})
    wrapped = wrap(spec, launch(), "nsys", host_nsys)[0]
    (prefix,) = nsys_of(wrapped.phases[0])
    assert prefix.argv[:5] == ("/bin/sh", START_SCRIPT, "/opt/n/target/nsys", "nsys", "profile")
    assert [(m.source, m.target, m.read_only, m.optional) for m in wrapped.mounts] == [
        ("/opt/n", None, True, True),
        ("/lib/libelf.so.1", "/opt/llmbx/lib/libelf.so.1", True, True),
    ]
    plain = make_spec(profile=None)
    assert wrap(plain, launch(), "nsys", host_nsys)[0].mounts == (), "nothing is profiled"


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """An environment with nsys in Debian's layout: a link to a program in its own folder."""
    folder = tmp_path / "lib/nsight-systems/target-linux-x64"
    folder.mkdir(parents=True)
    shutil.copy("/bin/ls", folder / "nsys")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nsys").symlink_to(folder / "nsys")
    return {"PATH": f"{tmp_path}/bin:/usr/bin"}


def test_files_of_the_host_nsys(installed: dict[str, str], make_spec: MakeSpec, tmp_path: Path) -> None:
    host_nsys = find_host_nsys(make_spec(runtime="apptainer"), installed)
    assert host_nsys is not None and host_nsys.folder == str(tmp_path / "lib/nsight-systems")
    assert host_nsys.program == f"{host_nsys.folder}/target-linux-x64/nsys"
    assert "libselinux.so.1" in host_nsys.libraries and Path(host_nsys.libraries["libselinux.so.1"]).is_file()
    assert not any(name.startswith(("libc.", "ld-linux")) for name in host_nsys.libraries), (
        "an image has its own C library"
    )


@pytest.mark.parametrize("runtime", ["venv", "host"])
def test_a_rank_outside_an_image_needs_no_host_nsys(
    runtime: str, installed: dict[str, str], make_spec: MakeSpec
) -> None:
    assert find_host_nsys(make_spec(runtime=runtime), installed) is None


def test_a_program_without_its_own_folder_is_not_mounted(make_spec: MakeSpec, tmp_path: Path) -> None:
    """For a wrapper script in /usr/local/bin, all of that folder would be mounted."""
    (tmp_path / "nsys").write_text("#!/bin/sh\n")
    (tmp_path / "nsys").chmod(0o755)
    assert find_host_nsys(make_spec(runtime="docker"), {"PATH": str(tmp_path)}) is None
    assert find_host_nsys(make_spec(runtime="docker"), {"PATH": "/nowhere"}) is None


def test_secrets_are_removed_unless_kept(make_spec: MakeSpec) -> None:
    """nsys stores the environment of every process on the machine, including ranks that are not profiled."""
    profile = ProfileSpec(tool="nsys", start=1, stop=2, ranks="3")
    (phase,) = wrap(make_spec(gpus=16, profile=profile), launch(2, 8))[0].phases
    assert phase.prefixes[0] == Prefix(argv=("/bin/sh", NO_SECRETS), ranks="all")
    (phase,) = wrap(make_spec(gpus=16, profile=profile.replace(keep_secrets=True)), launch(2, 8))[0].phases
    assert len(phase.prefixes) == 1
