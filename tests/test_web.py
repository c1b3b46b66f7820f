"""The synthetic web: what it says of itself is what it serves, and crawlers are judged by what they did."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import zlib
from collections import Counter, deque
from collections.abc import Iterable
from pathlib import Path

import ada_url
import httpx
import pytest
import trio
import trio.testing
import trustme
from protego import Protego
from selectolax.lexbor import LexborHTMLParser

from benchmarks import crawl
from gcs.core.urls import TRACKING, Rejected, canonical
from gcs.simulate import webserver
from gcs.simulate.languages import CHARSETS, WORDS, voice
from gcs.simulate.verdict import CUT_OFF
from gcs.simulate.web import Kind, Request, Truth, Verdict, Web, judge, read_log
from gcs.simulate.webhosts import Framing, Robots, Sitemap, Trap

ROOT = Path(__file__).parent.parent
WEB = Web(3, 40, 500)
TRUTH = WEB.truth()
_MAPPED_TYPES = ("application/xml", "application/gzip")


def get(web: Web, url: str, *, asked: int = 1) -> tuple[int, dict[str, str], bytes]:
    """What a URL is answered with: status, headers by lower-case name, body."""
    at = web.split(url)
    assert at is not None
    answer = web.respond(at[0].name, at[1], asked=asked)
    return answer.status, {name.lower(): value for name, value in answer.headers}, answer.body


def parsed_links(url: str, headers: dict[str, str], body: bytes) -> set[str]:
    """The links of a page as a careful crawler reads them; none if they are not to be followed."""
    page = LexborHTMLParser(body)
    robots = [node.attributes["content"] or "" for node in page.css("meta[name=robots]")]
    if "nofollow" in f"{robots} {headers.get('x-robots-tag', '')}":
        return set()
    base = page.css_first("base[href]")
    start = ada_url.join_url(url, (base.attributes["href"] or "") if base else url)
    found = set()
    for node in page.css("a[href], link[rel=canonical]"):
        href = node.attributes["href"] or ""
        if href.startswith("#"):
            continue  # within the page, whatever its base
        try:
            found.add(canonical(ada_url.join_url(start, href)))
        except (Rejected, ValueError):
            continue
    return {each for each in found if each != url and each.startswith("http")}


def digest(seed: int) -> str:
    """A fingerprint of all that a small web answers."""
    web = Web(seed, 12, 60)
    said = hashlib.sha256()
    for url in sorted(web.reachable() | web.truth().files):
        status, headers, body = get(web, url)
        said.update(repr((url, status, sorted(headers.items()), body)).encode())
    return said.hexdigest()


def test_the_same_seed_gives_the_same_web_in_another_process() -> None:
    """Nothing depends on the process: not on its hash seed, and not on what was asked before."""
    script = "from tests.test_web import digest; print(digest(5))"
    made = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for hash_seed in ("1", "2")
    ]
    assert made == [digest(5)] * 2
    assert digest(6) != digest(5)


@pytest.mark.parametrize(
    "web",
    [WEB, Web(4, 12, 300, port=8080), Web(4, 12, 300, plain=True), Web(5, 20, 200, https=0.5)],
    ids=["default", "port", "plain", "https"],
)
def test_pages_have_the_links_that_the_truth_is_made_of(web: Web) -> None:
    """A careful parser finds exactly the links by which the truth was found, on every page."""
    for url in web.reachable():
        status, headers, body = get(web, url)
        assert status == 200
        said = {canonical(each) for each in web.links(url)} - {url}
        assert parsed_links(url, headers, body) == said, url


def crawled(web: Web) -> set[str]:
    """The pages that a crawler finds which knows nothing of the web but its answers, reading all sitemaps."""
    seen, queue, pages = set(web.seeds), deque(web.seeds), set()
    origins: set[str] = set()
    rules: dict[str, Protego] = {}
    while queue:
        url = queue.popleft()
        at = web.split(url)
        if at is None or any(url.startswith(trap) for trap in web.truth().traps):
            continue
        origin = web.origin(at[0])
        found: set[str] = set()
        if origin not in origins:
            origins.add(origin)
            rules[origin] = robots_of(web, origin)
            found |= set(rules[origin].sitemaps)
        if not rules[origin].can_fetch(url, "tester"):
            continue
        status, headers, body = get(web, url)
        if "location" in headers:
            found.add(canonical(ada_url.join_url(url, headers["location"])))
        elif status == 200 and headers["content-type"].startswith("text/html"):
            pages.add(url)
            found |= parsed_links(url, headers, body)
        elif headers["content-type"] in _MAPPED_TYPES and status == 200:
            text = zlib.decompress(body, 31) if url.endswith(".gz") else body
            found |= set(re.findall("<loc>(.*?)</loc>", text.decode()))
        new = found - seen
        seen |= new
        queue.extend(new)
    return pages


def robots_of(web: Web, origin: str) -> Protego:
    """The rules of an origin, found as RFC 9309 says."""
    url = f"{origin}/robots.txt"
    status, headers, body = get(web, url)
    while "location" in headers:
        url = ada_url.join_url(url, headers["location"])
        status, headers, body = get(web, url)
    if status >= 500:
        return Protego.parse("User-agent: *\nDisallow: /")
    return Protego.parse(body.decode("utf-8-sig") if status == 200 else "")


@pytest.mark.parametrize("web", [WEB, Web(9, 30, 200, port=8080, plain=True)], ids=["default", "plain"])
def test_a_crawler_that_knows_nothing_finds_exactly_what_is_reachable(web: Web) -> None:
    """The reachable set is what links, redirects, robots.txt and sitemaps lead to, and traps do not."""
    assert crawled(web) == web.reachable()


def test_the_truth_is_what_hosts_answer() -> None:
    """Redirects, errors, files, copies and sitemaps answer as the truth says, and none of it is empty."""
    for url, to in TRUTH.redirects.items():
        status, headers, _ = get(WEB, url)
        assert status in {301, 302, 307, 308}
        assert canonical(ada_url.join_url(url, headers["location"])) == canonical(to)
    assert {get(WEB, url)[0] for url in TRUTH.redirects} == {301, 302, 307, 308}
    assert all(get(WEB, url)[0] == status for url, status in TRUTH.errors.items())
    assert set(TRUTH.errors.values()) == {404, 410, 500, 502}
    assert all(get(WEB, url)[1]["content-type"].partition("/")[0] != "text" for url in TRUTH.files)
    assert all(get(WEB, url)[1]["content-type"] in _MAPPED_TYPES for url in TRUTH.sitemaps)
    for url, to in TRUTH.copies.items():
        assert get(WEB, url)[2].count(f'<link rel="canonical" href="{to}">'.encode()) == 1
    parts = (TRUTH.files, TRUTH.forbidden, TRUTH.copies, TRUTH.noindex, TRUTH.sitemap_only, TRUTH.sitemaps)
    assert all(parts)


def test_redirects_come_in_chains_circles_and_across_hosts() -> None:
    """Some redirects lead to further redirects, three in a circle, and some to other hosts."""
    to = TRUTH.redirects
    assert any(to.get(to[url], "") in to for url in to)
    around = next(url for url in to if url.endswith("/go/around/0"))
    assert to[to[to[around]]] == around
    assert any(WEB.split(url)[0] != WEB.split(there)[0] for url, there in to.items())  # type: ignore[index]


def test_every_ordinary_page_is_reachable() -> None:
    """All pages of all hosts that robots.txt leaves open are found."""
    for host in WEB.hosts:
        for number in range(host.size):
            assert (WEB.origin(host) + WEB.path(number) in TRUTH.pages) == host.allows(WEB.path(number))
    assert sum(host.size for host in WEB.hosts) == 500


def test_robots_txt_forbids_what_the_truth_says() -> None:
    """Protego, reading the served robots.txt, agrees with the truth about every URL of every kind of host."""
    rules = {WEB.origin(host): robots_of(WEB, WEB.origin(host)) for host in WEB.hosts}
    assert {host.robots for host in WEB.hosts} == set(Robots)
    for url in TRUTH.pages | TRUTH.files | TRUTH.forbidden | set(TRUTH.redirects):
        at = WEB.split(url)
        assert at is not None
        assert rules[WEB.origin(at[0])].can_fetch(url, "tester") == (url not in TRUTH.forbidden)
    for host in WEB.hosts:
        assert rules[WEB.origin(host)].crawl_delay("tester") == host.crawl_delay_s
        assert host.allows("/robots.txt")


def test_pages_that_only_nofollow_leads_to_are_not_reachable() -> None:
    """Hidden pages exist and are linked from pages whose links are not to be followed, and not found."""
    nofollow = [url for url in TRUTH.pages if (page := WEB.page(url)) and page.nofollow]
    bodies = b"".join(get(WEB, url)[2] for url in nofollow)
    assert b'"/hidden/' in bodies
    assert b'rel="nofollow"' in b"".join(get(WEB, url)[2] for url in TRUTH.pages)
    assert not any("/hidden/" in url for url in TRUTH.pages)
    hidden = f"{WEB.origin(WEB.hosts[0])}/hidden/0.html"
    assert get(WEB, hidden)[0] == 200
    assert WEB.kind(hidden) is Kind.HIDDEN


def test_sitemaps_can_be_left_unread() -> None:
    """Without sitemaps, exactly the pages that only these name are missing."""
    assert TRUTH.pages - WEB.reachable(sitemaps=False) == TRUTH.sitemap_only
    assert not WEB.truth(sitemaps=False).sitemap_only


def test_cleaning_takes_out_tracking_parameters_only() -> None:
    """A crawler that removes tracking parameters has the same pages without their second URLs."""
    cleaned = WEB.reachable(cleaning=TRACKING)
    assert cleaned == {url for url in TRUTH.pages if "utm_" not in url}
    assert len(cleaned) < len(TRUTH.pages)


@pytest.mark.parametrize("trap", [trap for trap in Trap if trap], ids=lambda trap: trap.name.lower())
def test_traps_are_endless_and_outside_of_the_truth(trap: Trap) -> None:
    """From a trap's entrance, which a page links to, ever new pages lead on; none of them counts."""
    host = next(host for host in WEB.hosts if host.trap is trap and host.allows("/"))
    start = WEB.origin(host) + trap
    assert start in TRUTH.traps
    assert not any(url.startswith(start) for url in TRUTH.pages)
    entrance = next(url for url in WEB.links(WEB.origin(host) + "/") if url.startswith(start))
    seen = {entrance}
    for _ in range(30):
        _, headers, body = get(WEB, max(seen, key=len) if trap is Trap.GROWTH else entrance)
        found = {url for url in parsed_links(entrance, headers, body) if url.startswith(start)} - seen
        if trap is Trap.GROWTH:
            found = {max(seen, key=len) + "a/"}
        assert found
        entrance = max(found)
        seen |= found
    assert WEB.links(entrance) == []
    assert get(WEB, start + "no/such/page")[0] == 404


