"""The built site in a real browser: search finds, the dark form is dark, pages fit a phone, reports open."""

import http.server
import threading
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import expect

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
PAGES = ("index", "start", "choosing", "tutorials/minigrid_sb3", "api/generated/pbim.Geometric", "reproduction")

pytestmark = pytest.mark.skipif(not (SITE / "index.html").exists(), reason="make docs builds the site")


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def site():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=SITE)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def visit(browser, site):
    """Open a page of the site; nothing may break while it loads."""
    errors, contexts = [], []

    def open_page(name, **view):
        contexts.append(browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **view}))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{site}/{name}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []


def test_the_search_finds_a_word_of_the_trade(visit):
    page = visit("index.html")
    page.get_by_placeholder("Search").first.fill("ledger")
    page.keyboard.press("Enter")
    expect(page.locator("ul.search li").nth(4)).to_be_visible()  # results come one after the other
    page.locator("ul.search li a").first.click()
    expect(page.locator("article h1")).to_be_visible()


def test_the_dark_form_is_dark(visit):
    brightness = {}
    for scheme in ("light", "dark"):
        page = visit("start.html", color_scheme=scheme)
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        brightness[scheme] = sum(int(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3])
    assert brightness["dark"] < 200 < 600 < brightness["light"]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_phone(visit, name):
    page = visit(f"{name}.html", viewport={"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0


def test_a_report_opens_from_its_page(visit):
    page = visit("evidence.html")
    page.get_by_role("link", name="cliff", exact=True).click()
    expect(page.locator("h1")).to_contain_text("Cliff")
