"""The hostile web does to a plain socket what it says, and its expectations hold for the transport."""

from __future__ import annotations

import re
import zlib
from ipaddress import ip_address
from pathlib import Path

import ada_url
import brotli
import pytest
import trio
import zstandard

from gcs import config
from gcs.core.urls import Rejected, canonical
from gcs.fetch.outcome import Failure, Origin, Response
from gcs.fetch.transport import Transport
from tests import hostile
from tests.hostile import CASES, DOMAIN, MALFORMED, NETWORK, Case, Hostile

MIB = 1 << 20
QUIET_S = 0.3
SAMPLE = 200_000


async def ask(server: Hostile, host: str, target: str = "/", *, most: int = SAMPLE) -> bytes:
    """What a host sends until it closes, falls silent, is reset, or has sent enough."""
    address = hostile.addresses()[f"{host}.{DOMAIN}"]
    received = b""
    async with await trio.open_tcp_stream(address, server.port) as stream:
        head = f"GET {target} HTTP/1.1\r\nHost: {host}.{DOMAIN}:{server.port}\r\n\r\n"
        await stream.send_all(head.encode())
        with trio.move_on_after(QUIET_S) as quiet:
            try:
                while len(received) < most and (part := await stream.receive_some(MIB)):
                    received += part
                    quiet.deadline = trio.current_time() + QUIET_S
            except trio.BrokenResourceError:
                received += b"RESET"
        return received + b"SILENCE" if quiet.cancelled_caught else received


async def test_every_case_is_served_at_an_address_of_its_own(tmp_path: Path) -> None:
    """Each case has a host, an address that the guard can be told to allow, and does something."""
    async with hostile.serve(tmp_path) as server:
        seeds = server.nasty_seeds()
        assert len(seeds) == len(CASES) > 100
        answers: dict[str, bytes] = {}

        async def sample(case: Case) -> None:
            answers[case.name] = await ask(server, case.name, case.path, most=2000)

        async with trio.open_nursery() as nursery:
            for each in seeds.values():
                nursery.start_soon(sample, each)
        assert set(answers) == set(CASES)
        assert all(server.requests[case.host] == [case.path] for case in seeds.values())
        text = server.hosts.read_text()
    for name, address in hostile.addresses().items():
        assert f"{address} {name}\n" in text
    silent = {name for name, answer in answers.items() if answer == b"SILENCE"}
    assert silent == {"never-answers"}
    assert {name for name, answer in answers.items() if answer.endswith(b"RESET")} >= {"resets-at-once"}
    assert [name for name, answer in answers.items() if not answer] == ["closes-at-once"]


async def test_the_good_site_answers_all_its_pages_on_one_connection(tmp_path: Path) -> None:
    """All pages of the good site are linked from its first, kept alive, and one part is forbidden."""
    async with hostile.serve(tmp_path) as server:
        assert len(server.good_pages) == hostile.GOOD_PAGES
        targets = ["/" + url.removeprefix(server.good_seed) for url in sorted(server.good_pages)]
        more = f" HTTP/1.1\r\nHost: good.{DOMAIN}\r\n\r\nGET ".join(targets)
        answers = await ask(server, "good", more)
        assert answers.count(b"HTTP/1.1 200 OK") == hostile.GOOD_PAGES
        hrefs = set(re.findall('href="(.*?)"', answers.decode()))
        found = {ada_url.join_url(server.good_seed, href) for href in hrefs}
        assert found - server.good_pages == {f"{server.good_seed}never/x.html"}
        assert server.good_pages <= found
        assert b"Disallow: /never/" in await ask(server, "good", "/robots.txt")
        assert b" 404 " in await ask(server, "good", "/p999.html")
        assert b" 404 " in await ask(server, "good", "/nothing")


