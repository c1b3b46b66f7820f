"""The web page in a real browser, on a live crawl: what it shows, what it does, and what it withstands."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

import gcs
from tests import sights, treeweb
from tests.browser import CHROMIUM, DESKTOP, PHONE, WHY_NOT, Visit, chromium, visiting
from tests.monitors import until
from tests.watched import Watched, watched

STATIC = Path(gcs.__file__).parent / "monitor" / "static"
DOCUMENT = Path(gcs.__file__).parent.parent / "docs" / "dependencies.md"
# Each view, and what is there when it has something to show.
VIEWS = {
    "overview": ".pages li",
    "search": "form[role=search]",
    "tree": ".legend.owners button",
    "gatherers": "[aria-label='Gatherers'] tbody th",
    "languages": ".bars li",
    "hosts": ".pages li",
    "control": "select:has(option)",
}
PAGES = 6000
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason=WHY_NOT)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all visits."""
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A crawl that has begun, with a plan for both of its gatherers."""
    place = tmp_path_factory.mktemp("watched")
    # It lasts, as its hosts want some rest; there is no plan but the first one and those that tests ask for.
    settings = ("fetch.delay=40ms", "rebalance.cooldown=1h", "index.engine=embedded")
    with (
        treeweb.serve(place / "hosts", pages=PAGES, hosts=sights.HOSTS, write=sights.write) as web,
        watched(place, web, [web.url(0)], *settings) as found,
    ):
        until(lambda: len((found.told("status")["plan"] or {"members": ()})["members"]) == 2)
        yield found


@pytest.fixture
def visit(crawl: Watched, browser: Browser) -> Iterator[Visit]:
    """Somebody who may operate, on a desktop; whatever the console says fails the test."""
    with visiting(browser) as found:
        found.page.goto(crawl.link("operate"))
        expect(found.page.locator("#live")).to_have_text(re.compile("live"))
        yield found
    assert found.complaints == []


def show(page: Page, crawl: Watched, view: str) -> None:
    """Go to a view, and wait until it has something to show."""
    page.goto(f"{crawl.url}#/{view}")
    expect(page.locator(VIEWS[view]).first).to_be_visible(timeout=30_000)


@needs_chromium
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_view(crawl: Watched, browser: Browser, theme: str) -> None:
    """Every view has something to show, nothing is blocked or fails, and axe-core finds nothing serious."""
    with visiting(browser, theme=theme) as visit:
        page = visit.page
        page.goto(crawl.link("operate"))
        for view in VIEWS:
            page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})
            show(page, crawl, view)
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            assert visit.serious() == [], view
            page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
            # Charts are drawn anew when they have seen that they have less room.
            assert until(lambda: page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]), view
            assert visit.unreachable() == [], view
        assert visit.serious() == []
        assert visit.complaints == []


@needs_chromium
def test_values_agree(visit: Visit, crawl: Watched) -> None:
    """While the crawl is paused from the page, all figures are those of `gcs status --json`."""
    page = visit.page
    show(page, crawl, "control")
    page.get_by_role("button", name="Pause the crawl").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator(".outcome.good").first).to_be_visible()
    expect(page.locator("#state")).to_have_text("paused")
    expect(page.locator("#sentence")).to_contain_text("by somebody at the web page")
    status = until(lambda: _still(crawl))
    totals = status["totals"]
    show(page, crawl, "overview")
    figure = page.locator(".figure")
    expect(figure.filter(has_text="Pages per second")).to_contain_text(f"{totals['pages']:,} pages in all")
    expect(figure.filter(has_text="Queue")).to_contain_text(f"{totals['queued']:,}URLs")
    expect(figure.filter(has_text="Errors")).to_contain_text(f"{totals['failed']:,} in all")
    expect(figure.filter(has_text="Gatherers")).to_contain_text("2at work")
    expect(page.locator(".progress .legend")).to_contain_text(f"Done {status['progress']['done']:,}")
    expect(page.locator(".progress .legend")).to_contain_text(f"Known {status['progress']['known']:,}")
    show(page, crawl, "gatherers")
    for each in status["gatherers"]:
        row = page.locator("tr", has=page.get_by_role("rowheader", name=each["name"], exact=True)).first
        for name in ("pages", "queued", "failed", "outbox"):
            expect(row).to_contain_text(f"{each[name]:,}")
    show(page, crawl, "control")
    page.get_by_role("button", name="Resume", exact=True).first.click()
    expect(page.locator("#state")).to_have_text(re.compile("crawling|waiting|finished"))
    assert crawl.told("status")["rulings"]["paused"] == []


def _still(crawl: Watched) -> dict[str, object] | None:
    """What the crawl says when two looks say the same and nothing is under way."""
    first, second = (crawl.told("status") for _ in range(2))
    names = ("pages", "queued", "failed", "outbox", "under_way")
    same = all(first["totals"][name] == second["totals"][name] for name in names)
    return second if same and not second["totals"]["under_way"] and not second["totals"]["outbox"] else None


@needs_chromium
def test_hostile_titles(visit: Visit, crawl: Watched) -> None:
    """A title that sets a trap is shown as it is, letter by letter, and nothing of it runs."""
    page = visit.page
    for view in ("overview", "hosts"):
        show(page, crawl, view)
        page.wait_for_timeout(500)
        assert page.evaluate(f"document.documentElement.dataset.{sights.OWNED}") is None
    page.get_by_label("Words in title, URL or excerpt").fill("onerror")
    trapped = page.locator(".page-title", has_text=sights.trap(0))
    expect(trapped.first).to_be_visible()
    assert page.locator(".page-title img, .page-title script, .page-title svg").count() == 0
    assert page.evaluate(f"document.documentElement.dataset.{sights.OWNED}") is None


@needs_chromium
def test_a_url_is_looked_up(visit: Visit, crawl: Watched) -> None:
    """Where a URL stands is what `gcs why` says."""
    page = visit.page
    show(page, crawl, "hosts")
    url = until(lambda: crawl.told("status") and _fetched(page))
    page.get_by_label("URL", exact=True).fill(url)
    page.get_by_role("button", name="Look it up").click()
    verdict = page.locator(".verdict")
    expect(verdict).to_contain_text(url)
    told = crawl.told("why", url)
    expect(verdict.locator(".badge")).to_have_text(told["state"])
    expect(verdict).to_contain_text(told["superpage"])


def _fetched(page: Page) -> str:
    return page.locator(".pages .url").first.inner_text()


@needs_chromium
def test_plans(visit: Visit, crawl: Watched) -> None:
    """A dry run changes nothing; the button makes a plan, which is then the newest in the list."""
    page = visit.page
    before = crawl.told("status")["plan"]["epoch"]
    show(page, crawl, "tree")
    page.get_by_role("button", name="See what it would do").click()
    expect(page.locator(".foreseen")).to_contain_text("times the lower bound")
    assert crawl.told("status")["plan"]["epoch"] == before
    page.get_by_role("button", name="Rebalance now").click()
    page.get_by_role("dialog").get_by_role("button", name="Rebalance").click()
    expect(page.locator(".outcome.good")).to_contain_text("followed by all")
    plan = crawl.told("status")["plan"]
    assert plan["epoch"] > before
    assert "web page" in plan["reason"]
    expect(page.locator(".plans button").first).to_contain_text("web page")


@needs_chromium
def test_the_tree_by_keyboard(visit: Visit, crawl: Watched) -> None:
    """The URL tree is zoomed and left again with keys alone, and says where one is."""
    page = visit.page
    show(page, crawl, "tree")
    chart = page.get_by_label("URL tree. Left and right")
    chart.focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".tree-box [aria-live]")).to_contain_text("weight")
    page.keyboard.press("Enter")
    expect(page.locator(".crumbs li")).to_have_count(2)
    page.keyboard.press("Escape")
    expect(page.locator(".crumbs li")).to_have_count(1)


@needs_chromium
def test_an_answer_that_comes_too_late(visit: Visit, crawl: Watched) -> None:
    """Who asks for other hosts meanwhile is not shown those that were asked for before."""
    page, held = visit.page, list[Route]()

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/api/hosts?*", hold)
    page.goto(f"{crawl.url}#/hosts")
    page.get_by_label("Host contains").fill(sights.HOSTS[0])
    page.wait_for_timeout(1_000)
    (first,) = held
    answer = first.fetch()
    assert answer.json()["hosts"]
    old = [{**row, "host": "late.test"} for row in answer.json()["hosts"]]
    with page.expect_request(lambda request: f"q={sights.HOSTS[0]}" in request.url):
        first.fulfill(json={"order": "slowest", "hosts": old})
    expect(page.get_by_text("late.test")).to_have_count(0)
    while len(held) == 1:
        page.wait_for_timeout(50)
    held[1].continue_()
    expect(page.get_by_text(sights.HOSTS[0]).first).to_be_visible()


@needs_chromium
def test_seeds_and_delays(visit: Visit, crawl: Watched) -> None:
    """Seeds that are added are known to the crawl, and a host's delay is the one that was set."""
    page = visit.page
    show(page, crawl, "control")
    seed = f"http://{sights.HOSTS[1]}:1/from-the-page"
    page.get_by_label("URLs", exact=True).fill(seed)
    page.get_by_role("button", name="Add them").click()
    expect(page.locator(".outcome.good").first).to_be_visible()
    until(lambda: crawl.told("why", seed)["state"] != "unknown")
    page.get_by_label("Host", exact=True).fill(sights.HOSTS[0])
    page.get_by_label("Delay, seconds").fill("0.3")
    page.get_by_role("button", name="Set it").click()
    expect(page.locator(".outcome.good")).to_have_count(2)
    page.get_by_label("Delay, seconds").fill("-3")
    page.get_by_role("button", name="Set it").click()
    expect(page.locator(".outcome.bad")).to_contain_text("number of seconds")