def test_pages_have_the_sizes_and_links_of_the_web() -> None:
    """Pages have 2 to 65 KB, about 20 in the mean, and 20 to 130 links."""
    web = Web(1, plain=True)
    pages = [get(web, url)[2] for url in sorted(web.reachable())[::4]]
    sizes = [len(body) for body in pages]
    assert 2_000 < min(sizes) < 5_000
    assert 45_000 < max(sizes) < 65_000
    assert 17_000 < sum(sizes) / len(sizes) < 24_000
    links = [body.count(b"<a ") for body in pages]
    assert min(links) >= 20
    assert 100 < max(links) <= 130
    assert Web(1, 5, 100).hosts[0].size > Web(1, 5, 100).hosts[-1].size


def test_links_are_written_in_every_way() -> None:
    """Hrefs are paths, relative, whole, without scheme, dotted, shouted, with default port, padded, raw."""
    text = b"".join(get(WEB, url)[2] for url in TRUTH.pages)
    for pattern in (
        rb'"/s1/',
        rb'"\.\./',
        rb'"\./',
        rb'"http://h0',
        rb'"//h0',
        rb'"/x/\./y/\.\./\.\.',
        rb'"HTTP://H0',
        rb":80/",
        rb'"\n http',
        "žluť".encode(),
        rb"&amp;n=",
        rb"#s1",
        rb"mailto:",
        rb"javascript:",
        rb"utm_source",
        rb"\.pdf",
        rb"<base href",
    ):
        assert re.search(pattern, text), pattern


