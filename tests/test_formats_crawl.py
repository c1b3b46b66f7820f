"""A site with one file of each format, crawled, exported and asked about."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gcs.graph import tables
from gcs.store.view import View
from tests import corpus, graphs
from tests.corpus import LINK, NAMES, TITLE
from tests.crawling import gcs, gcs_here
from tests.test_summary_records import assert_valid

BOMB = "bomb.zip"


class _Site(BaseHTTPRequestHandler):
    """Serves the corpus, and a page that links to all of it."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer."""
        name = self.path.removeprefix("/")
        ending = name.partition(".")[2]
        body, kind = None, ""
        if not name:
            links = "".join(f"<a href='/bees.{each}'>{each}</a>" for each in NAMES)
            body, kind = (
                f"<html><title>All</title>{links}<a href='/{BOMB}'>b</a></html>".encode(),
                "text/html",
            )
        elif name == BOMB:
            body, kind = corpus.bomb(16 << 20), "application/zip"
        elif ending in NAMES:
            body = corpus.files()[ending]
        self.send_response(200 if body is not None else 404)
        if kind:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is called
        """Nothing."""


@contextmanager
def _served() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Site)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The site's address, and the crawl of it."""
    corpus.files()
    directory = tmp_path_factory.mktemp("crawls") / "formats"
    with _served() as site:
        scope = ("--scope", "+host:127.0.0.1")
        ran = gcs("crawl", f"{site}/", "--into", str(directory), *scope, "-s", "crawl.skip=", timeout=300)
    assert ran.returncode == 0, ran.stderr
    return site, directory


def _exported(directory: Path, kind: str, output: Path) -> bytes:
    ran = gcs_here("export", kind, "--into", str(directory), "-o", str(output))
    assert ran.exit_code == 0, ran.output
    return output.read_bytes()


def test_all_formats(crawled: tuple[str, Path], tmp_path: Path) -> None:
    """Every file has a summary of what it is, its members have theirs, and the bomb says what it is."""
    site, directory = crawled
    lines = _exported(directory, "jsonl", tmp_path / "all.jsonl").splitlines()
    found = {each["url"]: each for each in map(json.loads, lines)}
    assert {ending: found[f"{site}/bees.{ending}"]["media_type"] for ending in NAMES} == dict(NAMES)
    assert [each["url"] for each in found.values() if each["refused"]] == [f"{site}/{BOMB}"]
    member = found[f"{site}/bees.tar.gz!/docs/bees.pdf"]
    assert (member["title"], member["via"], member["parent"]) == (TITLE, "member", f"{site}/bees.tar.gz")
    assert {"name": "pages", "value": 2} in member["details"]
    assert member["links_out"] == 2
    assert found[f"{site}/bees.mbox!/1.eml!/bees.pdf"]["parent"] == f"{site}/bees.mbox!/1.eml"
    log = (directory / "crawl.log").read_text().splitlines()
    assert [line.split()[3] for line in log if "refused" in line.split()[-1]] == [f"{site}/{BOMB}"]


def test_valid_sml(crawled: tuple[str, Path], tmp_path: Path) -> None:
    """What is exported as SML is valid by its schema."""
    assert_valid(_exported(crawled[1], "sml", tmp_path / "all.sml"))


def test_the_ledger_is_as_before(crawled: tuple[str, Path], tmp_path: Path) -> None:
    """Members are no URLs of the crawl, nor nodes of its graph: their links are those of what was fetched."""
    site, directory = crawled
    with View(directory) as view:
        assert view.counts().done == len(NAMES) + 2
        assert view.counts().queued == 0
    with graphs.loaded(tmp_path, directory) as engine:
        urls = {row[0] for row in engine.rows(tables.visits())}
        edges = engine.rows(tables.edges(tables.visits()))
    assert len(urls) == len(NAMES) + 2
    assert (f"{site}/bees.pdf", LINK) in edges
    assert (f"{site}/bees.zip", LINK) in edges
    assert not any("!/" in source for source, _ in edges)


def test_why(crawled: tuple[str, Path]) -> None:
    """`gcs why` says of a member what it is in, where that stands, and what was read of it."""
    site, directory = crawled
    ran = gcs_here("why", f"{site}/bees.zip!/docs/bees.pdf", "--into", str(directory), "--json")
    told = json.loads(ran.stdout)
    assert (told["member_of"], told["state"], told["status"]) == (f"{site}/bees.zip", "done", 200)
    assert told["summary"] == {
        "media_type": "application/pdf",
        "title": TITLE,
        "bytes": len(corpus.files()["pdf"]),
        "refused": "",
    }
    missing = gcs_here("why", f"{site}/bees.zip!/none", "--into", str(directory), "--json")
    assert json.loads(missing.stdout)["summary"] is None
