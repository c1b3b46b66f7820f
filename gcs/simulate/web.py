"""A synthetic web whose pages are computed from their URL by a seed; nothing of it is stored.

`Web.respond` says what a host answers to a request, and `Web.truth` what a perfect crawler makes of the
whole. Both come from the same function of a page's links, so the truth is exact however many pages there
are. The same seed and sizes give the same web in every process.

The pages of a host are numbered; page n leads to pages 4n + 1 … 4n + 4 and the first page of a host to those
of three other hosts, so that all are within reach of the first page of the first host. All other links are
drawn. Beside its pages a host has redirects, missing and failing ones, files, parts that robots.txt forbids,
pages that only a sitemap names, and some have an endless part, a trap, which belongs to nothing that a
crawler should fetch.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import formatdate

from isal import igzip

from gcs.core.urls import NO_CLEANING, Cleaning
from gcs.simulate import webpages
from gcs.simulate.languages import CHARSETS, PHRASES, Voice, draws, voice
from gcs.simulate.survey import Survey, Truth
from gcs.simulate.verdict import Request, Verdict, judge, read_log
from gcs.simulate.webhosts import CHILDREN, Host, Layout, Robots, Sitemap, Trap
from gcs.simulate.webpages import DRAWS, MOST_LINKS, OWN, Page, link_count
from gcs.simulate.webpaths import (
    HTML,
    PRINT_QUERY,
    QUOTED,
    RAW,
    TRACKING_QUERY,
    Document,
    Kind,
    find,
    path_of,
)

__all__ = ["Answer", "Host", "Kind", "Page", "Request", "Truth", "Verdict", "Web", "judge", "read_log"]

_PAGE_CHILDREN = 4
_DEFAULT_PORTS = {"http": 80, "https": 443}
_FILES = ("pdf", "zip", "mp3", "doc")
_IMAGES = ("png", "jpg", "gif")
_TYPES = {
    "pdf": ("application/pdf", b"%PDF-1.4\n"),
    "zip": ("application/zip", b"PK\x03\x04"),
    "mp3": ("audio/mpeg", b"ID3\x03\x00"),
    "doc": ("application/msword", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
    "png": ("image/png", b"\x89PNG\r\n\x1a\n"),
    "jpg": ("image/jpeg", b"\xff\xd8\xff\xe0\x00\x10JFIF\x00"),
    "gif": ("image/gif", b"GIF89a"),
}
_CALENDAR = re.compile(r"/calendar/(\d{4,6})/(\d{2})/\Z")
_GROWTH = re.compile(r"/grow/(?:[ab]/)*\Z")
_SESSIONS = re.compile(r"/shop/\?sid=([0-9a-f]{16})\Z")
# Of a hundred drawn links, 30 are to pages of the same host and written as a path, 22 more relative to the
# page and 10 as a whole URL, 22 are whole URLs of any pages, and the others odd in where they lead or how
# they are written. Of 64 odd ones, 10 lead to pages of the host, 4 to any page, 8 repeat the one before, 6
# lead nowhere that can be fetched, and the others to what else the host has.
_AS_PATH, _AS_RELATIVE, _AS_URL, _FAR_AS_URL = 30, 52, 62, 84
_ODD_NEAR, _ODD_FAR, _ODD_AGAIN, _ODD_NOWHERE = 10, 14, 22, 28
_EXTRAS = (
    *[Kind.IMAGE] * 5,
    *[Kind.FILE] * 5,
    *[Kind.REDIRECT] * 6,
    *[Kind.GONE] * 3,
    *[Kind.PRIVATE] * 3,
    *[Kind.PRINT] * 5,
    *[Kind.TRACKED] * 7,
    *[Kind.FAILING, Kind.BUSY],
)
_PLAIN_EXTRAS = (*_EXTRAS[:22], *[Kind.PAGE] * 14)
_ELSEWHERE = (
    "#s{}",
    "mailto:someone{}@example.test",
    "javascript:void({})",
    "tel:+4930{}",
    "data:text/plain,{}",
    "#",
    "ftp://files.test/{}.tar",
    "http://[not-a-host{}/",
)


_SPELLINGS = (
    *["path", "relative", "relative", "url", "url", "schemeless", "dotted", "raw", "raw"],
    *["shouted", "ported", "padded", "escaped", "escaped", "fragment", "fragment"],
)
_REMEMBERED_PATHS = 1 << 14


@dataclass(frozen=True, slots=True)
class Answer:
    """What a host answers; framing headers are the server's affair."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    delay_s: float = 0.0


