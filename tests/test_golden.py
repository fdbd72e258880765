"""The comparison with golden files: folding loses nothing, and a failure says what to do."""

from __future__ import annotations

import graphlib
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .golden import ABOVE, _label, _parts, compare, folded, write

FOLD = re.compile(r"^… (\S+): (.*) … (.*)\n", re.MULTILINE)
NUMBERED = re.compile(r"(.*) \((\d+)\)")


def unfolded(text: str, wholes: Mapping[str, str]) -> str:
    """The text whose folding is `text`."""
    parts: list[str] = []
    for line in text.splitlines(keepends=True):
        fold = FOLD.fullmatch(line)
        if fold is None:
            parts.append(line)
            continue
        pool = _parts("".join(parts) if fold[1] == ABOVE else wholes[fold[1]])
        start = place(fold[2], pool)
        end = start + place(fold[3], pool[start:])
        parts += pool[start : end + 1]
    return "".join(parts)


def place(named: str, pool: list[str]) -> int:
    """The index of the part that a fold names."""
    numbered = NUMBERED.fullmatch(named)
    label, number = (numbered[1], int(numbered[2])) if numbered else (named, 1)
    return [n for n, part in enumerate(pool) if _label(part) == label][number - 1]


LINES = st.lists(st.sampled_from(["a", "b", "c", "  a", "}", "", "x" * 61, "x" * 62]), max_size=40)
TEXTS = LINES.map(lambda lines: "".join(f"{line}\n" for line in lines))


@given(TEXTS, TEXTS, TEXTS)
def test_every_text_can_be_read_from_its_folding(text: str, first: str, second: str) -> None:
    wholes = {"first": first, "second": second}
    assert unfolded(folded(text, wholes), wholes) == text


def test_only_the_own_lines_of_a_text_are_kept() -> None:
    whole = "head\n" + "".join(f"line {n}\n" for n in range(9)) + "}\n\ntail\n"
    assert folded(whole.replace("head", "title"), {"whole": whole}) == "title\n… whole: line 0 … tail\n"
    assert folded(whole.replace("line 4", "line four"), {"whole": whole}) == (
        "… whole: head … line 3\nline four\n… whole: line 5 … tail\n"
    )
    assert folded(whole.replace("line 4\n", ""), {"whole": whole}) == "… whole: head … line 3\n… whole: line 5 … tail\n"


def test_a_change_of_common_lines_leaves_the_folding() -> None:
    whole = "".join(f"line {n}\n" for n in range(9))
    before = folded(f"own\n{whole}", {"whole": whole})
    changed = whole.replace("line 4", "line four\nline five")
    assert folded(f"own\n{changed}", {"whole": changed}) == before


def test_a_failure_shows_the_lines_that_differ_and_how_to_write_them(tmp_path: Path) -> None:
    text = "".join(f"line {n}\n" for n in range(100))
    path = tmp_path / "text.txt"
    write(path, text.replace("line 50\n", ""))
    with pytest.raises(pytest.fail.Exception) as failure:
        compare(path, text, "pytest --update-golden test_it.py")
    *shown, _, last = str(failure.value).splitlines()
    assert [line for line in shown[3:] if line[0] != " "] == ["+line 50"] and len(shown) == 8
    assert shown[0] == f"--- {path}" and last.endswith("write it with: pytest --update-golden test_it.py")
    write(path, text)
    compare(path, text, "")


def test_a_missing_file_fails(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"there is no golden file .*new\.txt"):
        compare(tmp_path / "new.txt", "text\n", "")


def test_every_fold_names_a_whole_that_does_not_fold_by_it() -> None:
    """Else lines could stand in two golden files as folds by each other, and in neither as lines."""
    files = [path for path in Path(__file__).parent.glob("**/golden/**/*") if path.is_file()]
    folds = [{fold[1] for fold in FOLD.finditer(path.read_text())} - {ABOVE} for path in files]
    assert set().union(*folds)
    for whole in set().union(*folds):
        assert [path.name for path in files].count(whole) == 1, whole
    graphlib.TopologicalSorter({path.name: wholes for path, wholes in zip(files, folds, strict=True)}).prepare()
