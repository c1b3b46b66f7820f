"""What all gatherers have told of the web, put together: languages, countries, hosts, latest pages, traffic.

Each tells the whole of its tables again and again, so what was missed does not matter. Of one that is gone,
what it told last still counts, also if another has its name now: gatherers are told apart by their ids. What
has no room in a table is added up in one row, "other".
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, cast

import msgpack
import structlog

from gcs.core.countries import COUNTRIES, Country, country_of
from gcs.gatherer.findings import OTHER, VERSION, Findings, Page, most, place_of
from gcs.monitor.shapes.crawl import Traffic, Trust
from gcs.monitor.shapes.web import (
    Countries,
    CountryLinks,
    CountryPages,
    HostTold,
    Languages,
    PageSeen,
    Written,
    WrittenThere,
)
from gcs.monitor.unreadable import UNREADABLE

MOST_PAGES: Final = 2_000
_ROWS: Final = 400
_SPOKEN: Final = 20
"""Languages of one country."""
_COUNTS: Final = ("pages", "bytes", "errors")
_HOST: Final = ("host", *_COUNTS, "mean_s", "slowest_s", "status", "reason", "aside_until", "at")
ORDERS: Final = {"slowest": "mean_s", "largest": "pages", "errors": "errors", "aside": "aside_until"}
"""How hosts can be sorted, and by what."""


class Found:
    """The newest of each gatherer."""

    def __init__(self) -> None:
        self._told: dict[str, Mapping[str, Any]] = {}
        self._raw: dict[str, bytes] = {}
        self._seen: dict[str, tuple[str, int]] = {}
        """By gatherer: its incarnation, and the number of its last page that is here."""
        self.pages: OrderedDict[int, PageSeen] = OrderedDict()
        self._number = 0
        self._hosts: dict[tuple[str, str], HostTold] = {}
        self.version = 0

    def take_in(self, told: Mapping[str, bytes]) -> tuple[list[PageSeen], list[HostTold]]:
        """What gatherers tell now; gives the pages, and the hosts, that are new or have changed by it.

        One who tells what cannot be read is left out, and what it told before still counts.
        """
        fresh = {each: data for each, data in told.items() if self._raw.get(each) != data}
        if not fresh:
            return [], []
        self.version += 1
        self._raw |= fresh
        pages: list[PageSeen] = []
        for each, data in sorted(fresh.items()):
            try:
                said = _read(each, data)
            except UNREADABLE as error:
                structlog.get_logger().warning(
                    "what a gatherer tells cannot be read", who=each, why=repr(error)
                )
                continue
            if said is not None:
                self._told[each] = said
                pages += self._new_pages(each, said)
        return pages, self._changed_hosts()

    def try_all(self) -> None:
        """Answer whatever can be asked, so that what is told and makes no sense is noticed."""
        for each, said in self._told.items():
            self._new_pages(each, said)
            self.traffic({each: said["name"]}, {})
        self._changed_hosts()
        for order in ORDERS:
            self.hosts(order, 1)
        self.languages()
        self.countries()

    def add(self, name: str, findings: Findings) -> None:
        """What one gatherer has found, without its hosts and pages."""
        self._told[name] = {"name": name, **findings.told(0.0), "hosts": [], "pages": []}

    def _new_pages(self, gatherer: str, said: Mapping[str, Any]) -> list[PageSeen]:
        before = self._seen.get(gatherer, ("", 0))
        after = before[1] if before[0] == said["incarnation"] else 0
        new = [Page(*each) for each in said["pages"] if each[0] > after]
        if new:
            self._seen[gatherer] = (said["incarnation"], new[-1].number)
        rows = []
        for page in new:
            self._number += 1
            country = country_of(place_of(page.host))
            row = cast("PageSeen", page._asdict() | {"number": self._number, "gatherer": said["name"]})
            row["country"] = country.code if country else None
            self.pages[self._number] = row
            rows.append(row)
        while len(self.pages) > MOST_PAGES:
            self.pages.popitem(last=False)
        return rows

    def _changed_hosts(self) -> list[HostTold]:
        now: dict[tuple[str, str], HostTold] = {}
        for gatherer, said in self._told.items():
            for each in said["hosts"]:
                row = cast("HostTold", dict(zip(_HOST, each, strict=True), gatherer=said["name"]))
                now[gatherer, row["host"]] = row
        changed = [row for key, row in now.items() if self._hosts.get(key) != row]
        self._hosts = now
        return changed

    # What can be asked for

    def hosts(self, order: str, most: int, text: str = "") -> list[HostTold]:
        """The hosts that stand out in some way."""
        measure = itemgetter(ORDERS[order])
        rows = [row for row in self._hosts.values() if measure(row) and text in row["host"]]
        return sorted(rows, key=lambda row: (-measure(row), row["host"]))[:most]

    def search(
        self, words: Sequence[str], *, language: str, gatherer: str, host: str, before: int, most: int
    ) -> list[PageSeen]:
        """The latest pages in which all words occur, newest first."""
        found = []
        for row in reversed(self.pages.values()):
            if (
                (not before or row["number"] < before)
                and (not language or row["language"] == language)
                and (not gatherer or row["gatherer"] == gatherer)
                and (not host or row["host"].partition(":")[0] == host or row["host"] == host)
                and _has(row, words)
            ):
                found.append(row)
                if len(found) >= most:
                    break
        return found

    def languages(self) -> Languages:
        """Pages by language, and by declared and detected charset: of all, and of each gatherer."""
        whole: Counter[tuple[str, str, str]] = Counter()
        rows: list[WrittenThere] = []
        for gatherer, said in self._told.items():
            counts = Counter(dict(said["written"]))
            whole.update(counts)
            rows.append({"id": gatherer, "name": said["name"], **_written(counts)})
        return {**_written(whole), "gatherers": sorted(rows, key=itemgetter("name", "id"))}

    def countries(self) -> Countries:
        """Pages by country, what is elsewhere, and links between countries."""
        pages: Counter[str] = Counter()
        size: Counter[str] = Counter()
        by: dict[str, Counter[str]] = {}
        spoken: dict[str, Counter[str]] = {}
        links: Counter[tuple[str, str]] = Counter()
        for gatherer, said in self._told.items():
            for place, count, size_bytes in said["places"]:
                pages[place] += count
                size[place] += size_bytes
                by.setdefault(place, Counter())[gatherer] += count
            for (place, language), count in said["spoken"]:
                spoken.setdefault(place, Counter())[language] += count
            for (source, target), count in said["links"]:
                links[source, target] += count
        known = {place: country for place in pages if (country := country_of(place))}
        elsewhere = Counter({place: count for place, count in pages.items() if place not in known})
        between = _between(links)
        return {
            "countries": list(_places(known, pages, size, by, spoken)),
            "elsewhere": [
                {"domain": place, "pages": count} for place, count in most(elsewhere, OTHER, _ROWS)
            ],
            "links": between,
            "other_links": links.total() - sum(each["links"] for each in between),
        }

    def trust(self, helper: str) -> dict[str, Trust]:
        """What gatherers, by id, think of a helper that has to earn trust: right in a row, and wrong."""
        rows: dict[str, Trust] = {}
        for gatherer, said in sorted(self._told.items(), key=lambda each: (each[1]["name"], each[0])):
            if helper in said.get("trust", {}):
                consistent, wrong = said["trust"][helper]
                rows[gatherer] = {
                    "gatherer": said["name"],
                    "consistent": consistent,
                    "wrong": wrong,
                    "barred": False,
                }
        return rows

    def traffic(self, names: Mapping[str, str], pending: Mapping[str, Mapping[str, int]]) -> Traffic:
        """URLs that gatherers, by id, have sent to each other and that wait, and what coordination costs."""
        ids = sorted(names, key=lambda each: names[each])
        said = {each: self._told.get(each, {}) for each in ids}
        sent, received, fetched = (
            [int(said[each].get("traffic", (0, 0, 0))[at]) for each in ids] for at in range(3)
        )
        overhead = [_share(s + r, f) for s, r, f in zip(sent, received, fetched, strict=True)]
        return {
            "gatherers": [names[each] for each in ids],
            "sent_urls": [[said[each].get("sent", {}).get(to, 0) for to in ids] for each in ids],
            "waiting_urls": [[pending.get(each, {}).get(to, 0) for to in ids] for each in ids],
            "sent_bytes": sent,
            "received_bytes": received,
            "overhead_percent": overhead,
            "overhead_percent_all": _share(sum(sent) + sum(received), sum(fetched)),
        }


def _read(gatherer: str, data: bytes) -> Mapping[str, Any] | None:
    """What a gatherer tells; None if it is of another version."""
    said: Mapping[str, Any] = msgpack.unpackb(data, use_list=False)
    if said.get("version") != VERSION:
        return None
    alone = Found()
    alone._told[gatherer] = said
    alone.try_all()
    return said


def _has(row: PageSeen, words: Sequence[str]) -> bool:
    text = f"{row['title']}\n{row['url']}\n{row['excerpt']}".lower()
    return all(word in text for word in words)


def _written(counts: Counter[tuple[str, str, str]]) -> Written:
    languages: Counter[str] = Counter()
    charsets: Counter[tuple[str, str]] = Counter()
    for (language, declared, detected), pages in counts.items():
        languages[language] += pages
        charsets[declared, detected] += pages
    return {
        "pages": counts.total(),
        "languages": [{"language": name, "pages": pages} for name, pages in languages.most_common()],
        "charsets": [
            {"declared": declared, "detected": detected, "pages": pages}
            for (declared, detected), pages in most(charsets, (OTHER, OTHER), _ROWS)
        ],
        "rows": [
            {"language": language, "declared": declared, "detected": detected, "pages": pages}
            for (language, declared, detected), pages in most(counts, (OTHER, OTHER, OTHER), _ROWS)
        ],
    }


def _places(
    known: Mapping[str, Country],
    pages: Counter[str],
    size: Counter[str],
    by: Mapping[str, Counter[str]],
    spoken: Mapping[str, Counter[str]],
) -> Iterator[CountryPages]:
    """Each country, that with most pages first; one may have several domains."""
    merged: dict[str, list[str]] = {}
    for place, country in known.items():
        merged.setdefault(country.code, []).append(place)
    total = {code: sum(pages[each] for each in places) for code, places in merged.items()}
    for code in sorted(merged, key=lambda each: (-total[each], each)):
        country, places = COUNTRIES[code], merged[code]
        languages = sum((spoken.get(each, Counter()) for each in places), Counter[str]())
        yield {
            "code": code,
            "name": country.name,
            "latitude": country.latitude,
            "longitude": country.longitude,
            "pages": total[code],
            "bytes": sum(size[each] for each in places),
            "languages": [
                {"language": name, "pages": count} for name, count in most(languages, OTHER, _SPOKEN)
            ],
            "gatherers": dict(sum((by[each] for each in places), Counter[str]())),
        }


def _between(links: Counter[tuple[str, str]]) -> list[CountryLinks]:
    between: Counter[tuple[str, str]] = Counter()
    for (source, target), count in links.items():
        a, b = country_of(source), country_of(target)
        if a and b:
            between[a.code, b.code] += count
    rows: list[CountryLinks] = [{"from": a, "to": b, "links": count} for (a, b), count in between.items()]
    return sorted(rows, key=itemgetter("links"), reverse=True)[:_ROWS]


def _share(coordination: int, fetched: int) -> float:
    whole = coordination + fetched
    return round(100.0 * coordination / whole, 3) if whole else 0.0