async def test_whoever_goes_where_nobody_is_allowed_is_counted(tmp_path: Path) -> None:
    """A connection to the fortress is a trespass, and the redirects that lead there name its port."""
    async with hostile.serve(tmp_path) as server:
        answer = await ask(server, "redirect-to-loopback")
        assert f"Location: http://127.0.0.1:{server.fortress}/\r\n".encode() in answer
        assert server.trespasses == 0
        async with await trio.open_tcp_stream("127.0.0.1", server.fortress) as stream:
            assert await stream.receive_some() == b""
        assert server.trespasses == 1
        inside = hostile.addresses()[f"inside.{DOMAIN}"]
        assert inside == "127.0.0.1"


async def test_redirects_are_endless_or_go_in_circles(tmp_path: Path) -> None:
    """Following them leads to ever new URLs, or back."""
    async with hostile.serve(tmp_path) as server:
        assert b"Location: /8\r\n" in await ask(server, "endless-redirects", "/7")
        circle = [await ask(server, "redirect-circle", target) for target in ("/a", "/b", "/c")]
        assert [re.findall(rb"Location: (\S+)", each) for each in circle] == [[b"/b"], [b"/c"], [b"/a"]]
        assert b"Location: /x/deeper/\r\n" in await ask(server, "growing-redirects", "/x/")
        assert b"Location: /a\rX-Injected" in await ask(server, "redirect-with-bare-cr")


@pytest.mark.parametrize(
    "name", ["endless-pages", "calendar", "calendar-by-query", "growing-paths", "sessions", "mirror"]
)
async def test_endless_sites_lead_on(tmp_path: Path, name: str) -> None:
    """Every page of an endless site leads to one that was not seen before."""
    async with hostile.serve(tmp_path) as server:
        url, seen = f"http://{name}{CASES[name].path}", set()
        for _ in range(10):
            seen.add(url)
            target = "/" + url.split("/", 3)[3]
            links = re.findall('href="(.*?)"', (await ask(server, name, target)).decode())
            found = [ada_url.join_url(url, href.replace("&amp;", "&")) for href in links]
            url = next(each for each in reversed(found) if each not in seen)
        assert len(seen) == 10


@pytest.mark.parametrize("total", [3 * MIB, 64 * MIB])
def test_bombs_are_sound_until_their_end(total: int) -> None:
    """Each bomb decodes, with the real decoders, to as many zeros as it was to have."""
    wanted = total // (8 * MIB) * 8 * MIB
    packed = zlib.decompressobj(31).decompress(b"".join(hostile.gzip_bomb(total)))
    deflated = zlib.decompressobj(15).decompress(b"".join(hostile.gzip_bomb(total, wrapper=15)))
    assert (len(packed), len(deflated)) == (wanted, wanted)
    assert len(brotli.decompress(b"".join(hostile.brotli_bomb(total)))) == total
    zstd = zstandard.ZstdDecompressor().decompressobj()
    assert len(zstd.decompress(b"".join(hostile.zstd_bomb(total)))) == total


async def test_bombs_of_ten_gigabytes_are_sent_as_they_are_read(tmp_path: Path) -> None:
    """A bomb is a few megabytes on the wire, and its first part already unpacks to much."""
    assert sum(map(len, hostile.gzip_bomb())) < 12 * MIB
    assert sum(map(len, hostile.zstd_bomb())) < MIB
    async with hostile.serve(tmp_path) as server:
        answer = await ask(server, "bomb-gzip")
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b"Content-Encoding: gzip" in head
        assert len(unpacked(body)) > 100 * len(body)
        nested = (await ask(server, "bomb-gzip-in-gzip", most=20_000)).partition(b"\r\n\r\n")[2]
        assert len(unpacked(unpacked(nested))) > 100 * len(nested)


def unpacked(data: bytes) -> bytes:
    """What gzip makes of the beginning of a stream, as far as is safe."""
    return zlib.decompressobj(31).decompress(data, 32 * MIB)


