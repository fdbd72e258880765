"""A configuration as flat JSON, and the format of its values."""

from __future__ import annotations

import enum
import functools
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llmbx.entry import final


class Kind(enum.Enum):
    auto = 1


@dataclass
class Inner:
    width: int = 4
    _hidden: int = 1


@dataclass
class Outer:
    model: Inner = field(default_factory=Inner)
    names: dict[str, Any] = field(default_factory=lambda: {"a": 1, "b": {"c": None}})
    empty: dict[str, Any] = field(default_factory=dict)
    kind: Kind = Kind.auto
    rate: float = float("inf")
    init: Any = field(default_factory=lambda: functools.partial(json.dumps, indent=2))
    spec: Any = json.dumps
    steps: tuple[int, ...] = (1, 2)
    parts: list[Inner] = field(default_factory=lambda: [Inner(2)])


def test_values_have_the_format_of_upstreams_files() -> None:
    outer = Outer()
    outer.later = True  # type: ignore[attr-defined]
    found = final.flat(outer)
    inner = f"{__name__}.Inner"
    assert found == {
        "empty": {},
        "init": {"callable": "json.dumps", "args": [], "kwargs": {"indent": 2}},
        "kind": "Kind.auto",
        "later": True,
        "model.class": inner,
        "model.width": 4,
        "names.a": 1,
        "names.b.c": None,
        "parts": [{"class": inner, "width": 2}],
        "rate": {"float": "inf"},
        "spec": {"callable": "json.dumps"},
        "steps": [1, 2],
    }
    assert list(found) == sorted(found)


def test_an_object_that_contains_itself() -> None:
    outer = Outer()
    outer.model.up = outer.model  # type: ignore[attr-defined]
    assert final.flat(outer)["model.up.repeated"] is True


def test_the_file_is_complete_and_contains_the_versions(tmp_path: Path) -> None:
    final.write(Outer(), {"megatron-bridge": "0.1.0rc3"}, tmp_path)
    found = json.loads((tmp_path / "configs/final.json").read_text())
    assert found["versions"] == {"megatron-bridge": "0.1.0rc3"} and found["final"]["model.width"] == 4
    assert [path.name for path in (tmp_path / "configs").iterdir()] == ["final.json"]