def test_pages_are_written_in_many_languages_and_charsets() -> None:
    """What a page is said to be is what its bytes decode to, wherever its charset is declared, or nowhere."""
    declared: Counter[str] = Counter()
    charsets, languages = set(), set()
    for url in TRUTH.pages:
        page = WEB.page(url)
        assert page is not None
        _, headers, body = get(WEB, url)
        text = body.decode("cp874" if page.charset == "windows-874" else page.charset)
        assert f"<title>{page.title.replace('&', '&amp;')}</title>" in text
        assert (f'content="{page.description}"' in text) or not page.description
        in_header, in_body = page.charset in headers["content-type"], f"charset={page.charset}" in text
        in_meta = f'<meta charset="{page.charset}"' in text
        assert (in_header, in_body, in_meta) == tuple(
            page.declared == way for way in ("header", "http-equiv", "meta")
        )
        said = f"{headers.get('x-robots-tag')}{text}"
        assert ("noindex" in said) == page.noindex
        declared[page.declared] += 1
        charsets.add(page.charset)
        languages.add(page.language)
    assert set(declared) == {"header", "http-equiv", "meta", ""}
    assert len(languages) >= 12
    assert len(charsets) >= 12
    assert len(CHARSETS) >= 12


@pytest.mark.parametrize("language", CHARSETS)
def test_every_charset_can_write_its_language(language: str) -> None:
    """A voice says the same in each of its language's charsets, with the words of the language."""
    voices = [voice(1, language, charset) for charset in CHARSETS[language]]
    assert len({each.phrases for each in voices}) == 1
    for each in voices:
        assert [wire.encode("latin-1").decode(each.codec) for wire in each.wire_phrases] == list(each.phrases)
        assert all(wire.encode("latin-1").decode(each.codec) for wire in each.wire_paragraphs)
        assert any(word in each.phrases[0] for word in WORDS[language])
        assert each.wire("日本" if each.charset == "utf-8" else "abc")


