"""A real browser."""

import shutil

import pytest
from playwright.sync_api import sync_playwright


@pytest.fixture(scope="module")
def browser():
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.fail("the browser tests need chromium, which is not installed: run scripts/install-browser as root")
    with sync_playwright() as play:
        launched = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield launched
        launched.close()