async def test_what_does_not_end_does_not_end(tmp_path: Path) -> None:
    """Bodies, chunks, trailers and headers without end send as much as is read."""
    async with hostile.serve(tmp_path) as server:
        for name in (
            "endless-body",
            "endless-chunks",
            "endless-trailer",
            "header-without-end",
            "huge-length",
        ):
            assert len(await ask(server, name, most=2 * MIB)) >= 2 * MIB
        assert len(await ask(server, "status-without-end", most=MIB)) >= MIB
        assert (await ask(server, "robots-endless", "/robots.txt")).startswith(b"HTTP/1.1 200 OK")
        assert len(await ask(server, "sitemap-endless", "/map.xml", most=MIB)) >= MIB
        assert (await ask(server, "endless-continue", most=100)).count(b"100 Continue") >= 2


async def test_slow_hosts_send_a_byte_and_then_wait(tmp_path: Path) -> None:
    """What drips sends a single byte at a time."""
    async with hostile.serve(tmp_path) as server:
        assert await ask(server, "slow-header") == b"HSILENCE"
        assert (await ask(server, "one-byte-a-second")).endswith(b"\r\n\r\n\x00SILENCE")
        assert (await ask(server, "slow-chunks")).endswith(b"\r\n\r\n1\r\nx\r\nSILENCE")
        assert (await ask(server, "stops-in-the-middle")).endswith(b"halfSILENCE")
        assert (await ask(server, "robots-slow", "/robots.txt")).endswith(b"USILENCE")
        assert await ask(server, "robots-never", "/robots.txt") == b"SILENCE"


async def test_connections_are_reset(tmp_path: Path) -> None:
    """Resets reach the client as resets, at once, in the header or in the body."""
    async with hostile.serve(tmp_path) as server:
        assert await ask(server, "resets-at-once") == b"RESET"
        assert (await ask(server, "resets-in-header")).endswith(b"Content-LeRESET")
        assert (await ask(server, "resets-in-body")).endswith(b"xRESET")


async def test_every_malformed_document_is_served_as_it_is(tmp_path: Path) -> None:
    """The first page names all of them, and each comes byte by byte as it was written."""
    async with hostile.serve(tmp_path) as server:
        index = await ask(server, "malformed")
        assert index.count(b"<a href=") == len(MALFORMED)
        for number, document in enumerate(MALFORMED):
            answer = await ask(server, "malformed", f"/{number}", most=4 * MIB)
            assert answer.partition(b"\r\n\r\n")[2] == document
        assert b" 404 " in await ask(server, "malformed", f"/{len(MALFORMED)}")
        many = await ask(server, "links-by-the-hundred-thousand", most=8 * MIB)
        assert many.count(b"<a href=") == 200_000
        assert b" 404 " in await ask(server, "links-by-the-hundred-thousand", "/1")


async def test_robots_and_sitemaps_are_nasty_and_their_sites_are_not(tmp_path: Path) -> None:
    """The site beside a nasty robots.txt or sitemap is one good page."""
    async with hostile.serve(tmp_path) as server:
        for case in CASES.values():
            if case.own_robots:
                assert b"<title>A page</title>" in await ask(server, case.name)
        for name in ("bomb", "circle", "elsewhere", "entities", "broken"):
            robots = await ask(server, f"sitemap-{name}", "/robots.txt")
            assert f"Sitemap: http://sitemap-{name}.{DOMAIN}:{server.port}/map.xml".encode() in robots
            assert (await ask(server, f"sitemap-{name}", "/map.xml")).startswith(b"HTTP/1.1 200 OK")
        assert b"Location: /other.txt" in await ask(server, "robots-circle", "/robots.txt")
        assert b"Location: /robots.txt\r\n" in await ask(server, "robots-circle", "/other.txt")
        assert b"/robots.txtx\r\n" in await ask(server, "robots-endless-redirects", "/robots.txt")
        assert str(server.fortress).encode() in await ask(server, "robots-inside", "/robots.txt")
        assert b"\r\n\r\n" in await ask(server, "robots-bomb", "/robots.txt")
        for name in ("one-line", "binary", "wildcards", "crawl-delay-of-years"):
            assert (await ask(server, f"robots-{name}", "/robots.txt", most=2 * MIB)).startswith(
                b"HTTP/1.1 200"
            )
        assert b" 404 " in await ask(server, "calendar", "/robots.txt")
        assert b"/calendar/1999/12/" in await ask(server, "calendar", "/calendar/")


