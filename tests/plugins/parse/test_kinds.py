"""How a file is read that is not in the folder of a run."""

from __future__ import annotations

from llmbx.model import Source
from llmbx_parse.formats import kind_of
from llmbx_parse.plugin import register_sources


def test_how_a_single_file_is_read() -> None:
    readers = register_sources()
    assert kind_of("rank-3.log", (Source(glob="logs/**/*.log", kind="lines"),), readers) == "lines"
    assert kind_of("events.out.tfevents.1.host", (), readers) == "tensorboard"
    names = ("a.jsonl", "run-x.wandb", "log-x.out")
    assert [kind_of(name, (), readers) for name in names] == ["jsonl", "wandb", None]