@needs_chromium
def test_searching(visit: Visit, crawl: Watched) -> None:
    """By keyboard alone pages are searched for; words are marked, titles stay text, and mistakes are said."""
    page = visit.page
    words = "title:onerror OR title:fahrplan"
    until(lambda: crawl.told("search", words)["total"] > 20)
    show(page, crawl, "search")
    field = page.get_by_role("searchbox", name="Words")
    expect(field).to_be_focused()
    field.fill(words)
    field.press("Enter")
    expect(page.locator(".pages li").first).to_be_visible()
    expect(page.locator(".pages mark").first).to_have_text(re.compile("onerror|fahrplan", re.IGNORECASE))
    assert page.evaluate(f"document.documentElement.dataset.{sights.OWNED}") is None
    expect(page.locator(".view [role=status]")).to_contain_text("found among")
    assert visit.serious() == []
    more = page.get_by_role("button", name="Next")
    more.focus()
    more.press("Enter")
    expect(page.locator("ol.pages")).to_have_attribute("start", "11")
    assert "page=2" in page.url
    field.fill("nothing:here")
    field.press("Enter")
    expect(page.locator(".view [role=status]")).to_contain_text("there is no field nothing")
    assert len(visit.complaints) == 1  # the browser notes the 400
    visit.complaints.clear()


