"""Rank numbers from the environment, and messages of a rank."""

from __future__ import annotations

import pytest

from llmbx.entry import rank

SHIM = {
    "LLMBX_RANK": "5", "LLMBX_LOCAL_RANK": "1", "LLMBX_WORLD_SIZE": "8", "LLMBX_LOCAL_WORLD_SIZE": "4",
    "LLMBX_NODE_RANK": "1", "LLMBX_MASTER_ADDR": "10.0.0.7", "LLMBX_MASTER_PORT": "12008",
}  # fmt: skip


def test_a_rank_is_read_from_the_shims_variables() -> None:
    found = rank.this(SHIM)
    assert found == rank.Rank(number=5, local=1, world=8, local_world=4, node=1, address="10.0.0.7", port=12008)
    assert not found.first


def test_a_program_started_by_hand_is_a_single_rank() -> None:
    found = rank.this({})
    assert found.first and (found.world, found.local_world, found.address) == (1, 1, "127.0.0.1")


def test_each_node_says_once_which_ranks_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(8):
        place = {"LLMBX_RANK": str(number), "LLMBX_LOCAL_RANK": str(number % 4), "LLMBX_NODE_RANK": str(number // 4)}
        rank.say_where(rank.this({**SHIM, **place}), {"LLMBX_NODE_NAME": f"n{number // 4}"})
    rank.say_where(rank.this({}))
    assert capsys.readouterr().err.splitlines() == [
        "llmbx: node 0 (n0) has ranks 0-3 of 8",
        "llmbx: node 1 (n1) has ranks 4-7 of 8",
    ]


def test_the_first_rank_of_a_node_says_why_it_stops(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for local, lines in (("0", ["llmbx: error: no FP8 here", "llmbx: error: no GPU here"]), ("1", [])):
        monkeypatch.setenv("LLMBX_LOCAL_RANK", local)
        with pytest.raises(SystemExit) as ended:
            rank.stop("no FP8 here", "no GPU here")
        assert ended.value.code == 2 and capsys.readouterr().err.splitlines() == lines


def test_the_image_or_environment_with_the_framework_is_named() -> None:
    assert "image nvcr.io#nvidia/nemo:25.04.00" in rank.origin({"image": {"reference": "nvcr.io#nvidia/nemo:25.04.00"}})
    assert "'toy-cpu'" in rank.origin({"image": None, "environment": "toy-cpu"})


@pytest.mark.parametrize(("module", "there"), [("json.tool", True), ("json.nothing", False), ("nothing.at.all", False)])
def test_modules_are_found_without_importing_them(module: str, there: bool) -> None:
    assert rank.importable(module) is there
