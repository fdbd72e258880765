"""The page in a real browser: drawn, quiet, offline, usable by pointer and keyboard, readable in every mode."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llmbx.config.install import Install
from llmbx.config.profiles import Config
from llmbx.plugins.manager import Plugins
from llmbx_analysis.report.build import build
from llmbx_analysis.report.gather import ReportOptions, gather
from llmbx_analysis.report.html import render
from llmbx_analysis.report.palette import DARK, LIGHT

from ...run_factory import RunFactory, noise, plugins, run_factory, spec, toy
from ..conftest import Llmbx
from .conftest import Open

__all__ = ["plugins", "run_factory", "spec", "toy"]

CONTRASTS = """() => {
  const paint = (text) => { const [r, g, b, a] = text.match(/[\\d.]+/g).map(Number); return [r, g, b, a ?? 1]; };
  const light = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, k) => {
    const v = c[k] / 255;
    return sum + weight * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  }, 0);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = paint(getComputedStyle(at).backgroundColor);
      if (color[3] > 0) return color;
    }
    return [255, 255, 255, 1];
  };
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.matches("script, style")) continue;
    if (element.closest('[class*=" label_halo_"]')) continue;  // the halo of the words that follow
    const style = getComputedStyle(element);
    if (!element.getClientRects().length) continue;
    const ink = paint(element.closest("svg") ? style.fill : style.color);
    const [high, low] = [light(ink), light(ground(element))].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) poor.push([walker.currentNode.data.trim().slice(0, 40), ratio]);
  }
  return poor;
}"""


@pytest.fixture
def install(tmp_path: Path) -> Install:
    return Install(root=str(tmp_path / "install"), origin="test")


@pytest.fixture
def page(run_factory: RunFactory, install: Install, plugins: Plugins, tmp_path: Path) -> Path:
    """Three scales, one with repeats, one that failed: what a user writes for a sweep."""
    runs = [run_factory.put(noise(k, 1.0 / k), gpus=8 * k) for k in (1, 2, 4)]
    runs += [run_factory.put([30.0, *noise(k, 1.0)[1:]]) for k in (5, 6)]
    runs += [run_factory.put(noise(7, 1.0, count=9), gpus=64, valid=False, result={"cause": "rank 3: gone"})]
    cells, _ = gather(runs, install, plugins, Config(), ReportOptions())
    path = tmp_path / "report.html"
    path.write_text(render(build(cells)))
    return path


@pytest.fixture
def single(run_factory: RunFactory, install: Install, plugins: Plugins, tmp_path: Path) -> Path:
    """One valid run."""
    cells, _ = gather([run_factory.put(noise(1, 1.0))], install, plugins, Config(), ReportOptions())
    path = tmp_path / "single.html"
    path.write_text(render(build(cells)))
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_are_drawn_and_every_text_can_be_read(show: Open, page: Path, scheme: str) -> None:
    tab = show(page, color_scheme=scheme)
    canvases = tab.locator(".canvas")
    assert canvases.count() > 8
    for k in range(canvases.count()):
        drawing = canvases.nth(k).locator("svg:visible")
        box = drawing.bounding_box()
        assert box["width"] > 500 and box["height"] > 150
        shapes = drawing.locator('[role="graphics-symbol"]')
        assert shapes.count() >= 3
        assert all(shapes.nth(place).bounding_box()["width"] > 1 for place in (0, shapes.count() - 1))
    colors = DARK if scheme == "dark" else LIGHT
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == rgb(colors["ground"])
    line = tab.locator("g.mark-line path").first
    assert line.evaluate("e => getComputedStyle(e).stroke") == rgb(colors["c1"])
    tab.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert tab.evaluate(CONTRASTS) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_rules_of_accessibility_find_nothing(show: Open, page: Path, scheme: str) -> None:
    """axe-core's rules (WCAG 2 A and AA, best practices), everything unfolded; its script needs the policy lifted."""
    from axe_playwright_python.sync_playwright import Axe

    tab = show(page, color_scheme=scheme, bypass_csp=True)
    tab.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    found = Axe().run(tab).response
    assert len(found["passes"]) > 20
    assert [(rule["id"], [node["html"][:100] for node in rule["nodes"]]) for rule in found["violations"]] == []


def test_the_colors_can_be_changed(show: Open, page: Path) -> None:
    tab = show(page, color_scheme="light")
    tab.get_by_role("button", name="Dark colors").press("Enter")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == rgb(DARK["ground"])
    assert tab.evaluate(CONTRASTS) == []
    tab.get_by_role("button", name="Light colors").click()
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == rgb(LIGHT["ground"])


def test_values_are_read_by_pointer_and_by_keyboard(show: Open, single: Path) -> None:
    tab = show(single)
    chart = tab.locator("#measured-step-time")
    canvas, reading = chart.locator(".canvas"), chart.locator(".reading")
    canvas.focus()
    tab.keyboard.press("ArrowRight")
    assert reading.inner_text().startswith("step 0: ")
    tab.keyboard.press("End")
    assert reading.inner_text().startswith("step 49: ")
    tab.keyboard.press("ArrowLeft")
    assert reading.inner_text().startswith("step 48: ")
    tab.keyboard.press("Escape")
    assert reading.inner_text() == ""
    mark = chart.locator('[role="graphics-symbol"]').nth(20)
    mark.scroll_into_view_if_needed()
    mark.hover()
    assert reading.inner_text().startswith("step 20: ") and " s" in reading.inner_text()
    assert reading.get_attribute("aria-live") == "polite"


