"""What was found of the web: languages, countries, hosts, pages."""

from __future__ import annotations

from typing import TypedDict


class LanguagePages(TypedDict):
    """Pages in a language; "" if it was not recognised, "other" for all that have no row."""

    language: str
    pages: int


class CharsetPages(TypedDict):
    """Pages by declared and detected charset."""

    declared: str
    detected: str
    pages: int


class WrittenPages(LanguagePages):
    """Pages by language and charsets."""

    declared: str
    detected: str


class Written(TypedDict):
    """What pages are written in; each table comes to all pages."""

    pages: int
    languages: list[LanguagePages]
    charsets: list[CharsetPages]
    rows: list[WrittenPages]


class WrittenThere(Written):
    """What the pages of one gatherer are written in."""

    id: str
    name: str


class Languages(Written):
    """The same of all, and of each gatherer."""

    gatherers: list[WrittenThere]


class CountryPages(TypedDict):
    """A country, its pages, their languages, and pages by the ids of gatherers."""

    code: str
    name: str
    latitude: float
    longitude: float
    pages: int
    bytes: int
    languages: list[LanguagePages]
    gatherers: dict[str, int]


class DomainPages(TypedDict):
    """Pages of a domain that is no country's; "" for addresses, "other" for all that have no row."""

    domain: str
    pages: int


CountryLinks = TypedDict("CountryLinks", {"from": str, "to": str, "links": int})
CountryLinks.__doc__ = "Links from pages of one country to another, by their codes; estimated."


class Countries(TypedDict):
    """Pages by country, and links between countries; and how many other links there are."""

    countries: list[CountryPages]
    elsewhere: list[DomainPages]
    links: list[CountryLinks]
    other_links: int


class HostTold(TypedDict):
    """A host as a gatherer has seen it of late."""

    host: str
    gatherer: str
    pages: int
    bytes: int
    errors: int
    mean_s: float
    slowest_s: float
    status: int
    reason: str
    aside_until: float | None
    at: float


class HostSeen(HostTold):
    """The same, and the delay that operators have ruled for it."""

    delay_s: float | None


class Hosts(TypedDict):
    """Hosts that stand out in the way that was asked for."""

    order: str
    hosts: list[HostSeen]


class PageSeen(TypedDict):
    """One of the latest pages. Its texts are as the web has them: escape them."""

    number: int
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
    gatherer: str
    country: str | None


class Pages(TypedDict):
    """Those of the latest pages that were asked for, and how many there are."""

    pages: list[PageSeen]
    in_all: int
