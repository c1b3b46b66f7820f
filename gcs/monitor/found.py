"""What all gatherers have told of the web, put together: languages, countries, hosts, latest pages, traffic.

Each tells the whole of its tables again and again, so what was missed does not matter. Of one that is gone,
what it told last still counts.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

import msgpack
import structlog

from gcs.core.countries import COUNTRIES, Country, country_of
from gcs.gatherer.findings import VERSION, Findings, Page, place_of
from gcs.monitor.unreadable import UNREADABLE

MOST_PAGES: Final = 2_000
_ROWS: Final = 400
_COUNTS: Final = ("pages", "bytes", "errors")
_HOST: Final = ("host", *_COUNTS, "mean_s", "slowest_s", "status", "reason", "aside_until", "at")
ORDERS: Final = {"slowest": "mean_s", "largest": "pages", "errors": "errors", "aside": "aside_until"}
"""How hosts can be sorted, and by what."""
Row = dict[str, Any]


class Found:
    """The newest of each gatherer."""

    def __init__(self) -> None:
        self._told: dict[str, Mapping[str, Any]] = {}
        self._raw: dict[str, bytes] = {}
        self._seen: dict[str, tuple[str, int]] = {}
        """By gatherer: its incarnation, and the number of its last page that is here."""
        self.pages: OrderedDict[int, Row] = OrderedDict()
        self._number = 0
        self._hosts: dict[tuple[str, str], Row] = {}
        self.version = 0

    def take_in(self, told: Mapping[str, bytes]) -> tuple[list[Row], list[Row]]:
        """What gatherers tell now; gives the pages, and the hosts, that are new or have changed by it.

        One who tells what cannot be read is left out, and what it told before still counts.
        """
        fresh = {each: data for each, data in told.items() if self._raw.get(each) != data}
        if not fresh:
            return [], []
        self.version += 1
        self._raw |= fresh
        pages: list[Row] = []
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

    def _new_pages(self, gatherer: str, said: Mapping[str, Any]) -> list[Row]:
        before = self._seen.get(gatherer, ("", 0))
        after = before[1] if before[0] == said["incarnation"] else 0
        new = [Page(*each) for each in said["pages"] if each[0] > after]
        if new:
            self._seen[gatherer] = (said["incarnation"], new[-1].number)
        rows = []
        for page in new:
            self._number += 1
            country = country_of(place_of(page.host))
            row = page._asdict() | {"number": self._number, "gatherer": said["name"]}
            row["country"] = country.code if country else None
            self.pages[self._number] = row
            rows.append(row)
        while len(self.pages) > MOST_PAGES:
            self.pages.popitem(last=False)
        return rows

    def _changed_hosts(self) -> list[Row]:
        now: dict[tuple[str, str], Row] = {}
        for said in self._told.values():
            for each in said["hosts"]:
                row = dict(zip(_HOST, each, strict=True), gatherer=said["name"])
                now[said["name"], row["host"]] = row
        changed = [row for key, row in now.items() if self._hosts.get(key) != row]
        self._hosts = now
        return changed

    # What can be asked for

    def hosts(self, order: str, most: int, text: str = "") -> list[Row]:
        """The hosts that stand out in some way."""
        measure = ORDERS[order]
        rows = [row for row in self._hosts.values() if row[measure] and text in row["host"]]
        return sorted(rows, key=lambda row: (-row[measure], row["host"]))[:most]

    def search(
        self, words: Sequence[str], *, language: str, gatherer: str, host: str, before: int, most: int
    ) -> list[Row]:
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

    def languages(self) -> Row:
        """Pages by language, and by declared and detected charset: of all, and of each gatherer."""
        each = {said["name"]: _counted(said["written"]) for said in self._told.values()}
        whole: Counter[tuple[str, str, str]] = Counter()
        for counts in each.values():
            whole.update(counts)
        return _written(whole) | {"gatherers": {name: _written(each[name]) for name in sorted(each)}}

    def countries(self) -> Row:
        """Pages by country, what is elsewhere, and links between countries."""
        pages: Counter[str] = Counter()
        size: Counter[str] = Counter()
        by: dict[str, Counter[str]] = {}
        spoken: dict[str, Counter[str]] = {}
        links: Counter[tuple[str, str]] = Counter()
        for said in self._told.values():
            for place, count, size_bytes in said["places"]:
                pages[place] += count
                size[place] += size_bytes
                by.setdefault(place, Counter())[said["name"]] += count
            for (place, language), count in said["spoken"]:
                spoken.setdefault(place, Counter())[language] += count
            for (source, target), count in said["links"]:
                links[source, target] += count
        known = {place: country for place in pages if (country := country_of(place))}
        return {
            "countries": list(_places(known, pages, size, by, spoken)),
            "elsewhere": [
                {"domain": place, "pages": count}
                for place, count in pages.most_common(_ROWS)
                if place not in known
            ],
            "links": _between(links),
        }

    def trust(self, helper: str) -> list[Row]:
        """What gatherers think of a helper that has to earn trust: answers in a row, and wrong ones."""
        rows = []
        for said in sorted(self._told.values(), key=itemgetter("name")):
            if helper in said.get("trust", {}):
                consistent, wrong = said["trust"][helper]
                rows.append({"gatherer": said["name"], "consistent": consistent, "wrong": wrong})
        return rows

    def traffic(self, names: Mapping[str, str], pending: Mapping[str, Mapping[str, int]]) -> Row:
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


def _has(row: Row, words: Sequence[str]) -> bool:
    text = f"{row['title']}\n{row['url']}\n{row['excerpt']}".lower()
    return all(word in text for word in words)


def _counted(rows: Iterable[tuple[tuple[str, str, str], int]]) -> Counter[tuple[str, str, str]]:
    return Counter(dict(rows))


def _written(counts: Counter[tuple[str, str, str]]) -> Row:
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
            for (declared, detected), pages in charsets.most_common(_ROWS)
        ],
        "rows": [
            {"language": language, "declared": declared, "detected": detected, "pages": pages}
            for (language, declared, detected), pages in counts.most_common(_ROWS)
        ],
    }


def _places(
    known: Mapping[str, Country],
    pages: Counter[str],
    size: Counter[str],
    by: Mapping[str, Counter[str]],
    spoken: Mapping[str, Counter[str]],
) -> Iterator[Row]:
    """Each country, that with most pages first; one may have several domains."""
    merged: dict[str, list[str]] = {}
    for place, country in known.items():
        merged.setdefault(country.code, []).append(place)
    total = {code: sum(pages[each] for each in places) for code, places in merged.items()}
    for code in sorted(merged, key=lambda each: (-total[each], each)):
        country, places = COUNTRIES[code], merged[code]
        languages = sum((spoken.get(each, Counter()) for each in places), Counter[str]())
        yield {
            **country._asdict(),
            "pages": total[code],
            "bytes": sum(size[each] for each in places),
            "languages": [{"language": name, "pages": count} for name, count in languages.most_common(20)],
            "gatherers": dict(sum((by[each] for each in places), Counter[str]())),
        }


def _between(links: Counter[tuple[str, str]]) -> list[Row]:
    between: Counter[tuple[str, str]] = Counter()
    for (source, target), count in links.items():
        a, b = country_of(source), country_of(target)
        if a and b:
            between[a.code, b.code] += count
    rows = [{"from": a, "to": b, "links": count} for (a, b), count in between.items()]
    return sorted(rows, key=itemgetter("links"), reverse=True)[:_ROWS]


def _share(coordination: int, fetched: int) -> float:
    whole = coordination + fetched
    return round(100.0 * coordination / whole, 3) if whole else 0.0
