"""Report and picture in a real Chromium: no error, no request, and everything on the page works."""

from contextlib import contextmanager

import pytest

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@contextmanager
def opened(browser, path, *, viewport=DESKTOP, scheme="light"):
    """The page of a file. Afterwards, nothing was requested but the file, and nothing was logged."""
    context = browser.new_context(viewport=viewport, color_scheme=scheme)
    page = context.new_page()
    requests, messages = [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("dialog", lambda dialog: messages.append(dialog.message))
    address = path.as_uri()
    page.goto(address)
    yield page
    assert messages == []
    assert [one for one in requests if one != address and not one.startswith("data:")] == []
    context.close()


@pytest.fixture(scope="module")
def report(named, tmp_path_factory):
    alignment, gold = named
    path = tmp_path_factory.mktemp("page") / "report.html"
    alignment.report(path, gold)
    return path


def test_the_slider_shows_what_to_expect(browser, report):
    with opened(browser, report) as page:
        slider = page.locator("#threshold")
        before = page.locator("#at-pairs").inner_text()
        slider.fill("95")
        assert page.locator("#at-threshold").inner_text() == "0.95"
        assert page.locator("#at-command").inner_text().endswith("--min-confidence 0.95")
        assert int(page.locator("#at-pairs").inner_text()) < int(before)
        slider.focus()
        page.keyboard.press("ArrowLeft")
        assert page.locator("#at-threshold").inner_text() == "0.94"
        assert page.locator("#true-precision").inner_text().endswith(" %")


def shown(page, key):
    """A value of each row that is shown, in order."""
    rows = "[...document.querySelectorAll('#table tbody[data-kind]')].filter(row => !row.hidden)"
    return page.evaluate(f"{rows}.map(row => row.dataset.{key})")


def test_search_and_kind_choose_rows(browser, report):
    with opened(browser, report) as page:
        names = shown(page, "source")
        page.locator("#search").fill(names[3].upper())
        found = shown(page, "source")
        assert names[3] in found and len(found) < len(names)
        assert page.locator("#count").inner_text() == f"{len(found)} of {len(names)} shown"
        page.locator("#search").fill("")
        page.locator("#kind").select_option("unmatched")
        assert set(shown(page, "kind")) == {"unmatched"}
        page.locator("#search").fill("no such name anywhere")
        assert shown(page, "kind") == []


@pytest.mark.parametrize(("key", "read"), [("confidence", float), ("source", str.lower)])
def test_headings_sort_rows(browser, report, key, read):
    with opened(browser, report) as page:
        heading = page.locator(f"th[data-key={key}] button")
        heading.click()
        up = [read(value) for value in shown(page, key)]
        assert page.locator(f"th[data-key={key}]").get_attribute("aria-sort") == "ascending"
        heading.focus()
        page.keyboard.press("Enter")
        down = [read(value) for value in shown(page, key)]
        assert up == sorted(up) and down == sorted(down, reverse=True) and len(set(up)) > 5


def test_a_pair_opens_its_explanation_by_keyboard(browser, report):
    with opened(browser, report) as page:
        row = page.locator("#table tbody[data-kind]").first
        assert not row.locator(".why").is_visible()
        row.locator(".open").focus()
        page.keyboard.press("Enter")
        assert row.locator(".why svg.picture").is_visible()
        assert row.locator(".open").get_attribute("aria-expanded") == "true"
        page.keyboard.press("Enter")
        assert not row.locator(".why").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_page_fits_its_window_and_has_contrast(browser, report, viewport, scheme):
    with opened(browser, report, viewport=viewport, scheme=scheme) as page:
        for button in page.locator("#table .open").all()[:3]:
            button.click()
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        colours = page.evaluate(
            "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
        )
        ink, paper = (sum(map(int, colour[4:-1].split(","))) for colour in colours)
        assert (ink < 150 < 600 < paper) if scheme == "light" else (paper < 150 < 600 < ink)


def test_hostile_names_do_nothing(browser, hostile, tmp_path):
    hostile.report(tmp_path / "report.html")
    with opened(browser, tmp_path / "report.html") as page:
        for button in page.locator("#table .open").all():
            button.click()
        assert page.title().endswith("/run: report of divea")
        text = page.locator("#table").inner_text()
        assert "<script>document.title = 'taken'</script>" in text and "مرحبا بالعالم" in text


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_picture_of_an_explanation_opens(browser, hostile, tmp_path, scheme):
    source = hostile.mappings["source"][0].as_py()
    hostile.explain(source).save(tmp_path / "why.svg")
    with opened(browser, tmp_path / "why.svg", scheme=scheme) as page:
        assert page.locator("svg").count() == 1
        assert page.locator("svg rect").count() > 2
