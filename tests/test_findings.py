"""What gatherers count for whoever watches: languages, places, hosts, latest pages; bounded, and kept."""

from __future__ import annotations

import msgpack
from hypothesis import given
from hypothesis import strategies as st

from gcs.core.countries import COUNTRIES, country_of
from gcs.core.urls import key
from gcs.fetch.outcome import Response
from gcs.gatherer import findings
from gcs.gatherer.findings import LINKS_COUNTED, OTHER, Findings, place_of, place_of_url
from gcs.gatherer.job import Job, Visit
from gcs.gatherer.links import Target
from gcs.store.records import Queued, State
from gcs.summary.records import Document


def visit(url: str, *, language: str = "de", reason: str = "", took_s: float = 0.5, links: str = "") -> Visit:
    """A page that was fetched and read."""
    response = Response(
        200, b"", {}, b"x" * 10, b"x" * 10, "", b"", "::1", 0.0, 0.0, 0.1, took_s, reused=True
    )
    made = Visit(Job.of(Queued(key(url), 1, "link", 0, 0.0, "", 1)), response, 7.0, State.DONE, 200, reason)
    made.document = Document(
        title="T" * 999, language=language, charset_declared="UTF-8", charset_detected="utf-8"
    )
    made.targets = [Target(each) for each in links.split()]
    return made


def test_places() -> None:
    """The place of a host is the last label of its name; an address is nowhere."""
    assert place_of("www.example.de:8080") == "de"
    assert place_of_url("https://xn--80ak6aa92e.xn--p1ai/") == "xn--p1ai"
    assert [place_of(each) for each in ("127.0.0.1:80", "[::1]:80", "[::1]")] == ["", "", ""]


def test_countries() -> None:
    """Codes are those of ISO, a few domains are otherwise, and what is of no country has none."""
    for domain, code in (("de", "DE"), ("uk", "GB"), ("su", "RU"), ("xn--p1ai", "RU")):
        assert country_of(domain) == COUNTRIES[code]
    assert [country_of(each) for each in ("com", "eu", "test", "gb", "", OTHER)] == [None] * 6
    assert len(COUNTRIES) >= 249
    for each in COUNTRIES.values():
        assert -90 <= each.latitude <= 90
        assert -180 <= each.longitude <= 180


def test_what_is_counted() -> None:
    """A page counts by language, charset and place, and at its host; the latest are told, cut short."""
    found = Findings()
    found.saw(visit("http://a.de/1"))
    found.saw(visit("http://b.fr/1", language="fr", reason="500", took_s=2.0))
    told = found.told(0.0)
    assert dict(told["written"]) == {("de", "utf-8", "utf-8"): 1, ("fr", "utf-8", "utf-8"): 1}
    assert sorted(told["places"]) == [("de", 1, 10), ("fr", 1, 10)]
    assert dict(told["spoken"]) == {("de", "de"): 1, ("fr", "fr"): 1}
    assert [len(page.title) for page in told["pages"]] == [200, 200]
    hosts = {row[0]: row for row in told["hosts"]}
    assert hosts["b.fr"][1:6] == (1, 10, 1, 2.0, 2.0)
    assert hosts["a.de"][3] == 0


def test_more_rows_than_are_told() -> None:
    """What is left out is added up as "other", so that pages and bytes come to all of them."""
    found = Findings()
    for number in range(1_000):
        found.answered(f"t{number}", number)
    found.answered(OTHER, 5)
    rows = found.told(0.0)["places"]
    assert len(rows) == 400
    assert (sum(row[1] for row in rows), sum(row[2] for row in rows)) == (1_001, 499_505)
    assert {row[0]: row[1] for row in rows}[OTHER] == 601 + 1


def test_links_between_places() -> None:
    """The links of one page in so many count for all."""
    found = Findings()
    for number in range(LINKS_COUNTED):
        found.saw(visit(f"http://a.de/{number}", links="http://b.fr/ http://c.fr/ http://d.de/"))
    assert dict(found.links) == {("de", "fr"): 2 * LINKS_COUNTED, ("de", "de"): LINKS_COUNTED}


def test_hosts_that_are_set_aside() -> None:
    """They are told of until they come back."""
    found = Findings()
    found.aside("a.de", 100.0)
    assert [row[8] for row in found.told(99.0)["hosts"]] == [100.0]
    assert found.told(101.0)["hosts"] == []


def test_they_are_kept() -> None:
    """Tables come back from their bytes, and those of another version begin anew."""
    found = Findings()
    found.saw(visit("http://a.de/1"))
    back = Findings.from_bytes(found.to_bytes())
    assert (back.written, back.places, back.spoken) == (found.written, found.places, found.spoken)
    assert not back.pages
    other = msgpack.packb([findings.VERSION + 1, "anything"])
    assert not Findings.from_bytes(other).written


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=5), max_size=60))
def test_bounds(names: list[str]) -> None:
    """However many values the web invents, tables have a size, and nothing is lost from the sum."""
    found = Findings()
    for number, name in enumerate(names * 60):
        found.read(f"{name}{number}", f"{name}{number}", name, name)
    assert len(found.written) <= 2_001
    assert found.written.total() == found.spoken.total() == 60 * len(names)


def test_many_hosts() -> None:
    """Only hosts of late are remembered, and what is told is bounded."""
    found = Findings()
    for number in range(10_000):
        found.aside(f"h{number}.de", 1e9)
        found._host(f"h{number}.de").errors = number
    assert len(found.hosts) == 4_096
    assert len(found.told(0.0)["hosts"]) <= 200