class Web:
    """The whole web; immutable but for what it remembers of its own truth."""

    def __init__(
        self,
        seed: int,
        hosts: int = 100,
        pages: int = 2000,
        *,
        port: int | None = None,
        https: float = 0.0,
        gzip: float = 0.5,
        hosts_per_address: int = 1,
        plain: bool = False,
        slowness: float = 1.0,
        most_links: int = MOST_LINKS,
        abroad: bool = False,
    ) -> None:
        """A web of so many hosts and ordinary pages.

        `port` is where every host listens (None: the scheme's own), `https` and `gzip` are shares of hosts. A
        plain web has only what any simple crawler can get through: pages, files, redirects, missing and
        forbidden ones. `slowness` scales all delays; 0 switches them off. With fewer links than MOST_LINKS a
        page has at most so many beside those by which everything is found, and little text. The hosts of a
        web that is `abroad` are in the domains of countries where their languages are spoken, those of others
        are in `test`.
        """
        self.seed, self.port, self.plain, self.slowness = seed, port, plain, slowness
        self._most_links = most_links
        self._layout = Layout(
            seed=seed,
            hosts=hosts,
            pages=pages,
            https=https,
            gzip=gzip,
            hosts_per_address=hosts_per_address,
            plain=plain,
            slowness=slowness,
            abroad=abroad,
        )
        self.hosts: tuple[Host, ...] = tuple(self._layout.made())
        self.by_name: Mapping[str, Host] = {host.name: host for host in self.hosts}
        self._firsts = [host.first for host in self.hosts]
        self._total = self.hosts[-1].first + self.hosts[-1].size
        self._origins = tuple(f"{host.scheme}://{host.name}{self._port_of(host)}" for host in self.hosts)
        # Pages of all hosts share their paths; making one costs more than any other part of a link.
        self._paths = [path_of(number) for number in range(min(self.hosts[0].size, _REMEMBERED_PATHS))]
        self._truths: dict[tuple[Cleaning, bool], Truth] = {}

    def at(self, port: int) -> Web:
        """The same web, listening at another port."""
        layout = self._layout
        return Web(
            layout.seed,
            layout.hosts,
            layout.pages,
            port=port,
            https=layout.https,
            gzip=layout.gzip,
            hosts_per_address=layout.hosts_per_address,
            plain=layout.plain,
            slowness=layout.slowness,
            most_links=self._most_links,
            abroad=layout.abroad,
        )

    @property
    def seeds(self) -> tuple[str, ...]:
        """Where a crawl starts that is to find everything."""
        return (self._origins[0] + "/",)

    def origin(self, host: Host) -> str:
        """How the URLs of a host begin."""
        return self._origins[host.index]

    def url(self, host: str, target: str) -> str:
        """The URL of a request; a host that is not of this web gets one all the same."""
        known = self.by_name.get(host)
        return f"{self._origins[known.index]}{target}" if known else f"http://{host}{target}"

    def split(self, url: str) -> tuple[Host, str] | None:
        """The host and target of a canonical URL; None for one that is not of this web."""
        scheme, _, rest = url.partition("://")
        authority, _, target = rest.partition("/")
        host = self.by_name.get(authority.partition(":")[0])
        if host is None or self._origins[host.index] != f"{scheme}://{authority}":
            return None
        return host, f"/{target}"

    def hosts_file(self) -> str:
        """The names and addresses in the format of /etc/hosts."""
        return "".join(f"{host.address} {host.name}\n" for host in self.hosts)

    def _find(self, host: Host, target: str) -> Document:
        return find(host, target, plain=self.plain)

    def _port_of(self, host: Host) -> str:
        is_default = self.port is None or self.port == _DEFAULT_PORTS[host.scheme]
        return "" if is_default else f":{self.port}"

    # What is where.

    def path(self, number: int) -> str:
        """The target of a host's ordinary page."""
        return self._paths[number] if number < len(self._paths) else path_of(number)

    # What a host answers.

    def respond(
        self, host: str, target: str, *, accept_encoding: str = "", asked: int = 0, now: float = 0.0
    ) -> Answer:
        """What a host answers to GET; `asked` says how often it was asked for this before."""
        here = self.by_name.get(host)
        if here is None:
            return _text(421, "This host is not served here.")
        answer = self._respond(here, target, asked, now)
        if here.gzip and answer.status == 200 and "gzip" in accept_encoding and len(answer.body) > 200:
            kind = answer.headers[0][1]
            if kind.startswith("text/") or kind.endswith("xml"):
                packed = igzip.compress(answer.body, 1, mtime=0)
                coded = (*answer.headers, ("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
                answer = Answer(200, coded, packed)
        if here.delay_s:
            return Answer(answer.status, answer.headers, answer.body, here.delay_s)
        return answer

    def _respond(self, host: Host, target: str, asked: int, now: float) -> Answer:
        found = self._find(host, target)
        if found.kind is Kind.BUSY and asked == 0:
            return self._busy(found.number, now)
        if found.kind in HTML:
            return self._html(host, target, found)
        match found.kind:
            case Kind.REDIRECT | Kind.AROUND:
                return self._redirect(host, found)
            case Kind.GONE:
                return _text(410 if found.number % 3 == 1 else 404, "There is nothing here any more.")
            case Kind.FAILING:
                return _text(500 + 2 * (found.number % 2), "This never works.")
            case Kind.FILE | Kind.IMAGE:
                return self._file(host, target)
            case Kind.STATIC:
                return self._static(host, target)
            case Kind.ROBOTS:
                return self._robots(host)
            case Kind.SITEMAP:
                return self._sitemap(host, found)
            case Kind.TRAP:
                return self._trap(host, target)
            case _:
                return _text(404, "There is nothing here.")

    def _busy(self, number: int, now: float) -> Answer:
        wait_s = round(self.slowness)
        retry = str(wait_s) if number % 2 == 0 else formatdate(now + wait_s, usegmt=True)
        return _text(503 if number % 2 == 0 else 429, "Not now.", ("Retry-After", retry))

    def _file(self, host: Host, target: str) -> Answer:
        kind, magic = _TYPES[target.rpartition(".")[2]]
        size, salt = draws(f"{self.seed}/{host.index}/{target}", 2)
        noise = b"".join(n.to_bytes(4, "little") for n in draws(f"{salt}", 64))
        return Answer(200, (("Content-Type", kind),), magic + noise * (4 + size % 120))

    def _static(self, host: Host, target: str) -> Answer:
        if target == "/static/style.css":
            return Answer(200, (("Content-Type", "text/css"),), b"body{font:16px serif}\n" * 20)
        if target == "/static/app.js":
            return Answer(200, (("Content-Type", "text/javascript"),), b"function f(x){return x}\n" * 20)
        return self._robots_text("User-agent: *\nDisallow: /private/\n")

    def _robots(self, host: Host) -> Answer:
        lines = "User-agent: *\nDisallow: /private/\nAllow: /\n"
        match host.robots:
            case Robots.NONE:
                return _text(404, "There is nothing here.")
            case Robots.BROKEN:
                return _text(503, "Not now.")
            case Robots.MOVED:
                return _moved(301, "/static/robots.txt")
            case Robots.FAR:
                return _moved(302, self._origins[0] + "/static/robots.txt")
            case Robots.CLOSED:
                lines = "User-agent: *\nDisallow: /\n"
            case Robots.RICH:
                lines = (
                    "\ufeff# Who may see what.\r\nUSER-AGENT: badbot\r\nUSER-AGENT: worsebot\r\n"
                    "Disallow: /\r\n\r\n"
                    "user-agent: *  # everybody else\r\nAllow: /private/open/\r\nDisallow: /private/\r\n"
                    "Disallow: /*.secret$\r\nDisallow:\r\n"
                )
        if host.crawl_delay_s:
            lines += f"Crawl-delay: {host.crawl_delay_s:g}\n"
        if host.sitemap and host.robots is not Robots.CLOSED:
            lines += f"\nSitemap: {self._origins[host.index]}{host.sitemap}\n"
        return self._robots_text(lines)

    @staticmethod
    def _robots_text(lines: str) -> Answer:
        return Answer(200, (("Content-Type", "text/plain; charset=utf-8"),), lines.encode())

    def _named(self, host: Host, number: int) -> list[str]:
        """What a sitemap names: for an index its parts, else pages that no link leads to, and some others."""
        origin = self._origins[host.index]
        if host.sitemap is Sitemap.INDEX:
            if number == 0:
                return [f"{origin}/sitemaps/1.xml", f"{origin}/sitemaps/2.xml.gz"]
            orphans = range(number - 1, host.extras, 2)
        else:
            orphans = range(host.extras)
        known = [origin + self.path(n) for n in range(min(3, host.size))]
        return known + [f"{origin}/orphan/{n}.html" for n in orphans]

    def _sitemap(self, host: Host, found: Document) -> Answer:
        named = self._named(host, found.number)
        is_index = host.sitemap is Sitemap.INDEX and found.number == 0
        outer, inner = ("sitemapindex", "sitemap") if is_index else ("urlset", "url")
        entries = "".join(f"<{inner}><loc>{url}</loc></{inner}>\n" for url in named)
        body = (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f'<{outer} xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{entries}</{outer}>\n'
        ).encode()
        if found.path.endswith(".gz"):
            return Answer(200, (("Content-Type", "application/gzip"),), igzip.compress(body, 1, mtime=0))
        return Answer(200, (("Content-Type", "application/xml"),), body)

    def _leads_to(self, host: Host, found: Document) -> str:
        """Where a redirect leads, as a URL; some lead to the next redirect, the last one into a circle."""
        origin, number = self._origins[host.index], found.number
        if found.kind is Kind.AROUND:
            return f"{origin}/go/around/{(number + 1) % 3}"
        if number == host.extras - 1 and not self.plain:
            return f"{origin}/go/around/0"
        if number % 5 in {1, 2} and number + 1 < host.extras:
            return f"{origin}/go/{number + 1}"
        drawn = draws(f"{self.seed}/go/{host.index}/{number}", 1)[0]
        if number % 5 == 4 or (number % 5 == 0 and host.index % 2):
            there = self._host_of(drawn % self._total)
            return self._origins[there.index] + self.path(drawn % there.size)
        return origin + self.path(drawn % host.size)

    def _redirect(self, host: Host, found: Document) -> Answer:
        url, origin = self._leads_to(host, found), self._origins[host.index]
        status = (301, 302, 307, 308)[found.number % 4]
        if url.startswith(f"{origin}/") and found.number % 3 == 0:
            url = url[len(origin) :]
        return _moved(status, url + ("#part" if found.number % 7 == 3 else ""))

    def _trap(self, host: Host, target: str) -> Answer:
        links = self._trap_links(host, target)
        if not links:
            return _text(404, "There is nothing here.")
        anchors = "".join(f'<li><a href="{href}">on</a></li>\n' for href in links)
        # A shop shows the same under every session; the others never repeat themselves.
        shown = "Our goods" if host.trap is Trap.SESSIONS else target
        return Answer(
            200,
            (("Content-Type", "text/html; charset=utf-8"),),
            f"<!DOCTYPE html><title>{shown}</title><h1>{shown}</h1><ul>\n{anchors}</ul>\n".encode(),
        )

    def _trap_links(self, host: Host, target: str) -> list[str]:
        """What a page in the endless part leads to; nothing for a page that is not there."""
        match host.trap:
            case Trap.CALENDAR if found := _CALENDAR.match(target):
                months = int(found[1]) * 12 + int(found[2]) - 1
                near = [f"/calendar/{m // 12:04d}/{m % 12 + 1:02d}/" for m in (months - 1, months + 1)]
                return [*near, "/"]
            case Trap.GROWTH if _GROWTH.match(target):
                return ["a/", "b/", "/"]
            case Trap.SESSIONS if target == "/shop/" or _SESSIONS.match(target):
                one, two = draws(f"{self.seed}{target}", 2)
                return [f"/shop/?sid={one:08x}{two:08x}", f"/shop/?sid={two:08x}{one:08x}", "/"]
            case _:
                return []

    # Pages and their links.

    def _host_of(self, page: int) -> Host:
        """The host of a page that is numbered among those of all hosts."""
        return self.hosts[bisect_right(self._firsts, page) - 1]

    def _links(
        self, host: Host, found: Document, drawn: tuple[int, ...], folder: str, *, raw: bool
    ) -> tuple[list[str], list[str]]:
        """The links of a page: as written, and the URLs among them that can be fetched."""
        here, size, firsts = self._origins[host.index], host.size, self._firsts
        path = self._paths.__getitem__ if size <= len(self._paths) else path_of
        count = link_count(drawn, self._most_links)
        to_path, to_relative, to_near, to_far = (
            OWN + count * share // 100 for share in (_AS_PATH, _AS_RELATIVE, _AS_URL, _FAR_AS_URL)
        )
        # The product of two numbers prefers small ones: some pages are popular.
        near = [path((n & 0xFFFF) * (n >> 16) * size >> 32) for n in drawn[OWN:to_near]]
        far = [self._url_of(n % self._total, firsts) for n in drawn[to_near:to_far]]
        up = "../" * (folder.count("/") - 1) or "./"
        hrefs, leads = [], []
        for there, target in self._fixed_links(host, found):
            leads.append(self._origins[there.index] + target)
            hrefs.append(target if there is host else leads[-1])
        hrefs += near[: to_path - OWN]
        hrefs += [up + target[1:] for target in near[to_path - OWN : to_relative - OWN]]
        hrefs += [here + target for target in near[to_relative - OWN :]]
        hrefs += far
        leads += [here + target for target in near]
        leads += far
        odd = drawn[to_far : to_far + 2 * (OWN + count - to_far)]
        self._add_odd_links(host, folder, odd, hrefs, leads, raw=raw)
        return hrefs, leads

    def _url_of(self, page: int, firsts: list[int]) -> str:
        """The URL of a page that is numbered among those of all hosts."""
        index = bisect_right(firsts, page) - 1
        return self._origins[index] + self.path(page - firsts[index])

    def _add_odd_links(
        self, host: Host, folder: str, odd: tuple[int, ...], hrefs: list[str], leads: list[str], *, raw: bool
    ) -> None:
        there, target = host, "/"
        for how, which in zip(odd[::2], odd[1::2], strict=True):
            to = how & 63
            if to < _ODD_NEAR:
                there, target = host, self.path(which % host.size)
            elif to < _ODD_FAR:
                there = self._host_of(which % self._total)
                target = self.path(which % self._total - there.first)
            elif to >= _ODD_NOWHERE:
                there, target = host, self._drawn_extra(host, to - _ODD_NOWHERE, which)
            elif to >= _ODD_AGAIN:
                hrefs.append(_ELSEWHERE[which & 7].format(which >> 24))
                continue
            style = _SPELLINGS[how >> 8 & 15]
            hrefs.append(self._spell(style, host, folder, there, target, raw=raw))
            leads.append(self._origins[there.index] + target)

    def _fixed_links(self, host: Host, found: Document) -> Iterator[tuple[Host, str]]:
        """The links that make sure that everything is found."""
        if found.kind in {Kind.PAGE, Kind.TRACKED, Kind.PRINT}:
            below = _PAGE_CHILDREN * found.number + 1
            for child in range(below, min(below + _PAGE_CHILDREN, host.size)):
                yield host, self.path(child)
            if found.number == 0:
                below = CHILDREN * host.index + 1
                for child in range(below, min(below + CHILDREN, len(self.hosts))):
                    yield self.hosts[child], "/"
                if host.trap:
                    starts = {Trap.CALENDAR: "2024/05/"}
                    yield host, host.trap + starts.get(host.trap, "")
        if found.kind is not Kind.HIDDEN and self._is_nofollow(host, found):
            yield host, f"/hidden/{found.number % host.extras}.html"

    def _drawn_extra(self, host: Host, to: int, which: int) -> str:
        number = which % host.extras
        match kind := (_PLAIN_EXTRAS if self.plain else _EXTRAS)[to]:
            case Kind.IMAGE:
                return f"/img/{number}.{_IMAGES[number % 3]}"
            case Kind.FILE:
                return f"/files/{number}.{_FILES[number % 4]}"
            case Kind.REDIRECT:
                return f"/go/{number}"
            case Kind.GONE:
                return f"/gone/{number}.html"
            case Kind.FAILING if host.failing:
                return f"/error/{number % 2}"
            case Kind.BUSY if host.busy:
                return f"/busy/{number % 2}"
            case Kind.PRIVATE:
                is_rich = host.robots is Robots.RICH
                forms = ("/private/{}.html", "/private/open/{}.html", "/notes/{}.secret")
                return forms[(which >> 16) % 3 if is_rich else 0].format(number)
            case _:
                return self._drawn_variant(host, kind, which)

    def _drawn_variant(self, host: Host, kind: Kind, which: int) -> str:
        """A page under another URL; only some pages have such, or there would be more of them than pages."""
        page = which % host.size
        path = self.path(page)
        if page % 8 == 2 and kind is Kind.PRINT:
            return path + PRINT_QUERY
        if page % 8 == 6 and kind is Kind.TRACKED:
            return path + TRACKING_QUERY
        return path

    def _spell(self, style: str, here: Host, folder: str, there: Host, target: str, *, raw: bool) -> str:
        """A way to write a link from a page in a folder to a target; where it does not fit, a whole URL."""
        origin, is_near = self._origins[there.index], there is here
        match style:
            case "path" if is_near:
                return target
            case "relative" if is_near:
                return _relative(folder, target)
            case "dotted" if is_near:
                return f"/x/./y/../..{target}"
            case "escaped":
                return origin + target.replace("&", "&amp;")
            case "fragment":
                return f"{target if is_near else origin + target}#s1"
            case "schemeless" if there.scheme == here.scheme:
                return origin.removeprefix(there.scheme + ":") + target
            case "shouted":
                return origin.upper() + target
            case "ported" if not self._port_of(there):
                return f"{origin}:{_DEFAULT_PORTS[there.scheme]}{target}"
            case "padded":
                return f"\n {origin}{target}\t"
            case "raw" if raw and "%" in target:
                for quoted, letters in zip(QUOTED, RAW, strict=True):
                    target = target.replace(quoted, letters)
        return origin + target

    def _drawn(self, host: Host, found: Document) -> tuple[int, ...]:
        return draws(f"{self.seed}/{host.index}{found.path}", DRAWS)

    def _is_nofollow(self, host: Host, found: Document) -> bool:
        """Whether a page says that its links are not to be followed; never one that others are found by."""
        if self.plain or found.kind is not Kind.PAGE:
            return False
        return found.number % 24 == 13 and _PAGE_CHILDREN * found.number + 1 >= host.size

    def _folder(self, found: Document, drawn: tuple[int, ...]) -> tuple[str, str]:
        """The folder that relative links of a page start from, and the path in its base element, if any."""
        if drawn[2] % 16 == 0 and not self.plain:
            return "/s1/base/", "/s1/base/here.html"
        return found.path.partition("?")[0].rpartition("/")[0] + "/", ""

    def _voice(self, host: Host, drawn: tuple[int, ...]) -> Voice:
        languages = tuple(CHARSETS)
        language = host.language if drawn[4] % 8 else languages[drawn[5] % len(languages)]
        charsets = CHARSETS[language]
        return voice(self.seed, language, charsets[(host.index + drawn[5] // 256 % 4 // 3) % len(charsets)])

    def _declared(self, speech: Voice, drawn: tuple[int, ...]) -> str:
        ways = ("meta", "http-equiv", "") if self.plain else ("header", "header", "meta", "http-equiv", "")
        return ways[drawn[6] % len(ways)]

    def _describe(self, host: Host, found: Document, drawn: tuple[int, ...], speech: Voice) -> Page:
        one, two = (speech.phrases[n % PHRASES] for n in drawn[7:9])
        is_page = found.kind in {Kind.PAGE, Kind.TRACKED, Kind.PRINT}
        origin = self._origins[host.index]
        return Page(
            url=origin + found.path,
            language=speech.language,
            charset=speech.charset,
            declared=self._declared(speech, drawn),
            title=f"{one} & {two} {found.number}",
            description=f"{two}, {one}" if drawn[9] % 4 else "",
            noindex=is_page and not self.plain and found.number % 24 == 17,
            nofollow=self._is_nofollow(host, found),
            canonical=origin + found.path if found.kind is Kind.PRINT else None,
        )

    def _html(self, host: Host, target: str, found: Document) -> Answer:
        drawn = self._drawn(host, found)
        speech = self._voice(host, drawn)
        page = self._describe(host, found, drawn, speech)
        folder, base = self._folder(found, drawn)
        raw = page.charset == "utf-8"
        hrefs, _ = self._links(host, found, drawn, folder, raw=raw)
        in_header = drawn[10] % 2 == 1
        html = webpages.head(page, speech, base=base, says_robots=not in_header)
        html += webpages.body(speech, hrefs, drawn, short=self._most_links < MOST_LINKS)
        kind = f"text/html; charset={page.charset}" if page.declared == "header" else "text/html"
        headers: tuple[tuple[str, str], ...] = (("Content-Type", kind),)
        if in_header and page.robots:
            headers = (*headers, ("X-Robots-Tag", page.robots))
        return Answer(200, headers, html.encode("latin-1"))

    def page(self, url: str) -> Page | None:
        """What is true of an HTML page; None for a URL at which there is none."""
        at = self.split(url)
        if at is None:
            return None
        found = self._find(*at)
        if found.kind not in HTML:
            return None
        drawn = self._drawn(at[0], found)
        return self._describe(at[0], found, drawn, self._voice(at[0], drawn))

    # What a perfect crawler makes of it.

    def links(self, url: str) -> list[str]:
        """The URLs that a perfect crawler goes on to from a URL; traps lead nowhere."""
        at = self.split(url)
        if at is None:
            return []
        host, found = at[0], self._find(*at)
        if found.kind in {Kind.REDIRECT, Kind.AROUND}:
            return [self._leads_to(host, found)]
        if found.kind is Kind.SITEMAP:
            return self._named(host, found.number)
        if found.kind not in HTML or self._is_nofollow(host, found):
            return []
        drawn = self._drawn(host, found)
        _, leads = self._links(host, found, drawn, self._folder(found, drawn)[0], raw=False)
        return [*leads, self._origins[host.index] + found.path] if found.kind is Kind.PRINT else leads

    def truth(self, *, cleaning: Cleaning = NO_CLEANING, sitemaps: bool = True) -> Truth:
        """What there is to find; `cleaning` as the crawler does it, `sitemaps` if it reads them."""
        known = self._truths.get((cleaning, sitemaps))
        if known is None:
            known = self._truths[cleaning, sitemaps] = Survey(self, cleaning).made(sitemaps=sitemaps)
        return known

    def reachable(self, *, cleaning: Cleaning = NO_CLEANING, sitemaps: bool = True) -> frozenset[str]:
        """The pages that a perfect and polite crawler fetches, in the end with status 200."""
        return self.truth(cleaning=cleaning, sitemaps=sitemaps).pages

    def kind(self, url: str) -> Kind:
        """What is at a URL."""
        at = self.split(url)
        return self._find(*at).kind if at else Kind.MISSING

    def status(self, url: str) -> int:
        """The status with which a URL is answered in the end."""
        at = self.split(url)
        return self._respond(*at, 1, 0.0).status if at else 421


def _text(status: int, said: str, *headers: tuple[str, str]) -> Answer:
    return Answer(status, (("Content-Type", "text/plain"), *headers), f"{said}\n".encode())


def _moved(status: int, location: str) -> Answer:
    return _text(status, "It is elsewhere.", ("Location", location))


def _relative(folder: str, target: str) -> str:
    """A target as seen from a folder."""
    if target.startswith(folder):
        return target[len(folder) :] or "./"
    return "../" * (folder.count("/") - 1) + target[1:] if folder != "/" else target
