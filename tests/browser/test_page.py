"""The report in a real browser: everything is drawn, answers to mouse and keyboard, fits a phone, asks nobody."""

import re

import pytest
from playwright.sync_api import expect

from pbim.report import build
from report.stores import write_cliff, write_doorkey


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    home = tmp_path_factory.mktemp("browser")
    cliff = write_cliff(home / "cliff", seeds=3, failed=[("rnd", 2)])
    return {"cliff": build(cliff).as_uri(), "doorkey": build(write_doorkey(home / "doorkey")).as_uri()}


@pytest.fixture
def visit(browser, pages):
    """Open a page; at the end nothing may have been complained of, and nothing asked of the network."""
    complaints, requests, contexts = [], [], []

    def open_page(name="cliff", **view):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **view})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(pages[name])
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in requests if url.startswith("file:")]) == len(contexts)


def means(page, metric="return"):
    return page.locator(f'.chart[data-metric="{metric}"] path.mean')


def overflow(page):
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def test_every_figure_is_drawn(visit):
    page = visit()
    assert page.locator(".chart > svg").count() == 2
    assert means(page).count() == 4
    assert page.locator(".chart path.band").count() == 8
    assert page.locator(".map svg").count() == 4
    assert page.locator(".map path.path").count() == 4
    assert page.locator("table.heat td").count() == 4
    assert page.locator("table.verdicts tbody tr").count() == 4
    assert page.locator(".forest").count() >= 1
    assert page.locator("table.runs tbody tr").count() == 12
    for path in means(page).all():
        box = path.bounding_box()
        assert box["width"] > 200
        assert box["height"] > 1


def test_schemes_are_toggled_by_mouse_and_by_keyboard(visit):
    page = visit()
    button = page.get_by_role("button", name="RND", exact=True)
    expect(button).to_have_attribute("aria-pressed", "true")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")
    assert means(page).count() == means(page, "length").count() == 3
    button.focus()
    page.keyboard.press("Enter")
    expect(button).to_have_attribute("aria-pressed", "true")
    assert means(page).count() == 4


def test_smoothing_and_bands_change_the_picture(visit):
    page = visit()
    length = lambda: means(page).first.evaluate("path => path.getTotalLength()")  # noqa: E731
    page.locator(".smoothing").fill("1")
    rough = length()
    page.locator(".smoothing").fill("60")
    assert length() < rough
    area = page.locator(".chart path.band").first
    narrow = area.get_attribute("d")
    page.locator("select.band").select_option("std")
    assert area.get_attribute("d") != narrow
    page.locator("select.band").select_option("seeds")
    assert page.locator('.chart[data-metric="return"] path.seed').count() == 11  # one seed of twelve failed
    assert page.locator(".chart path.band").count() == 0


def test_pointing_shows_values_and_arrow_keys_move_the_cursor(visit):
    page = visit()
    chart = page.locator(".chart > svg").first
    told = page.locator(".chart .values").first
    chart.scroll_into_view_if_needed()
    chart.hover()
    expect(told).to_contain_text(re.compile(r"Episode \d+.*No IM.*PBIM.*RND"))
    page.mouse.move(0, 0)
    expect(told).to_contain_text("arrow keys")
    chart.focus()
    page.keyboard.press("Home")
    first = told.inner_text()
    page.keyboard.press("ArrowRight")
    assert told.inner_text() != first
    page.keyboard.press("ArrowLeft")
    assert told.inner_text() == first
    page.keyboard.press("End")
    expect(told).to_contain_text("Episode 399")
    page.keyboard.press("Escape")
    expect(told).to_contain_text("arrow keys")


def test_values_shown_are_the_stores(visit, pages):
    from urllib.parse import urlparse

    import numpy as np

    from pbim.results import frame

    page = visit()
    page.locator(".smoothing").fill("1")
    page.locator(".chart > svg").first.focus()
    page.keyboard.press("End")
    shown = page.locator(".chart .values").first.locator("b").first.inner_text()
    rows = frame(urlparse(pages["cliff"]).path.removesuffix("/report/index.html"))
    last = [row["return"] for row in rows.iter_rows(named=True) if row["cell"] == "none" and row["episode"] == 399]
    assert float(shown.replace("−", "-")) == pytest.approx(np.mean(last), rel=2e-3)


def test_light_and_dark(visit):
    background = "getComputedStyle(document.body).backgroundColor"
    light, dark = visit(color_scheme="light"), visit(color_scheme="dark")
    assert light.evaluate(background) == "rgb(255, 255, 255)"
    assert dark.evaluate(background) == "rgb(17, 21, 26)"
    light.locator("#theme").click()
    assert light.evaluate(background) == dark.evaluate(background)
    expect(light.locator("#theme")).to_have_attribute("aria-pressed", "true")


@pytest.mark.parametrize("name", ["cliff", "doorkey"])
@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_nothing_is_wider_than_the_screen(visit, name, width):
    page = visit(name, viewport={"width": width, "height": 844})
    assert overflow(page) <= 0


def test_the_agent_walks_and_stops(visit):
    page = visit()
    card = page.locator(".map").nth(1)
    play, agent = card.locator("button.play"), card.locator("circle.agent")
    start = agent.get_attribute("cy")
    play.click()
    expect(play).to_have_text("Pause")
    expect(agent).not_to_have_attribute("cy", start)
    play.click()
    expect(play).to_have_text("Play")
    expect(card).to_contain_text("reaches the goal in 13 steps, the shortest way")
    card.locator("select.seed").select_option("2")
    expect(agent).to_have_attribute("cy", start)
    expect(page.locator(".map").nth(3)).to_contain_text("never ends")


def test_replays_stand_still_until_they_are_played(visit):
    page = visit("doorkey")
    figure = page.locator(".replay").first
    image, button = figure.locator("img"), figure.locator("button")
    assert image.get_attribute("src").startswith("data:image/png")
    button.click()
    assert image.get_attribute("src").startswith("data:image/gif")
    assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") == 48
    button.click()
    assert image.get_attribute("src").startswith("data:image/png")
    assert page.locator(".curves").count() == 2


def test_the_csv_is_in_the_page(visit):
    page = visit()
    with page.expect_download() as download:
        page.locator("#csv").click()
    assert download.value.suggested_filename == "cliff-runs.csv"
    assert len(download.value.path().read_text().splitlines()) == 13


def test_it_prints_without_controls_and_with_everything_unrolled(visit):
    page = visit(color_scheme="dark", viewport={"width": 794, "height": 1123})  # A4
    page.emulate_media(media="print")
    assert overflow(page) <= 0
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for selector in ("#theme", "nav", "#csv", ".smoothing"):
        expect(page.locator(selector).first).to_be_hidden()
    table = page.locator("#runs .scroll")
    assert table.evaluate("node => node.scrollHeight <= node.clientHeight + 1")
    assert page.pdf().startswith(b"%PDF")


def test_everything_that_can_be_used_can_be_reached_by_tab(visit):
    page = visit()
    reached = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("(e => e.id || e.getAttribute('class') || e.tagName)(document.activeElement)"))
    assert {"theme", "scheme", "smoothing", "band", "play", "seed", "csv", "scroll"} <= reached
