"""Robots: what RFC 9309 says about files, answers and times; what pages say about themselves."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from gcs.core import robots, urls
from gcs.core.robots import Rule, Rules, Standing
from gcs.fetch.outcome import Failure, Origin, Outcome, Reason, Response
from gcs.fetch.robots import RobotsCache
from tests.scripted import asked, ok, replies

DAY_S = 86_400.0
AGENT = "ExampleBot/2.1 (+http://crawler.example/about)"

# The example of RFC 9309, section 5.1.
SIMPLE = """\
User-Agent: *
Disallow: *.gif$
Disallow: /example/
Allow: /publications/

User-Agent: foobot
Disallow:/
Allow:/example/page.html
Allow:/example/allowed.gif

User-Agent: barbot
User-Agent: bazbot
Disallow: /example/page.html

User-Agent: quxbot

EOF
"""


def rules(text: str | bytes, agent: str = AGENT) -> Rules:
    """The rules of a file for an agent."""
    return robots.read(text.encode() if isinstance(text, str) else text, agent=agent, now=0.0)


def allowed(text: str | bytes, target: str, agent: str = AGENT) -> bool:
    """Whether a file lets an agent ask for something."""
    return rules(text, agent).allowed(target)


@pytest.mark.parametrize(
    ("agent", "target", "expected"),
    [
        ("other", "/", True),
        ("other", "/a.gif", False),
        ("other", "/a.gif?x", True),
        ("other", "/example/a", False),
        ("other", "/publications/x", True),
        ("other", "/publications/x.gif", True),
        ("foobot", "/", False),
        ("foobot", "/example/page.html", True),
        ("foobot", "/example/allowed.gif", True),
        ("foobot", "/publications/", False),
        ("barbot", "/example/page.html", False),
        ("barbot", "/example/other.html", True),
        ("BazBot/1.0", "/example/page.html", False),
        ("quxbot", "/example/page.html", True),
        ("quxbot", "/a.gif", True),
    ],
)
def test_the_simple_example(agent: str, target: str, expected: bool) -> None:
    """The simple example of RFC 9309 reads as the text beside it says."""
    assert allowed(SIMPLE, target, agent) is expected


def test_the_longest_match() -> None:
    """The example of section 5.2 forbids the one page below a directory that is allowed."""
    text = (
        "User-Agent: foobot\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif\nDisallow: /x\n"
        "Allow: /x/y\nDisallow: /x/y/z"
    )
    assert allowed(text, "/example/page/", "foobot")
    assert not allowed(text, "/example/page/disallowed.gif", "foobot")
    assert not allowed(text, "/x/a", "foobot")
    assert allowed(text, "/x/y/a", "foobot")
    assert not allowed(text, "/x/y/z/a", "foobot")


@pytest.mark.parametrize(
    ("pattern", "target", "matches"),
    [
        # The special characters of section 2.2.3.
        ("/path/file-with-a-%2A.html", "/path/file-with-a-*.html", True),
        ("/path/file-with-a-%2A.html", "/path/file-with-a-x.html", False),
        ("/path/foo-%24", "/path/foo-$", True),
        ("/path/foo-%24", "/path/foo-$bar", True),
        ("/path/foo-%24", "/path/foo-", False),
        ("/this/*/exactly", "/this/path/exactly", True),
        ("/this/*/exactly", "/this/exactly", False),
        ("/this/path/exactly$", "/this/path/exactly", True),
        ("/this/path/exactly$", "/this/path/exactly/not", False),
        ("/this/path/exactly$", "/this/path", False),
        ("/a$b", "/a$b", True),
        ("/a$b", "/a", False),
        ("/fish*", "/fish.html", True),
        ("/fish*", "/Fish.html", False),
        ("/fish*$", "/fish.html", True),
        ("/*.php", "/folder/any.php.file.html?x", True),
        ("/*.php$", "/filename.php/", False),
        ("/*.php$", "/a.php.php", True),
        ("/a*b*c$", "/abc", True),
        ("/a*b*c$", "/acb", False),
        ("/ab*ba$", "/aba", False),
        ("/a*bcd", "/bcd", False),
        ("/**a", "/xa", True),
        ("*", "/anything", True),
        ("a", "/a", False),
        ("/", "/", True),
        # The percent-encoding of section 2.2.2, and its table.
        ("/foo/bar?baz=quz", "/foo/bar?baz=quz", True),
        ("/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https%3A%2F%2Ffoo.bar", True),
        ("/foo/bar?baz=https%3a%2f%2Ffoo.bar", "/foo/bar?baz=https://foo.bar", True),
        ("/foo/bar/ツ", "/foo/bar/%E3%83%84", True),
        ("/foo/bar/%E3%83%84", "/foo/bar/ツ", True),
        ("/foo/bar/%E3%83%84", "/foo/bar/%e3%83%84", True),
        ("/foo/bar/%62%61%7A", "/foo/bar/baz", True),
        ("/foo/bar/baz", "/foo/bar/%62%61%7a", True),
        ("/a%2Fb", "/a/b", False),
        ("/a b", "/a%20b", True),
        ("/a{b|c}", "/a%7Bb|c%7D", True),
        ("/a?q='x", "/a?q=%27x", True),
        ("/100%", "/100%25", True),
    ],
)
def test_patterns(pattern: str, target: str, matches: bool) -> None:
    """Patterns match as sections 2.2.2 and 2.2.3 say, alone and among many."""
    others = "".join(f"Disallow: /other/*/{n}\n" for n in range(8))
    assert allowed(f"User-agent: *\nDisallow: {pattern}\n", target) is not matches
    assert allowed(f"User-agent: *\n{others}Disallow: {pattern}\n", target) is not matches


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["Allow: /p", "Disallow: /"], True),
        (["Allow: /folder", "Disallow: /folder"], True),
        (["Allow: /page", "Disallow: /*.htm"], False),
        (["Allow: /page", "Disallow: /*.ph"], True),
        (["Allow: /$", "Disallow: /"], False),
        (["Allow: /page.htm$", "Disallow: /page.htm"], True),
        (["Disallow: /page.htm$", "Allow: /page.htm"], False),
        (["Disallow: /page.htm$", "Allow: /*page.htm"], True),
        (["Disallow: /page", "Allow: /pag*"], True),
        (["Disallow: /*page", "Allow: /page."], True),
        (["Disallow:"], True),
    ],
)
def test_precedence(lines: list[str], expected: bool) -> None:
    """The longest rule decides, of two equally long ones that which allows, in whatever order they stand."""
    target = "/folder/x" if any("folder" in line for line in lines) else "/page.htm"
    for order in (lines, lines[::-1]):
        assert allowed("User-agent: *\n" + "\n".join(order), target) is expected


@pytest.mark.parametrize(
    ("text", "agent", "target", "expected"),
    [
        ("User-agent: a\nDisallow: /x\n\nUser-agent: a\nDisallow: /y", "a", "/x", False),
        ("User-agent: a\nDisallow: /x\nUser-agent: b\nAllow: /y\nUser-agent: a\nAllow: /", "a", "/x", False),
        ("User-agent: a\nDisallow: /x\nUser-agent: b\nDisallow: /\nUser-agent: a\nAllow: /", "a", "/z", True),
        ("User-agent: *\nDisallow: /x\nUser-agent: *\nDisallow: /y", "a", "/y", False),
        ("User-agent: a\nUser-agent: b\nUser-agent: *\nDisallow: /x", "b", "/x", False),
        ("User-agent: *\nDisallow: /\nUser-agent: a\nDisallow:", "a", "/x", True),
        ("User-agent: a\nAllow: /\nUser-agent: *\nDisallow: /x", "A/1.0 (x)", "/x", True),
        ("USER-AGENT: a\ndisALLOW: /x", "a", "/x", False),
        ("User-agent: foo\nDisallow: /\nUser-agent: *\nAllow: /", "foobar/1.0", "/x", True),
        ("User-agent: foo\nDisallow: /", "foo-news", "/x", True),
        ("User-agent: foo/1.2\nDisallow: /", "foo", "/x", False),
        ("User-agent: foo bar\nDisallow: /", "foo", "/x", False),
        ("User-agent: b\nCrawl-delay: 1\nUser-agent: a\nDisallow: /x", "b", "/x", False),
        ("User-agent: b\nSitemap: http://h/\nUser-agent: a\nDisallow: /x", "b", "/x", False),
        ("User-agent: b\nUnknown: 1\n\n\nDisallow: /x", "b", "/x", False),
        ("Disallow: /\nUser-agent: *\nAllow: /x", "a", "/y", True),
        ("Disallow: /", "a", "/y", True),
        ("User-agent: *\rDisallow: /x\r\rDisallow: /y\r\n", "a", "/y", False),
        ("User-agent: * # all\n Disallow : /x # not this", "a", "/x", False),
        ("User-agent: *\nDisallow: /x#y", "a", "/x", False),
        ("User-agent: * everybody\nDisallow: /x", "a", "/x", False),
        ("User-agent: *bot\nDisallow: /x", "a", "/x", True),
        ("User-agent: *\nDissallow: /x", "a", "/x", False),
        ("User-agent: *\nDisallow: /robots.txt\nDisallow: /", "a", "/robots.txt", True),
        ("\ufeffUser-agent: *\nDisallow: /x", "a", "/x", False),
        ("User-agent: a\nDisallow: /", "", "/x", True),
        ("<html><body>not found</body></html>", "a", "/x", True),
        ("", "a", "/x", True),
    ],
)  # fmt: skip
def test_groups_and_lines(text: str, agent: str, target: str, expected: bool) -> None:
    """Groups of one agent are merged, agents compared by product token, and odd lines disturb nothing."""
    assert allowed(text, target, agent) is expected


def test_other_encodings_are_tolerated() -> None:
    """A file that is not UTF-8 is read as latin-1."""
    assert not allowed("User-agent: *\nDisallow: /é".encode("latin-1"), "/%C3%A9")


def test_a_long_file_is_cut_at_the_end_of_a_line() -> None:
    """Beyond 512 KiB nothing counts, and the line that was cut through does not either."""
    filler = b"#" * 100 + b"\n"
    head = b"User-agent: *\nDisallow: /early\n" + filler * 5190
    body = head + b"Disallow: /private/" + b"x" * 2000 + b"\nDisallow: /late\n"
    assert len(head) < robots.MAX_BYTES < len(body)
    assert not allowed(body, "/early")
    assert allowed(body, "/private/")
    assert allowed(body, "/late")
    assert allowed(b"x" * (robots.MAX_BYTES + 5), "/")


@pytest.mark.parametrize(
    ("lines", "delay_s"),
    [
        ("Crawl-delay: 2.5", 2.5),
        ("Crawl-delay: 1\nCrawl-delay: 3", 3.0),
        ("Crawl-delay: 0", 0.0),
        ("Crawl-delay: soon", None),
        ("Crawl-delay: -1", None),
        ("Crawl-delay: inf", None),
        ("Crawl-delay: nan", None),
        ("", None),
    ],
)
def test_crawl_delay(lines: str, delay_s: float | None) -> None:
    """The longest delay that a group asks for counts, if it is a time."""
    assert rules(f"User-agent: *\n{lines}\nDisallow: /x").crawl_delay_s == delay_s
    assert rules(f"User-agent: other\n{lines}\nDisallow: /x").crawl_delay_s is None


def test_sitemaps() -> None:
    """Sitemaps belong to no group, come once each and are whole URLs."""
    text = "Sitemap: http://h/1\nUser-agent: x\nsitemap:https://h/2\nDisallow: /\nSitemap: /3\nSitemap: http://h/1"
    assert rules(text).sitemaps == ("http://h/1", "https://h/2")


PATTERN = st.text("/ab*$%2A", max_size=8).map(lambda text: "/" + text)


@given(st.lists(st.tuples(PATTERN, st.booleans()), max_size=8), st.text("/ab*$", max_size=8))
def test_the_matcher_agrees_with_the_definition(lines: list[tuple[str, bool]], rest: str) -> None:
    """Whatever the rules, the answer is that of trying all of them with plain regular expressions."""
    text = "User-agent: *\n" + "".join(
        f"{'Allow' if allow else 'Disallow'}: {pattern}\n" for pattern, allow in lines
    )
    target = "/" + rest
    spelled = target.replace("*", "%2A").replace("$", "%24")
    best = (-1, True)
    for pattern, allow in rules(text).rules:
        expression = "".join(".*" if c == "*" else re.escape(c) for c in pattern.removesuffix("$"))
        if re.match(expression + (r"\Z" if pattern.endswith("$") else ""), spelled):
            best = max(best, (len(pattern), allow))
    assert allowed(text, target) is best[1]


def test_a_file_of_wildcards_is_read_more_strictly() -> None:
    """Past 5,000 wildcards, rules forbid from their first wildcard on, and none allows."""
    text = "User-agent: *\n" + "".join(f"Disallow: /{'*a' * 499}*{n}b$\n" for n in range(10))
    text += "Disallow: /x/*/y\nAllow: /*z\nDisallow: /w\n"
    assert allowed(text, "/" + "a" * 1900)
    assert not allowed(text, "/x/a")
    assert not allowed(text, "/x/z")
    assert allowed(text, "/y")
    assert not allowed(text, "/w")


@pytest.mark.parametrize(
    ("status", "standing"),
    [
        (200, Standing.READ),
        (204, Standing.READ),
        (302, Standing.UNAVAILABLE),
        (400, Standing.UNAVAILABLE),
        (401, Standing.UNAVAILABLE),
        (403, Standing.UNAVAILABLE),
        (404, Standing.UNAVAILABLE),
        (429, Standing.UNREACHABLE),
        (500, Standing.UNREACHABLE),
        (503, Standing.UNREACHABLE),
        (599, Standing.UNREACHABLE),
        (999, Standing.UNREACHABLE),
        (101, Standing.UNREACHABLE),
    ],
)
def test_what_follows_from_a_status(status: int, standing: Standing) -> None:
    """A file is read, a 4xx allows everything, a failing server nothing for a while."""
    body = b"User-agent: *\nDisallow: /x"
    found = robots.answered(status, body, agent=AGENT, now=0.0)
    assert found.standing is standing
    assert found.allowed("/x") is (standing is Standing.UNAVAILABLE)
    assert found.allowed("/y") is (standing is not Standing.UNREACHABLE)
    assert found.allowed("/robots.txt")


@pytest.mark.parametrize(
    ("header", "lasting_s"),
    [
        ("", DAY_S),
        ("public", DAY_S),
        ("max-age=7200", 7200.0),
        ("public, Max-Age = 7200", 7200.0),
        ("max-age=60", 3600.0),
        ("max-age=9999999", DAY_S),
        ("no-cache", 3600.0),
        ("s-maxage=7200", DAY_S),
    ],
)
def test_how_long_a_file_holds(header: str, lasting_s: float) -> None:
    """Rules hold for a day, or shorter when the answer says so, but for an hour at least."""
    found = robots.answered(200, b"", agent=AGENT, now=1000.0, cache_control=header)
    assert found.until == 1000.0 + lasting_s


def test_an_unreachable_host_is_asked_less_and_less_often() -> None:
    """Waiting doubles up to a day; after 30 days everything is allowed; an answer ends it."""
    now, previous, waits = 0.0, None, list[float]()
    while previous is None or previous.standing is Standing.UNREACHABLE:
        previous = robots.unreachable(now, previous)
        waits.append(previous.until - now)
        now = previous.until
    assert waits[:4] == [60.0, 120.0, 240.0, 480.0]
    assert max(waits) == DAY_S
    assert 30 * DAY_S <= now - waits[-1] < 31 * DAY_S
    assert previous.allowed("/x")
    again = robots.unreachable(now, previous)
    assert again.standing is Standing.UNAVAILABLE
    read = robots.answered(200, b"", agent=AGENT, now=now, previous=again)
    assert robots.unreachable(now, read).failing_since == now


def test_ignoring_robots() -> None:
    """Rules that allow everything hold for ever."""
    assert robots.everything_allowed().allowed("/x")
    assert robots.everything_allowed().until > 1e300


@pytest.mark.parametrize(
    "found",
    [
        rules(SIMPLE, "foobot"),
        rules("Sitemap: http://h/s\nUser-agent: *\nCrawl-delay: 3\nDisallow: /ü*$"),
        robots.unavailable(5.0),
        robots.unreachable(7.0, robots.unreachable(1.0)),
    ],
)
def test_rules_can_be_stored(found: Rules) -> None:
    """Rules survive being stored."""
    again = Rules.from_bytes(found.to_bytes())
    assert again == found
    assert again != "rules"
    assert repr(again) == repr(found)
    assert again.allowed("/example/page.html") == found.allowed("/example/page.html")


@given(st.binary(max_size=40))
def test_other_bytes_are_refused(stored: bytes) -> None:
    """What are no stored rules is a ValueError and nothing else."""
    with pytest.raises(ValueError, match="no stored robots rules"):
        Rules.from_bytes(b"\x98\x09" + stored)
    whole = Rules([], until=1.0).to_bytes()
    with pytest.raises(ValueError, match="no stored robots rules"):
        Rules.from_bytes(whole[:-1])
    with pytest.raises(ValueError, match="no stored robots rules: rules of version 2"):
        Rules.from_bytes(whole[:1] + b"\x02" + whole[2:])


def response(
    status: int = 200, body: bytes = b"", *, truncated: str = "", headers: Mapping[str, str] | None = None
) -> Response:
    """An answer as the transport gives it."""
    return Response(
        status=status, head=b"", headers=dict(headers or {}), body=body, raw=body, truncated=truncated,
        request=b"", address="192.0.2.1", started=0.0, connect_s=0.0, first_byte_s=0.0, total_s=0.0,
        reused=False,
    )  # fmt: skip


class Web:
    """Answers by URL, in the transport's place; it counts, and takes its time."""

    def __init__(self, answers: Mapping[str, Outcome]) -> None:
        self.answers = dict(answers)
        self.asked: list[str] = []

    async def fetch(
        self,
        origin: Origin,
        target: str,
        *,
        headers: bytes = b"",
        timeout_s: float | None = None,
        max_body_bytes: int | None = None,
        on_sent: Callable[[float], None] | None = None,
    ) -> Outcome:
        """The answer to a URL."""
        self.asked.append(f"{origin}{target}")
        await trio.sleep(1)
        assert max_body_bytes is not None
        return self.answers.get(self.asked[-1], Failure(Reason.CONNECT, "Nobody is there."))