@needs_chromium
def test_kml(visit: Visit, crawl: Watched) -> None:
    """The places can be had as a file for Google Earth."""
    page = visit.page
    show(page, crawl, "languages")
    with page.expect_download() as found:
        page.get_by_role("link", name="KML for Google Earth").click()
    assert b"<kml" in Path(found.value.path()).read_bytes()


@needs_chromium
def test_signing_in(crawl: Watched, browser: Browser) -> None:
    """Without a token is a door, a wrong one is refused in a sentence, and signing out closes every page."""
    with visiting(browser) as visit:
        page = visit.page
        page.goto(crawl.url)
        field = page.get_by_label("Token")
        expect(field).to_be_focused()
        assert visit.serious() == []
        field.fill("guessed")
        field.press("Enter")
        expect(page.get_by_role("alert")).not_to_be_empty()
        assert len(visit.complaints) == 1  # the browser notes the 401
        visit.complaints.clear()
        field.fill(crawl.link("operate").partition("token=")[2])
        field.press("Enter")
        expect(page.locator("#role")).to_have_text("Operator")
        other = page.context.new_page()
        other.goto(crawl.url)
        expect(other.locator("#live")).to_have_text("live")
        page.get_by_role("button", name="Sign out").click()
        for each in (page, other):
            expect(each.get_by_label("Token")).to_be_visible()
        assert visit.complaints == []