async def test_odd_clients_do_not_disturb_the_server(tmp_path: Path) -> None:
    """Who says nothing, too much, or an unknown host is answered or dropped, and the rest goes on."""
    async with hostile.serve(tmp_path) as server:
        address = hostile.addresses()[f"good.{DOMAIN}"]
        for data in (b"", b"x" * 200_000, b"GET / HTTP/1.1\r\n\r\n"):
            async with await trio.open_tcp_stream(address, server.port) as stream:
                await stream.send_all(data)
        assert b"Good page 0" in await ask(server, "good")


def test_all_hosts_are_where_tests_allow_them() -> None:
    """Every address is within the network that tests allow, except the one where nobody may go."""
    for name, address in hostile.addresses().items():
        assert (ip_address(address) in NETWORK) == (name != f"inside.{DOMAIN}")


async def test_rebinding_names_change_their_answer(tmp_path: Path) -> None:
    """The first answer is harmless, all later ones are not, and nothing is remembered."""
    names = hostile.Rebinding("127.66.0.1")
    assert [await names.lookup("x.test") for _ in range(3)] == [
        ("127.66.0.1",),
        ("127.0.0.1",),
        ("127.0.0.1",),
    ]


async def test_rebinding_does_not_get_behind_the_guard(tmp_path: Path) -> None:
    """A name that is looked up anew and leads inside is refused when connecting."""
    async with hostile.serve(tmp_path) as server:
        settings = config.Fetch(allow=(NETWORK,), idle_timeout_s=0.0)
        async with Transport(settings, names=hostile.Rebinding(str(NETWORK[1]))) as transport:
            outcomes = [
                await transport.fetch(Origin("http", f"good.{DOMAIN}", port), "/robots.txt")
                for port in (server.port, server.fortress)
            ]
        assert isinstance(outcomes[0], Response)
        assert isinstance(outcomes[1], Failure)
        assert outcomes[1].reason == "address"
        assert server.trespasses == 0


async def followed(transport: Transport, url: str) -> str:
    """How asking for a URL ends, following a few redirects; in the words of the cases."""
    for _ in range(4):
        outcome = await transport.fetch(*Origin.split(url))
        if isinstance(outcome, Failure):
            return outcome.reason.value
        if outcome.status not in {301, 302, 307} or not outcome.headers.get("location"):
            if outcome.status == 200:
                return "truncated" if outcome.truncated else "page"
            return "status"
        try:
            url = canonical(ada_url.join_url(url, outcome.headers["location"]))
        except (Rejected, ValueError):
            return "rejected"
        if not url.startswith("http"):
            return "rejected"  # as a crawl does: web pages lead to no source
    return "redirects"


async def test_the_transport_ends_every_case_as_expected(tmp_path: Path) -> None:
    """Asked for all at once, each case ends as it may, nobody trespasses, and the good site is not harmed."""
    ends: dict[str, str] = {}
    async with hostile.serve(tmp_path) as server:
        settings = config.Fetch(
            allow=(NETWORK,), hosts=server.hosts, timeout_s=3.0, max_body_bytes=4 * MIB, concurrency=200
        )
        async with Transport(settings, slow_window_s=1.0) as transport:

            async def end(url: str, case: Case) -> None:
                ends[case.name] = await followed(transport, canonical(url))

            async with trio.open_nursery() as nursery:
                for url, case in server.nasty_seeds().items():
                    nursery.start_soon(end, url, case)
                for url in server.good_pages:
                    outcome = await transport.fetch(*Origin.split(url))
                    assert isinstance(outcome, Response)
                    assert outcome.status == 200
        assert server.trespasses == 0
    # An endless site is page after page to a transport; that it is endless, others find out.
    wrong = {
        name: how
        for name, how in ends.items()
        if how not in CASES[name].ends and not (how == "page" and "trap" in CASES[name].ends)
    }
    assert not wrong
    assert len(ends) == len(CASES)
