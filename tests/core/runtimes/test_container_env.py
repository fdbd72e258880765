"""What every container tool passes into a container: variables by name, mounts with the host's paths, and GPUs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.errors import UsageError
from llmbx.model import RANK_VARIABLES, Launch, Mount, Phase, RunSpec
from llmbx.runtimes.container_env import forwarded, if_there, mounts, needs_gpus, only_set, parse_mount

MakeSpec = Callable[..., RunSpec]
RUN = Path("/install/experiments/x")


def phase(**changes: object) -> Phase:
    return Phase(role="train", argv=("python", "train.py")).replace(**changes)


def launch(*extra: Mount, gpus_per_rank: int = 1) -> Launch:
    return Launch(nodes=1, ranks_per_node=1, gpus_per_rank=gpus_per_rank, phases=(phase(),), mounts=extra)


def test_variables_are_passed_by_name_and_once(make_spec: MakeSpec) -> None:
    spec = make_spec(env={"NCCL_DEBUG": "secret value", "MODE": "a"}, secrets=("HF_TOKEN", "NGC_API_KEY"))
    names = forwarded(spec, phase(env={"MODE": "b", "SPEC": "c"}, forward=("WANDB_API_KEY", "HF_TOKEN")))
    assert names[:6] == ("NCCL_DEBUG", "MODE", "SPEC", "WANDB_API_KEY", "HF_TOKEN", "NGC_API_KEY")
    assert {"CUDA_VISIBLE_DEVICES", "HF_HOME", "USER", "LOGNAME", *RANK_VARIABLES} <= {*names}
    assert len(names) == len({*names}) and "secret value" not in " ".join(names)


def test_only_variables_that_are_set_are_passed() -> None:
    """An empty CUDA_VISIBLE_DEVICES would hide every GPU."""
    program = only_set(("PLAIN", "EMPTY", "ODD", "CUDA_VISIBLE_DEVICES"), 'echo "$n"')
    environ = {"PLAIN": "1", "EMPTY": "", "ODD": "a 'b' \"c\" $(exit 3) `x` *"}
    done = subprocess.run(["/bin/sh", "-c", program], env=environ, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["PLAIN", "EMPTY", "ODD"] and not done.stderr


@pytest.mark.parametrize(
    ("text", "mount"),
    [
        ("/data", Mount(source="/data")),
        ("/data:ro", Mount(source="/data", read_only=True)),
        ("/data:rw", Mount(source="/data")),
        ("/data:/mnt", Mount(source="/data", target="/mnt")),
        ("/data:/mnt:ro", Mount(source="/data", target="/mnt", read_only=True)),
        ("/a b", Mount(source="/a b")),
    ],
)
def test_a_mount_is_a_source_a_target_and_whether_it_is_read_only(text: str, mount: Mount) -> None:
    assert parse_mount(text) == mount


@pytest.mark.parametrize(
    "text", ["", "data", "/data:mnt", "/data:/mnt:/x", "/data:/mnt:rx", "/data:/mnt:ro:ro", ":/mnt"]
)
def test_a_mount_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_mount(text)
    assert str(refused.value) == f"mount '{text}': expected SOURCE[:TARGET][:ro] with absolute paths"


@pytest.mark.parametrize(
    ("mount", "text"),
    [
        (Mount(source="/a"), "/a:/a"),
        (Mount(source="/a", target="/b"), "/a:/b"),
        (Mount(source="/a", read_only=True), "/a:/a:ro"),
    ],
)
def test_a_mount_is_written_as_the_tools_read_it(mount: Mount, text: str) -> None:
    assert mount.joined() == text
    assert mount.joined("readonly") == text.replace(":ro", ":readonly")


def test_the_run_folder_the_launchs_mounts_and_the_users_are_mounted(make_spec: MakeSpec) -> None:
    spec = make_spec(mounts=("/data:/mnt:ro",))
    expected = (Mount(source=str(RUN)), Mount(source="/tools", read_only=True), parse_mount("/data:/mnt:ro"))
    assert mounts(spec, launch(Mount(source="/tools", read_only=True)), phase(), RUN, "") == expected


def test_of_two_mounts_with_one_target_the_users_is_used(make_spec: MakeSpec) -> None:
    """Container tools refuse a target that is mounted twice."""
    spec = make_spec(mounts=("/mine:/tools",))
    listed = mounts(spec, launch(Mount(source="/tools", read_only=True)), phase(), RUN, "")
    assert listed == (Mount(source=str(RUN)), Mount(source="/mine", target="/tools"))


@pytest.mark.parametrize(
    ("of_run", "of_phase", "cache"),
    [
        ({}, {}, None),
        ({"HF_HOME": "/cache"}, {}, "/cache"),
        ({"HF_HOME": "/cache"}, {"HF_HOME": "/other"}, "/other"),
        ({"HF_HOME": ""}, {}, None),
    ],
)
def test_the_model_cache_is_mounted_where_the_ranks_look_for_it(
    make_spec: MakeSpec, of_run: dict[str, str], of_phase: dict[str, str], cache: str | None
) -> None:
    listed = mounts(make_spec(env=of_run), launch(), phase(env=of_phase), RUN, "")
    assert listed == (Mount(source=str(RUN)), *([Mount(source=cache)] if cache else []))


@pytest.mark.parametrize(
    ("forbidden", "text", "path", "character"),
    [(",", "/a,b", "/a,b", ","), (",", "/a:/b,c", "/b,c", ","), ('",', '/a"b', '/a"b', '"')],
)
def test_a_path_that_the_tool_cannot_express_is_refused(
    make_spec: MakeSpec, forbidden: str, text: str, path: str, character: str
) -> None:
    with pytest.raises(UsageError) as refused:
        mounts(make_spec(mounts=(text,)), launch(), phase(), RUN, forbidden)
    problem = f"the folder {path!r} cannot be mounted: its path contains {character!r}; rename it or use a link"
    assert str(refused.value) == problem
    assert mounts(make_spec(mounts=(text,)), launch(), phase(), RUN, "")[1] == parse_mount(text)


@pytest.mark.parametrize(
    ("gpu_type", "gpus_per_rank", "needed"), [("h100", 1, True), ("h100", 0, False), ("cpu", 4, False)]
)
def test_gpus_are_made_visible_to_ranks_that_have_some(
    make_spec: MakeSpec, gpu_type: str, gpus_per_rank: int, needed: bool
) -> None:
    """In CPU runs `gpus_per_rank` counts CPU devices."""
    assert needs_gpus(make_spec(gpu_type=gpu_type), launch(gpus_per_rank=gpus_per_rank)) is needed


def test_optional_mounts_are_added_where_their_source_exists(tmp_path: Path) -> None:
    existing, absent = tmp_path / "it's here", tmp_path / "absent"
    existing.mkdir()
    listed = [
        Mount(source=str(existing), target="/x", read_only=True, optional=True),
        Mount(source=str(absent), optional=True),
        Mount(source=str(tmp_path)),
    ]
    program = "set -e; " + if_there(listed, lambda mount: f"echo {mount}") + "echo end"
    done = subprocess.run(["/bin/sh", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"{existing}:/x:ro", "end"]
    assert if_there([Mount(source="/a")], lambda mount: mount) == ""
