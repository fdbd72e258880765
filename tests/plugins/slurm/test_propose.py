"""The profile that is proposed for a Slurm cluster, from sinfo's output in the format of Slurm 23.11."""

from __future__ import annotations

import pytest

from llmbx_slurm.propose import Partition, partitions, proposal

SINFO = """\
debug|2|(null)|30:00|up
batch*|32|gpu:h100:8(S:0-1)|1-00:00:00|up
batch*|1|gpu:h100:4(S:0)|1-00:00:00|up
old|8|gpu:4|infinite|up
gone|8|gpu:b200:8|infinite|down
broken line
"""


def test_sinfo_is_read() -> None:
    assert partitions(SINFO) == [
        Partition(name="debug", nodes=2, limit="30:00"),
        Partition(name="batch", nodes=32, gpus=8, gpu_name="h100", limit="1-00:00:00", default=True),
        Partition(name="batch", nodes=1, gpus=4, gpu_name="h100", limit="1-00:00:00", default=True),
        Partition(name="old", nodes=8, gpus=4, limit="infinite"),
    ]


def test_the_default_partition_with_gpus_is_proposed() -> None:
    found = proposal(partitions(SINFO), ["bench"])
    assert (found.gpu_name, found.gpus_per_node) == ("h100", 8)
    assert found.settings == {"partition": "batch", "account": "bench", "gres": "gpu:8"}
    assert found.comments["partition"].startswith("batch: 32 nodes with 8 h100, at most 1-00:00:00; debug: 2 nodes")


@pytest.mark.parametrize(
    ("text", "name", "gpus"),
    [
        ("cpu*|9|(null)|1:00:00|up\ngpu|2|gpu:a100:4|1:00:00|up\n", "gpu", 4),
        ("a|9|(null)|1:00:00|up\nb*|2|(null)|1:00:00|up\n", "b", None),
        ("", None, None),
    ],
)
def test_a_partition_with_gpus_comes_before_the_default_one(text: str, name: str | None, gpus: int | None) -> None:
    found = proposal(partitions(text), [])
    assert (found.settings.get("partition"), found.gpus_per_node) == (name, gpus)
    assert ("gres" in found.settings) == bool(gpus)


def test_of_several_accounts_the_user_has_to_choose() -> None:
    found = proposal([], ["a", "b"])
    assert "account" not in found.settings and found.comments["account"] == "one of a, b"
    assert proposal([], []).comments["account"] == "Slurm names no account of this user"
