"""Every kind of page at every width, in both color schemes and on paper: nothing is cut off, nothing is too small."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmbx.config.install import Install
from llmbx.config.profiles import Config
from llmbx.model import Axis, Chart, Column, Fact, Point, Section, Series, Table
from llmbx.plugins.manager import Plugins
from llmbx.record.folder import Run
from llmbx_analysis.compare import compare_runs, measured
from llmbx_analysis.report import comparison_page
from llmbx_analysis.report.build import build
from llmbx_analysis.report.gather import ReportOptions, gather
from llmbx_analysis.report.html import render, write_sections

from ...run_factory import RunFactory, install, noise, plugins, run_factory, spec, toy
from .conftest import Open

Write = Callable[[str], Path]

__all__ = ["install", "plugins", "run_factory", "spec", "toy"]

WIDTHS = (360, 420, 800, 1400)

PAPER = 703
"""Pixels between the margins of A4."""

KINDS = ("run", "failed", "sweep", "comparison", "sections")

CUT_OFF = """() => {
  const width = document.documentElement.clientWidth;
  const out = [...document.querySelectorAll("body *")].filter((element) => {
    if (element.closest(".skip") || element.parentElement.closest(".scroll")) return false;
    const box = element.getBoundingClientRect();
    return box.width && (box.right > width + 1 || box.left < -1);
  }).map((element) => `${element.tagName} ${element.className.baseVal ?? element.className}`);
  if (document.documentElement.scrollWidth > width) out.push("the page scrolls");
  return out;
}"""

SMALL = """() => [...document.querySelectorAll(".drawing text")].filter((text) => text.getClientRects().length)
  .map((text) => parseFloat(getComputedStyle(text).fontSize) * Math.hypot(text.getScreenCTM().a, text.getScreenCTM().b))
  .filter((pixels) => pixels < 8.5)"""
"""Texts of the drawings on the screen that are less than 8.5 pixels high."""

SCROLLS = """() => [...document.querySelectorAll(".scroll")].map((box) => [
  box.scrollWidth > box.clientWidth, box.tabIndex === 0, Boolean(box.getAttribute("aria-label"))])"""

LONG = "/a/folder/with/a/long/name/pretraining_llama3.1_405b_fp8_2048_tp8_pp16_cp2_1795461115/" + "0123456789abcdef" * 8

FAILURE = {"cause": f"rank 3: {LONG}"}


@pytest.fixture
def write(run_factory: RunFactory, install: Install, plugins: Plugins, tmp_path: Path) -> Write:
    """`write("sweep")`: a page of this kind, with long names."""
    scales = [run_factory.put(noise(k, 1.0 / k), gpus=8 * k, env={"LONG": LONG}) for k in (1, 2, 4)]
    repeats = [run_factory.put(noise(k, 1.1)) for k in (5, 6)]
    failed = [run_factory.put(noise(k, 1.0, count=9), gpus=64, valid=False, result=FAILURE) for k in (7, 8)]
    reported = {"run": scales[:1], "failed": failed, "sweep": [*scales, *repeats, *failed]}

    def made(kind: str) -> Path:
        path = tmp_path / f"{kind}.html"
        if kind == "sections":
            write_sections(path, f"Sections of {LONG}", [section()])
        elif kind == "comparison":
            path.write_text(comparison(scales[:1], repeats, plugins))
        else:
            cells, _ = gather(reported[kind], install, plugins, Config(), ReportOptions())
            path.write_text(render(build(cells)))
        return path

    return made


def comparison(a: list[Run], b: list[Run], plugins: Plugins) -> str:
    one, two = ([measured(run, plugins) for run in side] for side in (a, b))
    return render(comparison_page.build(compare_runs(one, two, 0.05), one, two))


def section() -> Section:
    """What a profiler may write: many columns, long names."""
    series = tuple(Series(name=f"{k} {LONG}", points=tuple(Point(x=x, y=x + k) for x in range(9))) for k in range(4))
    return Section(
        name="trace", title=f"Trace {LONG}", text=(LONG,), warnings=(LONG,),
        facts=(Fact(name=LONG, value=1.0, unit="tokens/s/GPU", formula=LONG, note=LONG),),
        tables=(
            Table(title="wide", columns=tuple(Column(title=f"column {k}") for k in range(30)), rows=((LONG,) * 30,)),
        ),
        charts=(Chart(name="c", title=LONG, summary=LONG, x=Axis(title="step", unit="number"),
                      y=Axis(title="time", unit="s"), series=series),),
    )  # fmt: skip


def soon(tab: Any, condition: str) -> bool:
    """Whether the condition holds within 600 frames. The page's policy forbids `wait_for_function`."""
    found: bool = tab.evaluate(f"""() => new Promise((done) => {{
      let left = 600;
      const look = () => {condition} ? done(true) : left-- ? requestAnimationFrame(look) : done(false);
      look();
    }})""")
    return found


