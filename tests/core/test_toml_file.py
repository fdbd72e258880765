"""Invalid TOML is reported in one line with the place and a suggestion."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from llmbx.errors import UsageError
from llmbx.model import Value
from llmbx.toml_file import parse_toml, read_toml


class Leaf(Value, frozen=True):
    size: int
    kind: Literal["dense", "sparse"] = "dense"


class Tree(Value, frozen=True):
    name: str
    leaves: tuple[Leaf, ...] = ()
    named: dict[str, Leaf] | None = None
    best: Leaf | None = None


def read(tmp_path: Path, text: str) -> Tree:
    path = tmp_path / "tree.toml"
    path.write_text(text)
    return read_toml(path, Tree)


def test_a_valid_file_becomes_the_record(tmp_path: Path) -> None:
    tree = read(tmp_path, 'name = "oak"\n[[leaves]]\nsize = 3\n[named.a]\nsize = 4\nkind = "sparse"\n')
    assert tree == Tree(name="oak", leaves=(Leaf(size=3),), named={"a": Leaf(size=4, kind="sparse")})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('nmae = "oak"', "unknown key 'nmae' (did you mean 'name'?)"),
        ('name = "x"\n[[leaves]]\nszie = 1', "at leaves[0]: unknown key 'szie' (did you mean 'size'?)"),
        ('name = "x"\n[named.a]\nsise = 3', "at named.a: unknown key 'sise' (did you mean 'size'?)"),
        ('name = "x"\n[best]\nkin = 3', "at best: unknown key 'kin' (did you mean 'kind'?)"),
        ('name = "x"\n[best]\nsize = "3"', "at best.size: expected an integer, got str"),
        ('name = "x"\n[best]\nsize = 3\nkind = "spars"', "at best.kind: unknown value 'spars' (did you mean 'sparse'"),
        ("leaves = []", "the key 'name' is missing"),
        ('name = "a\n', "not valid TOML"),
    ],
)
def test_a_fault_names_the_file_the_place_and_the_remedy(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'tree.toml'}: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_toml(tmp_path / "none.toml", Tree)


def test_a_file_without_an_end_is_refused() -> None:
    with pytest.raises(UsageError, match="/dev/zero: larger than 16 MiB"):
        read_toml(Path("/dev/zero"), Tree)


def test_line_ends_of_other_systems_are_read(tmp_path: Path) -> None:
    (tmp_path / "tree.toml").write_bytes(b'name = "a"\r\nleaves = []\r\n')
    (tmp_path / "unix.toml").write_bytes(b'name = "a"\nleaves = []\n')
    assert parse_toml(tmp_path / "tree.toml") == parse_toml(tmp_path / "unix.toml")