def test_what_is_not_there_is_not_found() -> None:
    """Numbers beyond what a host has, other spellings, and unknown hosts are errors."""
    host = WEB.hosts[0]
    wrong = [
        f"/s1/d0/p{host.size * 100}.html",
        "/s2/d0/p1.html",
        "/nothing",
        "/go/999",
        "/go/x",
        "/private/open/0.html",
        "/orphan/999.html",
        "/sitemaps/9.xml",
        "/s5/view?id=5&n=5?print=1",
        "/s5/view?id=5&n=5?utm_source=feed&utm_medium=rss",
    ]
    for target in wrong:
        assert get(WEB, WEB.origin(host) + target)[0] == 404, target
    assert WEB.respond("elsewhere.test", "/").status == 421
    assert WEB.split("http://elsewhere.test/") is None
    assert WEB.split("https://h000.test/") is None
    assert WEB.page("http://elsewhere.test/") is None
    assert WEB.page(f"{WEB.origin(host)}/robots.txt") is None
    assert WEB.links("http://elsewhere.test/") == []
    assert WEB.links(f"{WEB.origin(host)}/robots.txt") == []
    assert WEB.status("http://elsewhere.test/") == 421
    assert WEB.kind("http://elsewhere.test/") is Kind.MISSING
    assert WEB.url("elsewhere.test", "/x") == "http://elsewhere.test/x"
    assert get(WEB, f"{WEB.origin(host)}/static/app.js")[0] == 200
    assert get(WEB, f"{WEB.origin(host)}/static/style.css")[0] == 200


def test_busy_pages_work_the_second_time() -> None:
    """A busy page is refused once with Retry-After, in seconds or as a date, and then answered."""
    host = next(host for host in WEB.hosts if host.busy)
    first = WEB.respond(host.name, "/busy/0", now=1e9)
    second = WEB.respond(host.name, "/busy/1", now=1e9)
    assert (first.status, second.status) == (503, 429)
    assert dict(first.headers)["Retry-After"] == "1"
    assert dict(second.headers)["Retry-After"] == "Sun, 09 Sep 2001 01:46:41 GMT"
    assert WEB.respond(host.name, "/busy/0", asked=1).status == 200


def test_text_is_compressed_for_who_accepts_it() -> None:
    """Pages of hosts that compress come as gzip, if asked for, and are the same unpacked; files do not."""
    web = Web(3, 10, 60, gzip=1.0)
    host = web.hosts[0]
    packed = web.respond(host.name, "/", accept_encoding="br, gzip")
    assert dict(packed.headers)["Content-Encoding"] == "gzip"
    assert zlib.decompress(packed.body, 31) == web.respond(host.name, "/").body
    file = web.respond(host.name, "/files/0.pdf", accept_encoding="gzip")
    assert "Content-Encoding" not in dict(file.headers)
    assert file.body.startswith(b"%PDF")
    assert not any(host.gzip for host in Web(3, gzip=0.0).hosts)