def unfold(tab: Any) -> None:
    tab.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_cut_off_at_any_width(show: Open, write: Write, scheme: str) -> None:
    found = {}
    for kind in KINDS:
        tab = show(write(kind), color_scheme=scheme)
        unfold(tab)
        for width in WIDTHS:
            tab.set_viewport_size({"width": width, "height": 800})
            found[kind, width] = (tab.evaluate(CUT_OFF), tab.evaluate(SMALL))
    assert len(found) == len(KINDS) * len(WIDTHS)
    assert {where: bad for where, bad in found.items() if any(bad)} == {}


def test_tables_that_do_not_fit_scroll_and_only_these_are_stops_of_the_keyboard(show: Open, write: Write) -> None:
    tab = show(write("sweep"), viewport={"width": 360, "height": 800})
    boxes = tab.evaluate(SCROLLS)
    assert any(scrolls for scrolls, _, _ in boxes)
    assert all(stop == scrolls and named for scrolls, stop, named in boxes)
    table = tab.locator("#configurations .scroll")
    table.focus()
    tab.keyboard.press("ArrowRight")
    assert soon(tab, "document.activeElement.scrollLeft > 0")
    tab.set_viewport_size({"width": 6000, "height": 800})
    assert soon(tab, "!document.querySelector('#what-differs .scroll').hasAttribute('tabindex')")


@pytest.mark.parametrize("kind", KINDS)
def test_the_rules_of_accessibility_find_nothing_on_a_telephone(show: Open, write: Write, kind: str) -> None:
    """axe-core's rules with everything unfolded; its script needs the policy lifted."""
    from axe_playwright_python.sync_playwright import Axe

    tab = show(write(kind), viewport={"width": 360, "height": 800}, color_scheme="dark", bypass_csp=True)
    unfold(tab)
    found = Axe().run(tab).response
    assert len(found["passes"]) > 20
    assert [(rule["id"], [node["html"][:100] for node in rule["nodes"]]) for rule in found["violations"]] == []


@pytest.mark.parametrize("kind", ["run", "failed", "sweep", "comparison"])
def test_paper_is_wide_enough(show: Open, write: Write, kind: str) -> None:
    tab = show(write(kind), viewport={"width": PAPER, "height": 1000})
    tab.emulate_media(media="print")
    assert tab.evaluate("document.documentElement.scrollWidth") <= PAPER


def test_a_manager_sees_verdict_and_figures_without_scrolling(show: Open, write: Write) -> None:
    for kind in ("run", "sweep", "comparison"):
        tab = show(write(kind), viewport={"width": 1400, "height": 900})
        last = tab.locator("#verdict .figures.key").bounding_box()
        assert last["y"] + last["height"] < 900, kind


def test_nothing_moves_for_those_who_want_no_motion(show: Open, write: Write) -> None:
    path = write("run")
    for motion, behavior in (("reduce", "auto"), ("no-preference", "smooth")):
        tab = show(path, reduced_motion=motion)
        assert tab.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == behavior
