"""What a perfect and polite crawler makes of a synthetic web, found by walking over its links."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gcs.core.urls import Cleaning, canonical
from gcs.simulate.webhosts import Robots
from gcs.simulate.webpaths import HTML, Kind

if TYPE_CHECKING:
    from gcs.simulate.web import Web


@dataclass(frozen=True, slots=True)
class Truth:
    """What a perfect and polite crawler finds, starting from the seeds."""

    pages: frozenset[str]
    """HTML pages that are allowed and answered with 200, in the end."""
    files: frozenset[str]
    """Images and other files to which links lead; whether they are wanted is the crawler's choice."""
    forbidden: frozenset[str]
    """What links lead to, but robots.txt forbids."""
    redirects: Mapping[str, str]
    errors: Mapping[str, int]
    copies: Mapping[str, str]
    """Pages that name another one as their canonical form."""
    noindex: frozenset[str]
    sitemap_only: frozenset[str]
    sitemaps: frozenset[str]
    traps: frozenset[str]
    """How URLs begin that are in an endless part; none of these is in `pages`."""


class Survey:
    """A walk over the web by its links, starting from the seeds."""

    def __init__(self, web: Web, cleaning: Cleaning, *, unread: Collection[str] = ()) -> None:
        """`unread` are pages whose links are not seen."""
        self.web, self.cleaning, self.unread = web, cleaning, unread
        self.seen: set[str] = set()
        self.queue: deque[str] = deque()
        self.hosts: set[str] = set()
        self.by_kind: dict[Kind, set[str]] = {kind: set() for kind in Kind}
        self.forbidden: set[str] = set()

    def made(self, *, sitemaps: bool) -> Truth:
        """Walk to the end; `sitemaps` if they are read."""
        self._add(self.web.seeds)
        self._walk()
        unmapped = set(self.seen)
        while sitemaps and self._add_sitemaps():
            self._walk()
        return self._truth(unmapped)

    def _add(self, found: Iterable[str]) -> None:
        for each in found:
            url = canonical(each, self.cleaning) if self.cleaning.any else each
            if url not in self.seen:
                self.seen.add(url)
                self.queue.append(url)

    def _walk(self) -> None:
        while self.queue:
            url = self.queue.popleft()
            at = self.web.split(url)
            assert at is not None  # no page links to what is not of this web
            self.hosts.add(at[0].name)
            if not at[0].allows(at[1]):
                self.forbidden.add(url)
                continue
            self.by_kind[self.web.kind(url)].add(url)
            if url not in self.unread:
                self._add(self.web.links(url))

    def _add_sitemaps(self) -> bool:
        """Add the sitemaps that the robots.txt of known hosts name; whether there were new ones."""
        before = len(self.seen)
        named = [
            self.web.origin(host) + host.sitemap
            for host in map(self.web.by_name.__getitem__, sorted(self.hosts))
            if host.sitemap and host.robots in {Robots.PLAIN, Robots.RICH}
        ]
        self._add(named)
        return len(self.seen) > before

    def _truth(self, unmapped: set[str]) -> Truth:
        web, of = self.web, self.by_kind
        pages = frozenset(url for kind in HTML for url in of[kind])
        errors = of[Kind.GONE] | of[Kind.FAILING] | of[Kind.MISSING]
        described = {url: page for url in pages if (page := web.page(url))}
        return Truth(
            pages=pages,
            files=frozenset(of[Kind.FILE] | of[Kind.IMAGE]),
            forbidden=frozenset(self.forbidden),
            redirects={url: web.links(url)[0] for url in sorted(of[Kind.REDIRECT] | of[Kind.AROUND])},
            errors={url: web.status(url) for url in sorted(errors)},
            copies={url: page.canonical for url, page in described.items() if page.canonical},
            noindex=frozenset(url for url, page in described.items() if page.noindex),
            sitemap_only=pages - unmapped,
            sitemaps=frozenset(of[Kind.SITEMAP]),
            traps=frozenset(web.origin(host) + host.trap for host in web.hosts if host.trap),
        )