def test_hosts_have_addresses_of_their_own_unless_told_otherwise() -> None:
    """Every host has its own loopback address; with several per address, one scheme for each address."""
    assert len({host.address for host in Web(1, 700, 3000).hosts}) == 700
    shared = Web(1, 30, 100, hosts_per_address=3, https=0.5)
    assert len({host.address for host in shared.hosts}) == 10
    assert len({(host.address, host.scheme) for host in shared.hosts}) == 10
    assert {host.scheme for host in shared.hosts} == {"http", "https"}
    assert shared.hosts_file().startswith("127.1.0.1 h000.test\n")


def test_a_web_without_slowness_has_no_delays() -> None:
    """Slowness scales delays, crawl-delays and Retry-After, and 0 switches them off."""
    slow, fast = Web(1, slowness=2.0), Web(1, slowness=0.0)
    assert any(host.delay_s for host in slow.hosts)
    assert {host.crawl_delay_s for host in slow.hosts} == {None, 1.0}
    assert not any(host.delay_s or host.crawl_delay_s for host in fast.hosts)
    delayed = next(host for host in slow.hosts if host.delay_s)
    assert slow.respond(delayed.name, "/").delay_s == delayed.delay_s
    assert (
        dict(fast.respond(next(h.name for h in fast.hosts if h.busy), "/busy/0").headers)["Retry-After"]
        == "0"
    )


def test_large_hosts_have_pages_beyond_the_paths_that_are_remembered() -> None:
    """Pages with large numbers are computed like all others."""
    web = Web(1, 1, 20_000)
    url = web.origin(web.hosts[0]) + web.path(19_999)
    _, headers, body = get(web, url)
    assert parsed_links(url, headers, body) == {canonical(each) for each in web.links(url)} - {url}


# Judging.


def request(url: str, start: float, *, status: int = 200, taken_s: float = 0.0) -> Request:
    """A line of a log."""
    at = WEB.split(url)
    assert at is not None
    return Request(start, taken_s, at[0].name, at[1], status, 100, "tester")


def perfect_log(truth: Truth) -> list[Request]:
    """The log of a perfect crawler that asks once a second, robots.txt first."""
    hosts = sorted({WEB.split(url)[0].name for url in truth.pages | truth.forbidden})  # type: ignore[index]
    asked = [WEB.url(host, "/robots.txt") for host in hosts] + sorted(truth.pages)
    return [request(url, 1000.0 + number) for number, url in enumerate(asked)]


def test_a_perfect_crawl_is_judged_perfect() -> None:
    """Everything once, nothing forbidden, nothing too close."""
    verdict = judge(perfect_log(TRUTH), WEB)
    assert verdict.coverage == 1.0
    assert verdict.pages == len(TRUTH.pages)
    assert not verdict.missing
    assert verdict.duplicates == 0
    assert not verdict.forbidden
    assert not verdict.unannounced
    assert not verdict.impolite(1.0)
    assert set(verdict.most_at_once.values()) == {1}
    assert verdict.agents == {"tester"}
    assert verdict.statuses == {200: verdict.requests}


