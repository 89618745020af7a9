"""The page in a browser: it draws, follows, zooms and fits, and it asks nobody for anything."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import Written

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WIDE, NARROW = 1280, 390

UNDRAWN = """() => Array.from(document.querySelectorAll('.plot'))
  .filter(place => place.offsetParent !== null && !place.classList.contains('drawn')).length"""
SHOWN = """() => { const found = []; stowplan.drawn.forEach(figures => { for (const plot of figures.roots())
  if (plot.x_range.name === 'time') found.push(plot.x_range.end - plot.x_range.start); }); return found; }"""
INK = """() => { const plot = Array.from(stowplan.drawn.values())[0].roots()[0];
  return ['', plot.left[0].major_label_text_color, getComputedStyle(document.body).backgroundColor]; }"""


def eventually(page: Page, expression: str, holds: Callable[[Any], bool]) -> None:
    """Waits until it holds of what the page says. The page forbids what Playwright's own way of waiting needs."""
    for _ in range(200):
        if holds(page.evaluate(expression)):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"never held of {expression}: {page.evaluate(expression)}")


class Watched:
    """A page and what it complained about or asked for."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda message: self._said(message.type, message.text))
        page.on("request", lambda request: self.requests.append(request.url))

    def _said(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.complaints.append(text)

    def read(self) -> None:
        """Down to the end, until every figure on the way is drawn."""
        for section in self.page.query_selector_all("main > section"):
            section.scroll_into_view_if_needed()
            places = section.query_selector_all(".plot")
            for place in places:
                if place.is_visible():
                    place.scroll_into_view_if_needed()
        eventually(self.page, UNDRAWN, lambda left: left == 0)


@contextmanager
def opened(
    browser: Browser, shop: Written, *, width: int = WIDE, scheme: Any = "light", **options: Any
) -> Generator[Watched]:
    """The page at a width; whatever happened in it, it may not have complained."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True, reduced_motion="reduce", **options
    )
    watched = Watched(context.new_page())
    watched.page.goto(shop.page.as_uri())
    yield watched
    assert watched.complaints == []
    assert watched.requests == [shop.page.as_uri()]
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_everything_is_drawn_and_fits(browser: Browser, shop: Written, width: int, scheme: str) -> None:
    """Nothing is wider than the page, in either scheme; figures are neither empty nor clipped."""
    with opened(browser, shop, width=width, scheme=scheme) as watched:
        watched.read()
        page = watched.page
        assert page.evaluate("document.documentElement.scrollWidth") == width
        places = [place for place in page.query_selector_all(".plot") if place.is_visible()]
        assert len(places) > 10
        for place in places:
            box = place.bounding_box()
            assert box is not None
            assert box["height"] >= 100
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
        assert page.evaluate("window.hit") is None


def test_no_name_of_others_is_run(browser: Browser, shop: Written) -> None:
    """Not in tabs, tables, labels of figures, or what the pointer shows."""
    with opened(browser, shop) as watched:
        page = watched.page
        page.locator("#time [role=tab]").nth(3).click()
        watched.read()
        for name in ("#time", "#packing", "#supply"):
            for index in range(3):
                place = page.locator(f"{name} [role=tabpanel]:not([hidden]) .plot").nth(index)
                if not place.count():
                    continue
                place.scroll_into_view_if_needed()
                place.hover(position={"x": 300, "y": 60})
                page.wait_for_timeout(100)
        assert page.evaluate("window.hit") is None
        assert page.locator("img").count() == 0


def test_the_pointer_shows_the_moment_in_words(browser: Browser, shop: Written) -> None:
    """Time, and each candidate with its name."""
    with opened(browser, shop) as watched:
        page = watched.page
        watched.read()
        place = page.locator("#time .plot").nth(2)
        place.scroll_into_view_if_needed()
        place.hover(position={"x": 600, "y": 60})
        tip = page.locator(".bk-Tooltip").first
        tip.wait_for(state="visible")
        words = tip.evaluate("one => one.shadowRoot.querySelector('.bk-tooltip-content').textContent")
        assert "time" in words
        assert "packed" in words
        assert "</script>" in words


def test_tabs_follow_each_other_by_mouse_and_by_keyboard(browser: Browser, shop: Written) -> None:
    """A candidate that is opened in one section is opened in all."""

    def chosen(section: str) -> str:
        return watched.page.locator(f"#{section} [role=tab][aria-selected=true]").inner_text()

    with opened(browser, shop) as watched:
        page = watched.page
        assert chosen("time") == "All candidates"
        assert chosen("supply") == "default"
        page.locator("#time [role=tab]", has_text="packed").click()
        assert [chosen(name) for name in ("time", "packing", "supply", "loops")] == ["packed"] * 4
        assert page.locator("#time [role=tabpanel]:visible").count() == 1
        page.keyboard.press("ArrowLeft")
        assert chosen("time") == chosen("supply") == "default"
        page.keyboard.press("End")
        assert chosen("time").startswith("</script>")
        page.keyboard.press("Home")
        assert chosen("time") == "All candidates"
        assert page.evaluate("document.activeElement.getAttribute('aria-controls')") == "time-0"
        watched.read()