def test_formulas_show_on_hover_and_on_focus_and_go_with_escape(show: Open, single: Path) -> None:
    tab = show(single)
    card = tab.locator(".figure", has_text="throughput").first
    tip = card.locator('[role="tooltip"]')
    assert not tip.is_visible()
    card.hover()
    assert tip.is_visible() and "sequence length 128 tokens × global batch size 64" in tip.inner_text()
    tab.mouse.move(0, 0)
    assert not tip.is_visible()
    card.focus()
    assert tip.is_visible()
    tab.keyboard.press("Escape")
    assert not tip.is_visible()


@pytest.mark.parametrize("width", [1200, 380])
def test_every_formula_stays_on_the_screen(show: Open, single: Path, width: int) -> None:
    tab = show(single, viewport={"width": width, "height": 900})
    cards = tab.locator(".figure")
    for k in range(cards.count()):
        cards.nth(k).focus()
        box = cards.nth(k).locator('[role="tooltip"]').bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= width and box["height"] > 10


def test_the_keyboard_reaches_everything_that_can_be_used(show: Open, single: Path) -> None:
    tab = show(single)
    wanted = tab.locator("button:visible, a:visible, summary:visible, [tabindex='0']:visible").count()
    reached = set()
    for _ in range(wanted + 5):
        tab.keyboard.press("Tab")
        reached.add(tab.evaluate("[...document.querySelectorAll('*')].indexOf(document.activeElement)"))
    assert len(reached) >= wanted


def test_a_series_can_be_put_away(show: Open, page: Path) -> None:
    tab = show(page)
    chart = tab.locator("#scaling-scaling")
    ideal = chart.get_by_role("button", name="ideal")
    line = chart.locator('svg:visible g[class*=" s1_line"] path')
    assert line.is_visible()
    ideal.click()
    assert not line.is_visible() and ideal.get_attribute("aria-pressed") == "false"
    ideal.press("Enter")
    assert line.is_visible()


def test_tables_sort_by_value_with_the_unknown_last(show: Open, page: Path) -> None:
    tab = show(page)
    table = tab.locator("#configurations-t1")
    head = table.get_by_role("button", name="step time")

    def column() -> list[str]:
        return [text.strip() for text in table.locator("tbody tr td:nth-child(4)").all_inner_texts()]

    head.click()
    values = column()
    assert values[-1] == "unknown" and values[:-1] == sorted(values[:-1], key=float)
    assert head.locator("xpath=..").get_attribute("aria-sort") == "ascending"
    head.press("Enter")
    values = column()
    assert values[-1] == "unknown" and values[:-1] == sorted(values[:-1], key=float, reverse=True)


def test_the_table_behind_a_chart_opens_and_both_can_be_saved(show: Open, single: Path) -> None:
    tab = show(single)
    chart = tab.locator("#measured-step-time")
    chart.locator("summary").press("Enter")
    assert chart.locator("tbody tr").count() == 50 and chart.locator("tbody tr").first.is_visible()
    with tab.expect_download() as saved:
        chart.get_by_role("button", name="Save as CSV").click()
    lines = Path(saved.value.path()).read_text().splitlines()
    assert lines[0] == "step,step time [s],note" and len(lines) == 51
    with tab.expect_download() as drawn:
        chart.get_by_role("button", name="Save as SVG").click()
    svg = Path(drawn.value.path()).read_text()
    assert svg.startswith("<svg") and "var(" not in svg and LIGHT["c1"] in svg


def test_on_paper_it_is_light_without_controls_and_with_the_formulas(show: Open, single: Path, tmp_path: Path) -> None:
    tab = show(single, color_scheme="dark")
    tab.emulate_media(media="print")
    assert tab.evaluate("getComputedStyle(document.body).color") == rgb(LIGHT["ink"])
    assert tab.locator(".figure .tip").first.is_visible()
    assert not tab.locator("#theme").is_visible() and not tab.locator("nav").is_visible()
    assert tab.evaluate(CONTRASTS) == []
    made = tab.pdf(path=str(tmp_path / "report.pdf"))
    assert made.startswith(b"%PDF") and len(made) > 20_000


def test_on_a_narrow_screen_values_are_read_from_the_narrow_drawing(show: Open, single: Path) -> None:
    tab = show(single, viewport={"width": 360, "height": 800})
    chart = tab.locator("#measured-step-time")
    chart.locator(".canvas").focus()
    tab.keyboard.press("End")
    assert chart.locator(".reading").inner_text().startswith("step 49: ")
    assert chart.locator(".drawing:visible .at").count() == 1
    assert chart.locator(".drawing.narrow").is_visible() and not chart.locator(".drawing.wide").is_visible()


def test_without_scripts_everything_is_still_said(show: Open, page: Path) -> None:
    tab = show(page, java_script_enabled=False)
    assert tab.get_by_text("rank 3: gone").first.is_visible()
    assert tab.locator(".canvas svg").first.is_visible()
    assert not tab.locator("#theme").is_visible()


def test_a_real_run_from_start_to_page(llmbx: Llmbx, show: Open, tmp_path: Path) -> None:
    root = tmp_path / "real"
    assert llmbx("run", "line", "--steps", "20", install=root).returncode == 0
    done = llmbx("report", "last", "--html", str(tmp_path / "real.html"), install=root)
    assert done.returncode == 0, done.stderr
    found = json.loads(llmbx("report", "--format", "json", install=root).stdout)
    assert found["verdicts"][0]["word"] == "not a benchmark result"
    tab = show(tmp_path / "real.html")
    assert tab.get_by_role("heading", level=1).inner_text() == "line mini fp32, CPU, 1 rank"
    assert tab.locator("#verdict").get_by_text("a mini is a small proxy").is_visible()
    assert tab.locator("#measured-step-time-table tbody tr").count() == 20


def rgb(color: str) -> str:
    """`#rrggbb` as a browser computes it."""
    return "rgb({}, {}, {})".format(*(int(color[k : k + 2], 16) for k in (1, 3, 5)))
