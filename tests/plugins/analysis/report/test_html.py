"""The HTML page: valid, escaped, self-contained, and accessible."""

from __future__ import annotations

import base64
import hashlib
import re
import typing
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from llmbx.config.install import Install
from llmbx.model import Chart, Column, Fact, RunSpec, Section, Table
from llmbx_analysis.report.build import Report
from llmbx_analysis.report.html import MOST_ROWS, MOST_WARNINGS, PIECE, render

from ....run_factory import RunFactory, Toy, example_spec, noise, plugins_with
from .conftest import Reporter
from .test_charts import AWKWARD, CHART

VOID = {"meta", "link", "br", "img", "input", "hr", "wbr"}


class Page(HTMLParser):
    """Collects the elements with their attributes, the scripts and the text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        assert self.open == [], "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory, make_spec: Callable[..., RunSpec]) -> Report:
    """Three scales with repeats and a failed run, with special characters in all texts; tests only read it."""
    folder = tmp_path_factory.mktemp("full")
    factory = RunFactory(Install(root=str(folder / "install"), origin="test"), example_spec(make_spec))
    runs = [factory.put(noise(k, 1.0 / k), gpus=8 * k, tags=(AWKWARD,)) for k in (1, 2, 4)]
    runs += [factory.put(noise(5, 1.01), env={"X": AWKWARD})]
    runs += [
        factory.put(noise(6, 1.0, count=9), gpus=8, valid=False, result={"cause": AWKWARD, "warnings": (AWKWARD,)})
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        return Reporter(factory.install, plugins_with(Toy(factory.spec.model))).report(*runs)


@pytest.fixture(scope="module")
def text(full: Report) -> str:
    return render(full)


@pytest.fixture(scope="module")
def found(text: str) -> Page:
    return Page(text)


def test_ids_are_unique_and_references_have_targets(found: Page) -> None:
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in found.elements:
        for name in ("aria-describedby", "aria-labelledby", "data-table"):
            if name in attributes:
                assert attributes[name] in ids
        href = attributes.get("href") or ""
        assert not href or (href.startswith("#") and href[1:] in ids)


def test_nothing_is_loaded_and_only_its_own_script_may_run(text: str, found: Page) -> None:
    for tag, attributes in found.elements:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base"), tag
        assert "src" not in attributes and "srcset" not in attributes
        assert not [name for name in attributes if name.startswith("on")], attributes
    (script,) = found.scripts
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = next(m["content"] for m in found.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert "default-src 'none'" in policy and f"script-src 'sha256-{digest}'" in policy
    urls = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+", re.sub(r"<script>.*?</script>", "", text, flags=re.S)))
    assert urls <= {"http://www.w3.org"}


def test_all_texts_are_escaped(text: str, found: Page) -> None:
    assert text.count("<script") == 1
    assert AWKWARD in "".join(found.words)
    hostile = Section(name="s", title=AWKWARD, text=(AWKWARD,), warnings=(AWKWARD,), charts=(CHART,),
                      facts=(Fact(name=AWKWARD, value=AWKWARD, formula=AWKWARD, note=AWKWARD),))  # fmt: skip
    assert render(Report(title=AWKWARD, verdicts=(), sections=(hostile,), results=())).count("<script") == 1


ATTACK = (
    "\"'></td></script><script>alert(1)</script><img src=x onerror=alert(1)><svg/onload=alert(1)>javascript:{{7*7}}"
)


def attacked(value: Any, hint: Any = str) -> Any:
    """The value with `ATTACK` after each text that may be any text."""
    if isinstance(value, str):
        return value if typing.get_origin(hint) is typing.Literal else value + ATTACK
    if isinstance(value, tuple):
        return tuple(attacked(item) for item in value)
    if isinstance(value, dict):
        return {key: attacked(item) for key, item in value.items()}
    if isinstance(value, msgspec.Struct):
        hints = {field.name: field.type for field in msgspec.structs.fields(value)}
        return msgspec.structs.replace(value, **{n: attacked(getattr(value, n), h) for n, h in hints.items()
                                                 if n != "results"})  # fmt: skip
    return value


def test_no_text_of_any_field_becomes_markup(full: Report, found: Page) -> None:
    after = Page(render(attacked(full)))
    assert after.scripts == found.scripts and "alert(1)" in "".join(after.words)
    assert not [a for tag, a in after.elements if tag in ("img", "svg") and ("onload" in a or "src" in a)]
    assert not [a for _, a in after.elements if any(name.startswith("on") for name in a)]
    assert not [a for _, a in after.elements if (a.get("href") or "").startswith("javascript")]


def test_the_verdict_is_first_and_has_the_cause(text: str) -> None:
    assert text.index('id="verdict"') < text.index("<nav") < text.index('id="configurations"')
    assert re.search(r'<div class="verdict bad">', text)


def test_the_formula_of_every_figure_is_accessible_by_pointer_and_keyboard(
    run_factory: RunFactory, reporter: Reporter
) -> None:
    report = reporter.report(run_factory.put(noise(1, 1.0)))
    found = Page(render(report))
    assert report.overview is not None
    facts = [*report.overview.facts, *(fact for section in report.sections for fact in section.facts)]
    cards = [a for a in found.all("div") if "figure" in (a.get("class") or "").split()]
    assert len(cards) == len(facts) > 10
    assert all(card["tabindex"] == "0" and card["aria-describedby"] for card in cards)
    tips = [a for a in found.all("span") if a.get("role") == "tooltip"]
    assert {card["aria-describedby"] for card in cards} <= {tip["id"] for tip in tips}


def test_every_chart_has_a_table_with_all_its_values(full: Report, text: str) -> None:
    charts: list[tuple[str, Chart]] = [(s.name, c) for s in full.sections for c in s.charts]
    assert len(charts) > 8
    for section, chart in charts:
        body = text.split(f'id="{section}-{chart.name}-table"')[1].split("</table>")[0]
        assert body.count("<tr>") - 1 == sum(len(series.points) for series in chart.series)
    assert text.count('class="canvas" tabindex="0" role="group"') == len(charts)


def test_heading_levels_are_consecutive(found: Page) -> None:
    levels = [int(tag[1]) for tag, _ in found.elements if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))


def test_every_number_has_a_unit(text: str) -> None:
    for table in re.findall(r"<table.*?</table>", text, flags=re.S):
        heads = re.findall(r"<th scope=\"col\".*?</th>", table, flags=re.S)
        for row in re.findall(r"<tr>\s*<th scope=\"row\".*?</tr>", table, flags=re.S):
            cells = re.findall(r"<t[hd][ >].*?</t[hd]>", row, flags=re.S)
            for head, cell in zip(heads, cells, strict=True):
                assert "data-value" not in cell or 'class="unit"' in head, (head, cell)


def test_a_very_long_table_is_truncated_with_a_note() -> None:
    rows = tuple((str(k), float(k)) for k in range(MOST_ROWS + 5))
    table = Table(title="all", columns=(Column(title="a"), Column(title="b", unit="s")), rows=rows)
    text = render(Report(title="t", verdicts=(), sections=(Section(name="s", title="S", tables=(table,)),), results=()))
    assert text.count('<th scope="row"') == MOST_ROWS
    assert "The first 2,000 of 2,005 rows" in text


def test_every_chart_is_drawn_for_wide_and_for_narrow_screens(full: Report, found: Page) -> None:
    count = sum(len(section.charts) for section in full.sections)
    drawings = [a for a in found.all("svg") if "drawing" in (a.get("class") or "")]
    assert [a["class"] for a in drawings] == ["drawing wide", "drawing narrow"] * count
    widths = [float((a["viewbox"] or "").split()[2]) for a in drawings]
    assert all(wide > 700 and 200 < narrow < 320 for wide, narrow in zip(widths[::2], widths[1::2], strict=True))


def test_long_words_in_tables_can_wrap_and_are_complete() -> None:
    words = (
        "a_very_long_identifier_1795461115",
        "/a/folder/with/many/parts",
        "sha256:" + 64 * "f",
        "short",
        "two words",
    )
    table = Table(title="t", columns=(Column(title="a"),), rows=tuple((word,) for word in words))
    text = render(Report(title="t", verdicts=(), sections=(Section(name="s", title="S", tables=(table,)),), results=()))
    cells = re.findall(r'<th scope="row">(.*?)</th>', text)
    assert tuple(cell.replace("<wbr>", "") for cell in cells) == words
    assert all(len(part) <= PIECE for cell in cells for part in re.split("<wbr>| ", cell))
    assert cells[3:] == ["short", "two words"]


def test_every_table_can_scroll_by_itself_and_has_a_name(found: Page) -> None:
    boxes = [a for a in found.all("div") if a.get("class") == "scroll"]
    assert len(boxes) == len(found.all("table"))
    assert all(box["tabindex"] == "0" and box["role"] == "region" and box["aria-label"] for box in boxes)


def test_more_than_a_few_warnings_are_folded_and_counted() -> None:
    warnings = tuple(f"warning number {k}" for k in range(MOST_WARNINGS + 2))
    section = Section(name="s", title="S", warnings=warnings)
    text = render(Report(title="t", verdicts=(), sections=(section,), results=()))
    open_, folded = text.split("<summary>2 more warnings</summary>")
    assert open_.count("warning number") == MOST_WARNINGS and folded.count("warning number") == 2