def test_every_sin_is_seen() -> None:
    """Duplicates, forbidden and hidden pages, traps, hurry, overlap and what is missing are all told."""
    log = perfect_log(TRUTH)
    host = WEB.hosts[0]
    busy = next(url for url in sorted(TRUTH.pages) if "/busy/" in url)
    trap = min(TRUTH.traps)
    forbidden = min(url for url in TRUTH.forbidden if "/private/" in url)
    page = min(TRUTH.pages)
    file = min(TRUTH.files)
    log = [each for each in log if WEB.url(each.host, each.target) != WEB.url(host.name, "/robots.txt")]
    log += [
        request(page, 5000.0, taken_s=2.0),
        request(page, 5000.5),
        request(forbidden, 6000.0),
        request(WEB.url(host.name, "/hidden/0.html"), 6001.0),
        request(trap, 6002.0),
        request(file, 6003.0),
        request(busy, 7000.0, status=503),
        request(busy, 7000.2),
        request(page, 8000.0, status=CUT_OFF),
        Request(9000.0, 0.0, "elsewhere.test", "/", 421, 0, "other"),
    ]
    last = max(TRUTH.pages)
    verdict = judge([each for each in log if WEB.url(each.host, each.target) != last], WEB)
    assert verdict.missing == {last}
    assert verdict.coverage < 1.0
    assert verdict.repeated == {page: 2, busy: 1}
    assert verdict.duplicates == 3
    assert verdict.forbidden == {forbidden: 1}
    assert verdict.hidden == {WEB.url(host.name, "/hidden/0.html")}
    assert verdict.trapped == {trap: 1}
    assert verdict.files == 1
    assert verdict.hurried == {busy: pytest.approx(0.2)}
    assert host.name in verdict.unannounced
    name = WEB.split(page)[0].name  # type: ignore[index]
    assert verdict.closest_s[name] == pytest.approx(0.5)
    assert name in verdict.impolite(0.6)
    assert name not in verdict.impolite(0.4)
    assert verdict.most_at_once[name] == 2
    assert verdict.span_s == pytest.approx(9000.0 - min(each.start for each in log))


def test_a_crawl_delay_counts_as_the_least_distance() -> None:
    """A host that asked for a longer delay is judged by its own."""
    host = next(host for host in WEB.hosts if host.crawl_delay_s)
    urls = [WEB.url(host.name, target) for target in ("/robots.txt", "/")]
    verdict = judge([request(url, 1000 + n * 0.4) for n, url in enumerate(urls)], WEB)
    assert set(verdict.impolite(0.1)) == {host.name}


def test_no_log_is_no_crawl(tmp_path: Path) -> None:
    """An empty log gives a verdict too, and a line that is still being written is left out."""
    log = tmp_path / "log"
    log.write_text("")
    assert judge(log, WEB) == judge([], WEB)
    assert judge(log, WEB).span_s == 0.0
    whole = request(min(TRUTH.pages), 1000.0)
    log.write_text(whole.line() + "1000.5 0.1 h000.test")
    assert list(read_log(log)) == [whole]
    log.write_text(whole.line() + whole.line().rstrip("\n"))
    assert list(read_log(log)) == [whole]


# Serving.


async def fetch_all(served: webserver.Served, urls: Iterable[str]) -> dict[str, httpx.Response]:
    """Fetch URLs with httpx, each from the address of its host."""
    found = {}
    async with httpx.AsyncClient() as client:
        for url in urls:
            at = served.web.split(url)
            assert at is not None
            where = f"http://{at[0].address}:{served.web.port}{at[1]}"
            found[url] = await client.get(where, headers={"Host": at[0].name, "Connection": "keep-alive"})
    return found


async def test_what_is_served_is_what_the_web_says(tmp_path: Path) -> None:
    """Over HTTP, with every framing and coding, the bodies are the same, and the log tells all of it."""
    web = Web(3, 24, 80, slowness=0.01)
    async with webserver.serve(web, tmp_path) as served:
        assert served.web.port
        pages = sorted(served.web.reachable())
        hosts = [served.web.url(host.name, "/robots.txt") for host in web.hosts]
        found = await fetch_all(served, [*hosts, *pages, *pages])
        served.flush()
        for url in pages:
            assert found[url].content == get(served.web, url)[2]
            assert found[url].status_code == 200
        verdict = judge(served.log, served.web)
        assert served.connections < served.requests
    assert {host.framing for host in web.hosts} == set(Framing)
    assert (verdict.coverage, verdict.missing) == (1.0, frozenset())
    assert verdict.duplicates + sum("/busy/" in url for url in pages) == len(pages)
    assert set(verdict.most_at_once.values()) == {1}
    assert verdict.requests == 2 * len(pages) + len(hosts)
    assert tmp_path.joinpath("hosts").read_text() == web.hosts_file()


async def raw(served: webserver.Served, data: bytes, *, host: int = 0) -> bytes:
    """What a host sends back, until it closes."""
    async with await trio.open_tcp_stream(served.web.hosts[host].address, served.web.port or 0) as stream:
        await stream.send_all(data)
        return b"".join([part async for part in stream])


