"""Takes the pictures of the report that the documentation shows, from the report of `make demo`.

It needs Chromium, Playwright and Pillow: .venv/bin/python docs/screenshots.py demo/report.html
"""

import shutil
import sys
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parent / "images"
WINDOWS = {"desktop": (1280, 1150), "phone": (390, 1500)}


def main(report):
    """Write one picture for each window and colour scheme, and one of an open pair."""
    with sync_playwright() as playwright:
        program = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name, (width, height) in WINDOWS.items():
            for scheme in ("light", "dark"):
                size = {"width": width, "height": height}
                page = browser.new_page(viewport=size, color_scheme=scheme)
                page.goto(report.resolve().as_uri())
                _take(page, f"report-{name}-{scheme}.png")
                page.locator("#table tbody[data-kind] .open").nth(1).click()
                page.evaluate("document.getElementById('pairs').scrollIntoView()")
                _take(page, f"report-{name}-{scheme}-pairs.png")
                page.close()


def _take(page, name):
    """Write a picture with few colours: a third of the size, and the same to the eye."""
    picture = Image.open(BytesIO(page.screenshot()))
    picture.quantize(160).save(IMAGES / name, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
