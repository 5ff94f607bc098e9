"""The documentation site is complete, loads nothing from the network, and suits phones and the dark.

`make docs` builds it into `.site`; `make test` does so first.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[1]
SITE = ROOT / ".site"

pytestmark = pytest.mark.skipif(
    not (SITE / "index.html").exists(), reason="`make docs` builds what is tested here"
)

PAGES = sorted(SITE.rglob("*.html"))
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "video": "src"}
"""Elements that load a file when a page is opened, and the attribute that names it."""


class Page(HTMLParser):
    """The files that a page loads, where it links to, and its ids."""

    def __init__(self, text: str):
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids |= {value for value in (values.get("id"), values.get("name")) if value}
        if tag in LOADED and values.get(LOADED[tag]):
            self.loaded.append(values[LOADED[tag]] or "")
        if tag == "a" and values.get("href"):
            self.links.append(values["href"] or "")
        assert not re.search(r"url\(['\"]?(?:https?:)?//|@import", values.get("style") or "")


def is_outside(address: str) -> bool:
    return bool(urlsplit(address).scheme not in ("", "data") or urlsplit(address).netloc)


def test_every_page_of_the_repository_is_on_the_site():
    pages = [
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / f"{name}.md" for name in ("CONTRIBUTING", "CHANGELOG", "SECURITY")),
    ]
    assert len(pages) > 25
    for page in pages:
        assert (SITE / page.relative_to(ROOT).with_suffix(".html")).is_file(), page


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(SITE)))
def test_a_page_loads_nothing_from_the_network(path):
    text = path.read_text()
    page = Page(text)
    assert [address for address in page.loaded if is_outside(address)] == []
    for address in page.loaded:
        if not address.startswith(("data:", "#")):
            assert (path.parent / unquote(urlsplit(address).path)).is_file(), address
    for style in re.findall(r"<style.*?</style>", text, re.DOTALL):
        assert not re.search(r"url\(\s*['\"]?(?:https?:)?//|@import", style)


@pytest.mark.parametrize("path", sorted(SITE.rglob("*.css")), ids=lambda path: path.name)
def test_a_style_loads_nothing_from_the_network(path):
    text = path.read_text()
    assert not re.search(r"url\(\s*['\"]?(?:https?:)?//|@import\s+(?:url\()?['\"]?(?:https?:)?//", text)


def test_links_within_the_site_lead_to_pages_and_headings():
    parsed = {path.resolve(): Page(path.read_text()) for path in PAGES}
    links = 0
    for path, page in parsed.items():
        for link in page.links:
            if is_outside(link):
                continue
            parts = urlsplit(link)
            linked = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert linked.is_file(), f"{path}: {link}"
            if parts.fragment and linked in parsed:
                assert unquote(parts.fragment) in parsed[linked].ids, f"{path}: {link}"
            links += 1
    assert links > 1000


def test_pages_suit_phones_and_the_dark():
    text = (SITE / "docs" / "index.html").read_text()
    assert '<meta name="viewport" content="width=device-width' in text
    assert "prefers-color-scheme: dark" in text + "".join(
        path.read_text() for path in SITE.rglob("*.css")
    ).replace("prefers-color-scheme:dark", "prefers-color-scheme: dark")


def test_the_site_is_the_same_when_it_is_built_again():
    """No page holds a date, so that a change of the site is a change of its pages."""
    assert not re.search(r"Last updated|Copyright &#169; \d", (SITE / "docs" / "index.html").read_text())
