"""Pictures of every view of the web page, on a live crawl: light and dark, on a desktop and on a phone.

`make screenshots` calls this; the crawl runs for a minute first, so that there is something to see.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser import CHROMIUM, DESKTOP, PHONE, WHY_NOT, chromium, visiting
from tests.crawling import server
from tests.test_monitor_page import VIEWS
from tests.watched import Watched, watched

_WAIT_S = 60.0
_REST_MS = 1500
_NAMES = ("g1", "g2", "g3", "g4")
_SETTINGS = (
    "fetch.delay=150ms",
    "member.heartbeat=1s",
    "rebalance.cooldown=15s",
    "helpers.sites=office",
)


def main(into: Path) -> int:
    """Take them all."""
    if CHROMIUM is None:
        print(f"No screenshots: {WHY_NOT}.")
        return 1
    into.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="gcs-screenshots-") as place,
        server(Path(place) / "web", 7, hosts=90, pages=8_000, plain=False, slowness=0.3, abroad=True) as web,
        watched(Path(place), web, web.web.seeds, *_SETTINGS, names=_NAMES) as crawl,
        chromium() as browser,
    ):
        crawl.group.help("desk7", crawl.group.invite("desk7", "--site", "office"))
        time.sleep(_WAIT_S)
        for theme in ("light", "dark"):
            for kind, size in (("desktop", DESKTOP), ("phone", PHONE)):
                with visiting(browser, theme=theme, size=size) as visit:
                    visit.page.goto(crawl.link("operate"))
                    for view in VIEWS:
                        _take(visit.page, crawl, view, into / f"{view}-{theme}-{kind}.png", size)
    print(f"{len(list(into.glob('*.png')))} pictures are in {into}.")
    return 0


def _take(page: Page, crawl: Watched, view: str, into: Path, size: tuple[int, int]) -> None:
    """The whole view; the window is made as high as that, for what is fixed to its edges."""
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.goto(f"{crawl.url}#/{view}")
    expect(page.locator(VIEWS[view]).first).to_be_visible()
    page.wait_for_timeout(_REST_MS)
    height = int(page.evaluate("document.documentElement.scrollHeight"))
    page.set_viewport_size({"width": size[0], "height": max(size[1], height)})
    page.wait_for_timeout(_REST_MS // 3)
    page.screenshot(path=into)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