async def test_the_server_speaks_enough_http(tmp_path: Path) -> None:
    """HEAD has no body, other methods are refused, HTTP/1.0 closes, and pipelined requests are answered."""
    web = Web(3, 24, 80, slowness=0.0)
    async with webserver.serve(web, tmp_path) as served:
        close = b"Host: h000.test\r\nConnection: close\r\n\r\n"
        headed = await raw(served, b"HEAD / HTTP/1.1\r\n" + close)
        assert headed.endswith(b"\r\n\r\n")
        assert b"Content-Length: " in headed
        assert (await raw(served, b"POST / HTTP/1.1\r\n" + close)).startswith(b"HTTP/1.1 405 ")
        assert b"Connection: close" in await raw(served, b"GET / HTTP/1.0\r\nHost: H000.test:80\r\n\r\n")
        both = b"GET /robots.txt HTTP/1.1\r\nHost: h000.test\r\n\r\nGET /nothing HTTP/1.1\r\n" + close
        answers = await raw(served, both)
        assert (answers.count(b"HTTP/1.1 200 OK"), answers.count(b"HTTP/1.1 404 ")) == (1, 1)
        assert (await raw(served, b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")).startswith(
            b"HTTP/1.1 421 "
        )
        with contextlib.suppress(trio.BrokenResourceError):
            assert await raw(served, b"x" * 100_000) == b""
        chunked = next(host for host in web.hosts if host.framing is Framing.CHUNKED)
        head = f"HEAD / HTTP/1.1\r\nHost: {chunked.name}\r\nConnection: close\r\n\r\n".encode()
        assert (await raw(served, head, host=chunked.index)).endswith(b"chunked\r\nConnection: close\r\n\r\n")


async def test_some_hosts_end_connections_after_a_few_requests(tmp_path: Path) -> None:
    """A host with a limit answers so many requests on a connection, and says when it closes."""
    web = Web(3, 24, 80, slowness=0.0)
    host = next(h for h in web.hosts if h.requests_per_connection and h.framing is Framing.LENGTH)
    async with webserver.serve(web, tmp_path) as served:
        ask = f"GET /nothing HTTP/1.1\r\nHost: {host.name}\r\n\r\n".encode()
        answers = await raw(served, ask * 9, host=host.index)
    assert answers.count(b"HTTP/1.1 404 ") == host.requests_per_connection
    assert answers.count(b"Connection: close") == 1


async def test_a_client_that_has_gone_is_logged_as_cut_off(tmp_path: Path) -> None:
    """Who hangs up before the answer is sent appears in the log with a status of its own."""
    web = Web(3, 24, 80, slowness=1.0)
    slow = next(host for host in web.hosts if host.delay_s)
    async with webserver.serve(web, tmp_path) as served:
        stream = await trio.open_tcp_stream(slow.address, served.web.port or 0)
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await stream.send_all(f"GET / HTTP/1.1\r\nHost: {slow.name}\r\n\r\n".encode())
        # What a connection brings is read at once, and answered after the delay.
        await trio.testing.wait_all_tasks_blocked(0.05)
        await stream.aclose()
        await trio.sleep(2 * slow.delay_s)
    (line,) = read_log(tmp_path / "access.log")
    assert (line.status, line.size_bytes) == (CUT_OFF, 0)


async def test_hosts_can_be_served_over_tls(tmp_path: Path) -> None:
    """With a certificate, https hosts answer over TLS; without one, they are refused."""
    web = Web(3, 4, 20, https=1.0, plain=True)
    with pytest.raises(ValueError, match="a certificate is needed"):
        async with webserver.serve(web, tmp_path):
            pass
    authority = trustme.CA()
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("h000.test").configure_cert(theirs)
    ours = ssl.create_default_context()
    authority.configure_trust(ours)
    async with webserver.serve(web, tmp_path, tls=theirs) as served:
        assert served.web.seeds == (f"https://h000.test:{served.web.port}/",)
        plain = await trio.open_tcp_stream(web.hosts[0].address, served.web.port or 0)
        async with trio.SSLStream(plain, ours, server_hostname="h000.test", https_compatible=True) as stream:
            await stream.send_all(b"GET / HTTP/1.1\r\nHost: h000.test\r\nConnection: close\r\n\r\n")
            received = b"".join([part async for part in stream])
        assert await raw(served, b"this is not TLS\r\n\r\n") != b"HTTP"
    assert received.startswith(b"HTTP/1.1 200 OK")


async def test_a_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    """A given port that is not free at every address is refused, and nothing stays open."""
    web = Web(3, 4, 20, plain=True)
    taken = (await trio.open_tcp_listeners(0, host=web.hosts[2].address))[0]
    async with taken:
        port = taken.socket.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            async with webserver.serve(web, tmp_path, port=port):
                pass
    async with webserver.serve(web, tmp_path, port=port) as served:
        assert served.web.port == port


def test_the_server_needs_no_directory() -> None:
    """Without a directory the command makes one for itself, and removes it when it ends."""
    command = [sys.executable, "-m", "gcs.simulate.webserver", "--hosts", "3", "--pages", "9"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as server:
        assert server.stdout is not None
        log = Path(json.loads(server.stdout.readline())["log"])
        assert log.exists()
        server.send_signal(signal.SIGINT)
        assert server.wait(60) == 0
    assert not log.parent.exists()


async def test_a_free_port_is_free_at_all_addresses(tmp_path: Path) -> None:
    """Two servers of webs at the same addresses find ports of their own."""
    web = Web(3, 4, 20, plain=True)
    async with webserver.serve(web, tmp_path) as one, webserver.serve(web, tmp_path) as two:
        assert one.web.port != two.web.port


def test_the_server_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    """The command says where everything is, serves, and ends with a whole log when it is told to."""
    command = [sys.executable, "-m", "gcs.simulate.webserver", "--hosts", "3", "--pages", "9"]
    command += ["--into", str(tmp_path / "web"), "--plain"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as server:
        assert server.stdout is not None
        said = json.loads(server.stdout.readline())
        with socket.create_connection(("127.1.0.1", said["port"])) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: h000.test\r\nUser-Agent: me, too\r\n\r\n")
            assert client.recv(15) == b"HTTP/1.1 200 OK"
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
    (line,) = read_log(Path(said["log"]))
    assert (line.host, line.target, line.status, line.agent) == ("h000.test", "/", 200, "me, too")
    assert said["seeds"] == [f"http://h000.test:{said['port']}/"]
    assert Path(said["hosts"]).read_text().count("\n") == 3


# The benchmark.


def test_the_benchmark_measures_a_peer_against_itself() -> None:
    """The peer, put in the crawler's place, covers the plain web without a duplicate, over TLS too."""
    peer = f"{sys.executable} -m benchmarks.handroll {{seed}} --hosts {{hosts}} --ca {{ca}} --gzip"
    command = [sys.executable, "-m", "benchmarks.crawl", "--quick", "--json", "--tls", "--gzip"]
    command += ["--server", "python", "--crawler", peer]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    said = json.loads(done.stdout)
    assert [each["who"] for each in said["runs"]] == ["crawler", "peer"]
    for each in said["runs"]:
        assert (each["exit"], each["coverage"], each["duplicates"], each["forbidden"]) == (0, 1.0, 0, 0)
        assert each["cpu_s"] > 0
        assert each["memory_mb"] > 0
    assert said["ratio"]["pages_per_cpu_s"] > 0


def test_a_plain_web_can_be_written_to_disk(tmp_path: Path) -> None:
    """Every page has its file, every redirect its line, every address is listened at."""
    web = Web(3, 5, 60, plain=True, port=8098)
    crawl.render(web, tmp_path)
    for host in web.hosts:
        for number in range(host.size):
            name = web.path(number)[1:]
            file = httpx.URL(f"http://x/{name}").path[1:] + (
                "?" + name.partition("?")[2] if "?" in name else ""
            )
            path = (
                tmp_path / "web" / host.name / (file + "index.html" if not file or file[-1] == "/" else file)
            )
            assert path.read_bytes() == web.respond(host.name, f"/{name}").body
    assert tmp_path.joinpath("listen.conf").read_text().count("listen 127.1.0.") == 5
    where = tmp_path.joinpath("where.conf").read_text()
    assert where.count("\n") == sum(host.extras for host in web.hosts)


def test_verdicts_and_kinds_are_part_of_the_interface() -> None:
    """What tests of crawlers import is where they look for it."""
    assert isinstance(judge([], WEB), Verdict)
    assert {host.sitemap for host in WEB.hosts} == set(Sitemap)
