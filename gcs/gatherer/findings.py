"""What a gatherer has found out about the web, for people who watch: languages, places, hosts, latest pages.

Counted with every page that comes, in tables of bounded size: what has no room in one counts as "other". What
is known of languages, charsets, places and their links is kept over restarts, as of a minute ago; hosts and
pages are those of late. A place is the last label of a host's name; what country that is, if any, is for
whoever shows it. Links between countries are counted on one page in so many, for all.

None of this is sent anywhere unless somebody watches (`gcs.gatherer.telling`).
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Hashable
from heapq import nlargest
from typing import Any, Final, NamedTuple, TypeVar

import msgpack

from gcs.core.countries import country_of
from gcs.fetch.outcome import Response
from gcs.gatherer.job import Visit

VERSION: Final = 1
OTHER: Final = "other"
LINKS_COUNTED: Final = 16
"""Of so many pages the links of one are counted, so many times."""
_TABLE: Final = 2_000
_HOSTS: Final = 4_096
_PAGES: Final = 32
_SENT_ROWS: Final = 400
_SENT_HOSTS: Final = 30
_SENT_ASIDE: Final = 100
_LONGEST: Final = 200
_NAME: Final = 40
_NOT_ERRORS: Final = frozenset({"", "noindex"})
Row = TypeVar("Row", bound=Hashable)


class Page(NamedTuple):
    """One of the latest pages."""

    number: int
    """Grows from page to page, while the process lives."""
    at: float
    url: str
    host: str
    title: str
    excerpt: str
    language: str
    charset: str
    declared: str
    detected: str
    status: int
    bytes: int
    fetch_s: float


class Host:
    """What was seen of a host of late."""

    __slots__ = ("aside_until", "at", "bytes", "errors", "pages", "reason", "seconds", "slowest_s", "status")

    def __init__(self) -> None:
        self.pages = self.bytes = self.errors = self.status = 0
        self.seconds = self.slowest_s = self.at = self.aside_until = 0.0
        self.reason = ""

    @property
    def mean_s(self) -> float:
        """How long its answers took."""
        return self.seconds / self.pages if self.pages else 0.0


class Findings:
    """The tables of one gatherer."""

    def __init__(self) -> None:
        self.written: Counter[tuple[str, str, str]] = Counter()
        """Pages by language, declared and detected charset."""
        self.places: Counter[str] = Counter()
        self.place_bytes: Counter[str] = Counter()
        self.spoken: Counter[tuple[str, str]] = Counter()
        """Pages by place and language."""
        self.links: Counter[tuple[str, str]] = Counter()
        self.pages: deque[Page] = deque(maxlen=_PAGES)
        self.hosts: OrderedDict[str, Host] = OrderedDict()
        self._number = 0

    # What is seen

    def saw(self, visit: Visit) -> None:
        """Count what came of a job."""
        outcome, job = visit.outcome, visit.job
        host = self._host(job.origin.netloc)
        host.at, host.status, host.reason = visit.at, visit.status, visit.reason
        host.errors += visit.reason not in _NOT_ERRORS
        if not isinstance(outcome, Response):
            return
        host.pages += 1
        host.bytes += outcome.raw_bytes
        host.seconds += outcome.total_s
        host.slowest_s = max(host.slowest_s, outcome.total_s)
        place = place_of(job.origin.host)
        self.answered(place, outcome.raw_bytes)
        if visit.document is not None:
            self._read(visit, outcome, place)

    def answered(self, place: str, size_bytes: int) -> None:
        """Count an answer of a host somewhere."""
        _count(self.places, place, OTHER)
        _count(self.place_bytes, place, OTHER, size_bytes)

    def read(self, place: str, language: str, declared: str, detected: str) -> None:
        """Count a page that was read."""
        _count(self.written, (language, declared, detected), (OTHER, OTHER, OTHER))
        _count(self.spoken, (place, language), (OTHER, OTHER))

    def linked(self, place: str, to: str, count: int) -> None:
        """Count links between places; all that are of no country are one, since names can be invented."""
        source, target = (each if country_of(each) else OTHER for each in (place, to))
        _count(self.links, (source, target), (OTHER, OTHER), count)

    def _read(self, visit: Visit, response: Response, place: str) -> None:
        document, job = visit.document, visit.job
        assert document is not None
        self._number += 1
        language, declared = document.language, document.charset_declared[:_NAME].lower()
        detected = document.charset_detected[:_NAME].lower()
        self.read(place, language, declared, detected)
        self.pages.append(
            Page(
                self._number,
                visit.at,
                job.url,
                job.origin.netloc,
                document.title[:_LONGEST],
                document.excerpt[:_LONGEST],
                language,
                document.charset[:_NAME],
                declared,
                detected,
                visit.status,
                response.raw_bytes,
                round(response.total_s, 3),
            )
        )
        if self._number % LINKS_COUNTED == 0:
            led = Counter(place_of_url(each.url) for each in visit.targets if each is not None)
            for to, count in led.items():
                self.linked(place, to, count * LINKS_COUNTED)

    def aside(self, name: str, until: float) -> None:
        """A host is not asked before a time."""
        self._host(name).aside_until = until

    def _host(self, name: str) -> Host:
        host = self.hosts.get(name)
        if host is None:
            host = self.hosts[name] = Host()
            if len(self.hosts) > _HOSTS:
                self.hosts.popitem(last=False)
        else:
            self.hosts.move_to_end(name)
        return host

    # What others are told

    def told(self, now: float) -> dict[str, Any]:
        """The most frequent of all, the hosts that stand out, and the latest pages."""
        chosen = self._outstanding(now)
        return {
            "written": most(self.written, (OTHER, OTHER, OTHER), _SENT_ROWS),
            "places": self._places(),
            "spoken": most(self.spoken, (OTHER, OTHER), _SENT_ROWS),
            "links": most(self.links, (OTHER, OTHER), _SENT_ROWS),
            "pages": list(self.pages),
            "hosts": [_row(name, host, now) for name, host in chosen.items()],
        }

    def _places(self) -> list[tuple[str, int, int]]:
        """Answers and bytes of each place; "other" has those of all that are left out."""
        chosen = most(self.places, OTHER, _SENT_ROWS)
        named = [(place, count, self.place_bytes[place]) for place, count in chosen if place != OTHER]
        rest = self.place_bytes.total() - sum(size for _, _, size in named)
        return [*named, *((OTHER, count, rest) for place, count in chosen if place == OTHER)]

    def _outstanding(self, now: float) -> dict[str, Host]:
        """The slowest, the largest, those with most errors, and those that were set aside."""
        every = self.hosts.items()
        aside = [each for each in every if each[1].aside_until > now]
        found = dict(nlargest(_SENT_ASIDE, aside, key=lambda each: each[1].aside_until))
        for measure in ("mean_s", "pages", "errors"):
            largest = nlargest(_SENT_HOSTS, every, key=lambda each: getattr(each[1], measure))
            found |= {name: host for name, host in largest if getattr(host, measure)}
        return found

    # In and out

    def to_bytes(self) -> bytes:
        """What is kept."""
        tables = [
            list(each.items())
            for each in (self.written, self.places, self.place_bytes, self.spoken, self.links)
        ]
        packed: bytes = msgpack.packb([VERSION, *tables])
        return packed

    @classmethod
    def from_bytes(cls, data: bytes) -> Findings:
        """What `to_bytes` gave; those of another version begin anew."""
        made = cls()
        version, *tables = msgpack.unpackb(data, use_list=False)
        if version == VERSION:
            made.written, made.places, made.place_bytes, made.spoken, made.links = (
                Counter(dict(each)) for each in tables
            )
        return made


def place_of(authority: str) -> str:
    """The last label of a host's name, with or without a port; "" for an address."""
    label = authority.partition(":")[0].rpartition(".")[2]
    return label if label.isalpha() or label.startswith("xn--") else ""


def place_of_url(url: str) -> str:
    """That of the host of a canonical URL."""
    return place_of(url.split("/", 3)[2])


def _count(table: Counter[Row], row: Row, rest: Row, count: int = 1) -> None:
    table[row if row in table or len(table) < _TABLE else rest] += count


def most(table: Counter[Row], rest: Row, count: int) -> list[tuple[Row, int]]:
    """So many rows at most, the largest first; what is left out is added up in one of them, the `rest`."""
    if len(table) <= count:
        return table.most_common()
    chosen = Counter(dict(table.most_common(count - 1)))
    chosen[rest] += table.total() - chosen.total()
    return chosen.most_common()


def _row(name: str, host: Host, now: float) -> tuple[Any, ...]:
    aside = round(host.aside_until, 1) if host.aside_until > now else None
    times = round(host.mean_s, 4), round(host.slowest_s, 4)
    counts = host.pages, host.bytes, host.errors
    return (name, *counts, *times, host.status, host.reason, aside, round(host.at, 1))