@needs_chromium
def test_a_viewer(crawl: Watched, browser: Browser) -> None:
    """Who may only look sees everything and has no button that works, nor does the API obey."""
    with visiting(browser) as visit:
        page = visit.page
        page.goto(crawl.link("view"))
        expect(page.locator("#role")).to_have_text("Viewer")
        assert "token" not in page.url
        show(page, crawl, "control")
        buttons = page.locator(".view .button")
        assert buttons.count() > 5
        for number in range(buttons.count()):
            expect(buttons.nth(number)).to_be_disabled()
        said = page.evaluate(
            """() => fetch("api/pause", {method: "POST", headers: {"Content-Type": "application/json"},
                body: '{"what": "crawl", "name": ""}'}).then((found) => found.status)"""
        )
        assert said == 403
        assert crawl.told("status")["rulings"]["paused"] == []


@needs_chromium
def test_away(crawl: Watched, browser: Browser) -> None:
    """While the monitor or Redis is away the page says so, since when, and is live again by itself."""
    with visiting(browser) as visit:
        page = visit.page
        page.goto(crawl.link("operate"))
        live = page.locator("#live")
        expect(live).to_have_text("live")
        crawl.look_away()
        expect(live).to_have_text(re.compile(r"away since \d\d:\d\d:\d\d"))
        notice = page.locator("#notices .notice")
        expect(notice).to_contain_text("The monitor is away")
        crawl.watch()
        expect(live).to_have_text("live")
        expect(notice).to_have_count(0)
        expect(page.locator("#role")).to_have_text("Operator")
        crawl.redis.pause()
        try:
            expect(notice).to_contain_text("Redis is away")
            expect(notice).to_contain_text(re.compile(r"Since \d\d:\d\d:\d\d"))
            expect(live).to_have_text(re.compile("last seen .* ago"))
        finally:
            crawl.redis.resume()
        expect(notice).to_have_count(0)
        expect(live).to_have_text("live")


@needs_chromium
def test_draining(visit: Visit, crawl: Watched) -> None:
    """A gatherer that is drained from the page leaves the crawl; the question before it can be declined."""
    page = visit.page
    show(page, crawl, "control")
    page.get_by_label("Gatherer", exact=True).select_option("g2")
    page.get_by_role("button", name="Drain it").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Drain it").click()
    page.get_by_role("dialog").get_by_role("button", name="Drain").click()
    expect(page.locator(".outcome.good")).to_contain_text("g2")
    until(lambda: "g2" not in _at_work(crawl))
    expect(page.get_by_label("Gatherer", exact=True).locator("option")).to_have_text(["g1"])


def _at_work(crawl: Watched) -> set[str]:
    return {each["name"] for each in crawl.told("status")["gatherers"] if each["standing"] != "left"}


def test_the_libraries_are_as_published() -> None:
    """Every file of others has the digest that the list of dependencies names, and a licence beside it."""
    listed = dict(re.findall(r"^\| ([\w./-]+) \|.* ([0-9a-f]{64}) \|$", DOCUMENT.read_text(), re.MULTILINE))
    vendor = STATIC / "vendor"
    there = {path for path in vendor.rglob("*") if path.is_file() and path.name != "LICENSE"}
    assert {str(path.relative_to(vendor)) for path in there} == listed.keys()
    for path in there:
        assert hashlib.sha256(path.read_bytes()).hexdigest() == listed[str(path.relative_to(vendor))]
        assert (path.parent / "LICENSE").is_file()


def test_nothing_comes_from_elsewhere() -> None:
    """The page names no other server, and has neither scripts nor styles inside its markup."""
    for path in [STATIC / "index.html", *STATIC.glob("js/**/*.js"), *STATIC.glob("css/*.css")]:
        text = path.read_text()
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)(?!example\.org)", text), path
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text), path
    markup = (STATIC / "index.html").read_text()
    assert not re.search(r"\sstyle=|\son\w+=|<style|<script(?![^>]* src=)", markup)
    assert not re.search(r'(?:href|src)="/', markup)
