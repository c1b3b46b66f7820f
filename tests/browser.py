"""Debian's Chromium for tests of the web page, and what it complained about."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WHY_NOT = "there is no Chromium; on Debian, `apt-get install chromium` as root"
DESKTOP, PHONE = (1360, 900), (360, 740)
PATIENCE_MS = 60_000
"""What comes, comes within this also on a machine that is busy."""
# It should ask nobody but the page under test; and root, as in containers, cannot have its sandbox.
_FLAGS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    *(["--no-sandbox"] if os.geteuid() == 0 else []),
]
_NOTE_CSP = """addEventListener("securitypolicyviolation", (event) =>
    console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));"""

_FILL = """() => {
    for (const each of document.querySelectorAll("*"))
        if (getComputedStyle(each).overflowY === "auto") each.style.maxHeight = "1rem";
}"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser that keeps nothing."""
    assert CHROMIUM is not None
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Visit:
    """A page in a browser of its own: no cookie of another visit is there."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    """Errors and warnings of the console, uncaught exceptions, and what the CSP has blocked."""

    def __post_init__(self) -> None:
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(f"{message.type}: {message.text} {message.location}")

    def unreachable(self) -> list[str]:
        """What axe-core finds of parts that scroll and have no focus, if there is more in them than fits."""
        self.page.evaluate(_FILL)
        return self.serious(runOnly=["scrollable-region-focusable"])

    def serious(self, **options: list[str]) -> list[str]:
        """What axe-core finds serious or worse, a line each."""
        chosen = {"resultTypes": ["violations"], **options}
        found: dict[str, Any] = Axe().run(self.page, options=chosen).response
        return [
            f"{each['id']}: {node['target']} {node['failureSummary']}"
            for each in found["violations"]
            if each["impact"] in {"serious", "critical"}
            for node in each["nodes"]
        ]


@contextmanager
def visiting(browser: Browser, *, theme: str = "light", size: tuple[int, int] = DESKTOP) -> Iterator[Visit]:
    """A visit that ends with the block."""
    context = browser.new_context(
        color_scheme="dark" if theme == "dark" else "light",
        viewport={"width": size[0], "height": size[1]},
        reduced_motion="reduce",
        accept_downloads=True,
    )
    context.add_init_script(_NOTE_CSP)
    context.set_default_timeout(PATIENCE_MS)
    try:
        yield Visit(context.new_page())
    finally:
        context.close()