class Clock:
    """A clock that stands still until it is put forward."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """The time."""
        return self.now


HOST = Origin("http", "h.example", 80)
FORBIDDING = response(body=b"User-agent: *\nDisallow: /x")


def moved(location: str) -> Response:
    """A redirect."""
    return response(301, headers={"location": location})


async def sought(cache: RobotsCache, origin: Origin) -> Rules:
    """The rules of an origin, asked for wherever redirects lead."""
    inquiry = cache.begin(origin)
    assert inquiry is not None
    while (found := cache.heed(inquiry, await cache.fetch(inquiry))) is None:
        pass
    return found


@pytest.mark.virtual_time
async def test_robots_are_asked_for_once() -> None:
    """There is one inquiry about an origin at a time, and none is needed while its rules hold."""
    web = Web({"http://h.example/robots.txt": FORBIDDING})
    clock = Clock()
    cache = RobotsCache(web, AGENT, clock=clock)
    assert cache.known(HOST, clock()) is None
    inquiry = cache.begin(HOST)
    assert inquiry is not None
    assert cache.begin(HOST) is None
    found = cache.heed(inquiry, await cache.fetch(inquiry))
    assert found is not None
    assert not found.allowed("/x")
    assert cache.known(HOST, clock()) is found
    assert web.asked == ["http://h.example/robots.txt"]
    clock.now += DAY_S
    assert cache.known(HOST, clock()) is None
    await sought(cache, HOST)
    assert len(web.asked) == 2


@pytest.mark.virtual_time
async def test_a_cancelled_inquiry_can_be_begun_again() -> None:
    """An inquiry ends when its task is cancelled."""
    web = Web({"http://h.example/robots.txt": FORBIDDING})
    cache = RobotsCache(web, AGENT, clock=trio.current_time)
    with trio.move_on_after(0.5):
        await sought(cache, HOST)
    assert not (await sought(cache, HOST)).allowed("/x")
    assert len(web.asked) == 2


@pytest.mark.virtual_time
async def test_redirects_are_followed_to_other_hosts() -> None:
    """Five redirects are followed, one step at a time, and what is found holds for the host asked first."""
    web = Web(
        {
            "http://h.example/robots.txt": moved("https://h.example/robots.txt"),
            "https://h.example/robots.txt": moved("//www.h.example:8080/robots.txt"),
            "https://www.h.example:8080/robots.txt": moved("/a?b"),
            "https://www.h.example:8080/a?b": moved("c"),
            "https://www.h.example:8080/c": moved("http://other.example"),
            "http://other.example/": FORBIDDING,
        }
    )
    cache = RobotsCache(web, AGENT, clock=trio.current_time)
    inquiry = cache.begin(HOST)
    assert inquiry is not None
    assert cache.heed(inquiry, await cache.fetch(inquiry)) is None
    assert (str(inquiry.asked), inquiry.target) == ("https://h.example", "/robots.txt")
    while (found := cache.heed(inquiry, await cache.fetch(inquiry))) is None:
        pass
    assert not found.allowed("/x")
    assert len(web.asked) == 6
    assert cache.known(HOST, trio.current_time()) is found
    assert len(cache) == 1


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("answers", "standing", "requests"),
    [
        ({"http://h.example/robots.txt": moved("/robots.txt")}, Standing.UNAVAILABLE, 6),
        ({"http://h.example/robots.txt": response(302)}, Standing.UNAVAILABLE, 1),
        ({"http://h.example/robots.txt": moved("http://[")}, Standing.UNAVAILABLE, 1),
        ({"http://h.example/robots.txt": moved("ftp://h/")}, Standing.UNAVAILABLE, 1),
        ({"http://h.example/robots.txt": moved("http://127.0.0.1/")}, Standing.UNREACHABLE, 2),
        ({"http://h.example/robots.txt": response(304)}, Standing.UNAVAILABLE, 1),
        ({"http://h.example/robots.txt": response(404)}, Standing.UNAVAILABLE, 1),
        ({"http://h.example/robots.txt": response(200, truncated="length")}, Standing.READ, 1),
        ({"http://h.example/robots.txt": response(200, truncated="time")}, Standing.UNREACHABLE, 1),
        ({}, Standing.UNREACHABLE, 1),
    ],
)
async def test_every_answer_leads_to_rules(
    answers: dict[str, Outcome], standing: Standing, requests: int
) -> None:
    """Endless redirects mean that there is no file; failures and torn answers, that it must be waited for."""
    web = Web(answers)
    cache = RobotsCache(web, AGENT, clock=trio.current_time)
    assert (await sought(cache, HOST)).standing is standing
    assert len(web.asked) == requests


@pytest.mark.virtual_time
@pytest.mark.parametrize("location", ["file:///etc/passwd", "nntp://10.0.0.5:6379/x/1", "db://shop/a/b/7"])
async def test_a_redirect_to_a_source_leads_nowhere(location: str) -> None:
    """A web server cannot have anything asked for that is not on the web; it has no file then."""
    web = Web({"http://h.example/robots.txt": moved(location), location: FORBIDDING})
    cache = RobotsCache(web, AGENT, clock=trio.current_time)
    assert (await sought(cache, HOST)).standing is Standing.UNAVAILABLE
    assert web.asked == ["http://h.example/robots.txt"]


@pytest.mark.virtual_time
async def test_a_failing_host_is_remembered_as_failing() -> None:
    """Each failure in a row doubles the time until the next question, until one is answered."""
    clock = Clock()
    web = Web({})
    cache = RobotsCache(web, AGENT, clock=clock)
    assert cache.failure(HOST) is None
    for failures in range(1, 5):
        found = await sought(cache, HOST)
        assert found.failures == failures
        assert cache.failure(HOST) == Failure(Reason.CONNECT, "Nobody is there.")
        clock.now = found.until
    web.answers["http://h.example/robots.txt"] = FORBIDDING
    assert (await sought(cache, HOST)).failures == 0
    assert cache.failure(HOST) is None


@pytest.mark.virtual_time
async def test_a_restart_does_not_ask_again() -> None:
    """What changed can be stored and restored, within the capacity, and broken entries are left out."""
    hosts = [Origin("http", f"h{n}.example", 80) for n in range(5)]
    web = Web({f"{host}/robots.txt": FORBIDDING for host in hosts})
    cache = RobotsCache(web, AGENT, clock=trio.current_time, capacity=3)
    for host in hosts:
        await sought(cache, host)
    stored = cache.changed()
    assert [host for host, _ in stored] == hosts[2:]
    assert cache.changed() == []
    again = RobotsCache(web, AGENT, clock=trio.current_time)
    again.restore([*stored, (hosts[0], b"broken")])
    assert len(again) == 3
    web.asked.clear()
    found = again.known(hosts[4], trio.current_time())
    assert found is not None
    assert not found.allowed("/x")
    assert web.asked == []


async def test_robots_over_the_real_transport() -> None:
    """Over real sockets robots.txt is fetched under our name, cut and kept, and redirects are guarded."""
    body = b"User-agent: *\nDisallow: /x\n" + b"#" * 700_000
    moved_inside = b"HTTP/1.1 301 Moved\r\nLocation: http://10.0.0.1/\r\nContent-Length: 0\r\n\r\n"
    async with asked(replies(ok(body), moved_inside), agent=AGENT) as (server, transport):
        cache = RobotsCache(transport, AGENT)
        found = await sought(cache, server.origin)
        assert found.standing is Standing.READ
        assert not found.allowed("/x")
        assert cache.known(server.origin, time.time()) is found
        assert server.requests[0].startswith(b"GET /robots.txt HTTP/1.1\r\n")
        assert AGENT.encode() in server.requests[0]
        assert len(server.requests) == 1
    async with asked(replies(moved_inside)) as (server, transport):
        found = await sought(RobotsCache(transport, AGENT), server.origin)
        assert found.standing is Standing.UNREACHABLE


def test_rules_speak_about_canonical_targets() -> None:
    """What a canonical URL makes of odd characters is what a pattern with the same characters matches."""
    for path in ("/a b", "/{x}|^`", "/ü?ö='%27\"<>", "/a\\b", "/%7e~", "/x[1]?[2]{3}^4`5|6"):
        _, target = Origin.split(urls.canonical(f"http://h{path}"))
        pattern = path.replace("\\", "/")
        assert not allowed(f"User-agent: *\nDisallow: {pattern}$", target), path


def test_rule_is_a_pair() -> None:
    """Rules list their patterns as they are compared."""
    assert rules("User-agent: *\nAllow: /%61*%2a$").rules == (Rule("/a*%2A$", allow=True),)