def test_zoom_moves_all_figures_over_time(browser: Browser, shop: Written) -> None:
    """By buttons and by dragging; those that are drawn later, too."""
    day = 86_400_000

    def widths() -> set[float]:
        found: list[float] = watched.page.evaluate(SHOWN)
        assert found
        return {round(one) for one in found}

    with opened(browser, shop) as watched:
        page = watched.page
        watched.read()
        assert widths() == {day}
        zoom = page.get_by_role("button", name="Zoom in")
        zoom.focus()
        page.keyboard.press("Enter")
        assert widths() == {day // 2}
        page.get_by_role("button", name="Later").click()
        page.locator("#time [role=tab]", has_text="packed").click()
        watched.read()
        assert widths() == {day // 2}
        page.get_by_role("button", name="Show the whole run").click()
        assert widths() == {day}
        place = page.locator("#time [role=tabpanel]:visible .plot").first
        place.scroll_into_view_if_needed()
        box = place.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 300, box["y"] + 40)
        page.mouse.down()
        page.mouse.move(box["x"] + 600, box["y"] + 60, steps=5)
        page.mouse.up()
        (found,) = widths()
        assert 0.2 * day < found < 0.35 * day


def test_a_choice_of_workload_holds_for_all_candidates(browser: Browser, shop: Written) -> None:
    """In the tab that is open, and in those opened later."""
    visible = """() => Array.from(stowplan.drawn.values()).flatMap(figures => figures.roots())
      .flatMap(plot => plot.renderers).filter(one => one.visible && one.tags.includes('workload:1')).length"""
    with opened(browser, shop) as watched:
        page = watched.page
        page.locator("#time [role=tab]", has_text="packed").click()
        watched.read()
        assert page.evaluate(visible) == 0
        page.locator("#time [role=tabpanel]:visible select[data-picker=workload]").select_option("1")
        once = page.evaluate(visible)
        assert once > 0
        page.locator("#time [role=tab]", has_text="default").click()
        watched.read()
        assert page.evaluate(visible) == 2 * once
        assert page.locator("#time [role=tabpanel]:visible select[data-picker=workload]").input_value() == "1"


def test_a_thousand_nodes_are_turned_by_pages(browser: Browser, shop: Written) -> None:
    """Forty at a time; a filter starts anew."""
    factors = """() => Array.from(stowplan.drawn.values()).flatMap(figures => figures.roots())
      .filter(plot => plot.y_range.name === 'nodes').map(plot => plot.y_range.factors)
      .find(names => names.some(name => name.startsWith('short')))"""
    with opened(browser, shop) as watched:
        page = watched.page
        page.locator("#supply [role=tab]").nth(2).click()
        watched.read()
        words = page.locator("#supply [role=tabpanel]:visible .page-words")
        assert words.inner_text().startswith("1 to 40 of 1")
        assert len(page.evaluate(factors)) == 40
        page.locator("#supply [role=tabpanel]:visible").get_by_role("button", name="Nodes after").click()
        assert words.inner_text().startswith("41 to 80 of 1")
        page.locator("#supply [role=tabpanel]:visible select[data-filter=end]").select_option(label="expired")
        assert words.inner_text() == "1 to 40 of 100 nodes"
        assert all(name.startswith("short") for name in page.evaluate(factors))


def test_colours_follow_the_system_and_the_reader(browser: Browser, shop: Written) -> None:
    """Text of figures as well as of the page; printing is light."""
    with opened(browser, shop, scheme="dark") as watched:
        page = watched.page
        watched.read()
        dark = page.evaluate(INK)
        page.emulate_media(color_scheme="light")
        eventually(page, INK, lambda ink: ink[1] == "#566070")
        light = page.evaluate(INK)
        assert dark[1:] == ["#a0aab8", "rgb(14, 17, 22)"]
        assert light[1:] == ["#566070", "rgb(244, 246, 248)"]
        page.get_by_role("button", name="Dark").click()
        assert page.evaluate(INK) == dark
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert page.evaluate(INK)[1] == "#566070"
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        assert page.evaluate(INK) == dark
        page.get_by_role("button", name="Auto").click()
        assert page.evaluate(INK) == light


def test_a_finger_scrolls_the_page_over_figures(browser: Browser, shop: Written) -> None:
    """On a touch screen dragging does not zoom; the buttons do."""
    with opened(browser, shop, width=NARROW, has_touch=True, is_mobile=True) as watched:
        watched.read()
        drags = watched.page.evaluate(
            """() => Array.from(stowplan.drawn.values()).flatMap(figures => figures.roots())
              .map(plot => plot.toolbar.active_drag)"""
        )
        assert drags
        assert set(drags) == {None}


def test_the_page_prints(browser: Browser, shop: Written) -> None:
    """To a PDF with its figures in it, without what only a screen needs."""
    with opened(browser, shop) as watched:
        watched.read()
        watched.page.emulate_media(media="print")
        assert not watched.page.locator("nav").is_visible()
        assert not watched.page.locator("#time [role=tablist]").is_visible()
        assert watched.page.locator("#time .tab-title:visible").inner_text() == "All candidates"
        assert watched.page.pdf().startswith(b"%PDF")
