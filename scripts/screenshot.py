"""Take pictures of a report in a real browser: desktop, phone and dark.

Example: python scripts/screenshot.py out/cliff/report/index.html docs/images
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

VIEWS = {
    "report": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "report_dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "report_phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
}


def main(page: Path, folder: Path, *, whole: bool) -> None:
    """Write one PNG per view into ``folder``; ``whole`` takes all of the page instead of its top."""
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, view in VIEWS.items():
            tab = browser.new_context(**view).new_page()
            tab.goto(page.resolve().as_uri())
            tab.screenshot(path=folder / f"{name}.png", full_page=whole)
        browser.close()


if __name__ == "__main__":
    paths = [Path(argument) for argument in sys.argv[1:] if not argument.startswith("--")]
    main(*paths, whole="--whole" in sys.argv)
