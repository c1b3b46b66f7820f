"""What asks sources and web servers, and what an operator has chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import structlog
import trio

from gcs import doctor
from gcs.config import Config
from gcs.core.sources import Logins, Reach, Schedule
from gcs.doctor import Grade
from gcs.errors import ConfigError, UsageError
from gcs.fetch.outcome import Failure, Origin, Outcome, Reason, Response
from gcs.fetch.transport import Transport
from gcs.gatherer.seeds import seed_url, targets_of, without_login
from gcs.sources.answers import Conditions, response
from gcs.sources.chosen import asking, lack, logins_of, named, needs, path_of, reach_of, schedule_of
from gcs.sources.fetching import Sources

FILES = Origin("file", "", 0)


def configured(**sources: object) -> Config:
    """A configuration with these sources."""
    config = Config()
    return replace(config, sources=replace(config.sources, **sources))  # type: ignore[arg-type]


class Scripted:
    """A source that answers as it is told."""

    def __init__(self, answer: Callable[[str, Conditions], Outcome] | None) -> None:
        self.answer = answer

    async def fetch(self, url: str, conditions: Conditions) -> Outcome:
        """What it was told to say; nothing ever if it was not."""
        if self.answer is None:
            await trio.sleep_forever()
            raise AssertionError
        return self.answer(url, conditions)


class NoWeb:
    """A transport that must not be used."""

    agent = ""

    async def fetch(self, origin: Origin, target: str, **_: object) -> Outcome:
        """Nobody asks for it."""
        raise AssertionError

    async def addresses(self, host: str) -> Sequence[str] | Failure:
        """What the web has."""
        return [host]

    async def delay(self, origin: Origin) -> float | Failure:
        """As far as the web is."""
        return 7.0


def asked(source: Scripted) -> Sources:
    """What asks a source for files, and no web server."""
    return Sources(NoWeb(), {"file": source}, Reach(["file:///"]), timeout_s=60.0, asks_web=False)


async def test_beyond_the_roots() -> None:
    """What no root has is not asked for, whoever has named it."""
    here = Sources(
        NoWeb(), {"file": Scripted(None)}, Reach(["file:///srv/docs"]), timeout_s=60.0, asks_web=False
    )
    found = await here.fetch(FILES, "/etc/passwd")
    assert isinstance(found, Response)
    assert found.status == 403


async def test_what_a_source_raises_is_an_answer() -> None:
    """One row that a driver cannot read does not end the crawl."""

    def fail(_: str, __: Conditions) -> Outcome:
        raise OverflowError("a key that is too large")

    found = await asked(Scripted(fail)).fetch(FILES, "/a")
    assert isinstance(found, Response)
    assert found.status == 500


async def test_conditions_and_times() -> None:
    """A source is told the URL and the validator, and its answer is given when it was asked."""
    told: list[object] = []

    def answer(url: str, conditions: Conditions) -> Response:
        told.append((url, conditions.etag))
        return response(304)

    sent: list[float] = []
    found = await asked(Scripted(answer)).fetch(
        FILES, "/a?after=b", headers=b'If-None-Match: "x"\r\nIf-Modified-Since: then\r\n', on_sent=sent.append
    )
    assert told == [("file:///a?after=b", '"x"')]
    assert isinstance(found, Response)
    assert sent == [found.started]


@pytest.mark.virtual_time
async def test_a_source_that_hangs() -> None:
    """A source that does not answer in time is given up."""
    found = await asked(Scripted(None)).fetch(FILES, "/a")
    assert isinstance(found, Failure)
    assert (found.reason, found.total_s) == (Reason.TIMEOUT, 60.0)


async def test_why_a_source_cannot_be_asked() -> None:
    """Why a source cannot be asked is said once, and no control characters of a server's with it."""
    said = ["not \x1b[2Jknown", "not \x1b[2Jknown", "gone" * 1000]
    here = asked(Scripted(lambda *_: Failure(Reason.CONNECT, said.pop(0))))
    with structlog.testing.capture_logs() as logs:
        here._log = structlog.get_logger()
        for _ in range(3):
            await here.fetch(FILES, "/a")
    assert [entry["why"][:20] for entry in logs] == ["not \ufffd[2Jknown", "gone" * 5]
    assert len(logs[-1]["why"]) < 1000


async def test_a_failure_has_its_time() -> None:
    """A failure says when it was asked."""
    found = await asked(Scripted(lambda *_: Failure(Reason.CONNECT, "gone"))).fetch(FILES, "/a")
    assert isinstance(found, Failure)
    assert (found.reason, found.detail) == (Reason.CONNECT, "gone")
    assert found.started > 0


async def test_the_web_beside_it() -> None:
    """Without a name no web server is asked; addresses and delays are those of the web."""
    sources = asked(Scripted(None))
    found = await sources.fetch(Origin("http", "a.example", 80), "/")
    assert isinstance(found, Failure)
    assert found.reason is Reason.REQUEST
    assert await sources.addresses("a.example") == ["a.example"]
    assert await sources.delay(Origin("http", "a.example", 80)) == 7.0
    assert await sources.delay(FILES) == 0.0


async def test_without_sources_nothing_is_between() -> None:
    """A crawl without sources asks its transport, and nothing stands between."""
    async with Transport(Config().fetch) as transport, asking(Config(), transport) as asks:
        assert asks is transport


@pytest.mark.parametrize(
    ("root", "path"),
    [
        ("/srv/docs/", b"/srv/docs"),
        ("//srv/./a/../b", b"/srv/b"),
        ("file:///srv/my%20docs", b"/srv/my docs"),
        ("/", b"/"),
    ],
)
def test_roots(root: str, path: bytes) -> None:
    """A root may be a path or a URL, written in any way."""
    assert path_of(root) == path


def test_wrong_roots() -> None:
    """What cannot be a source is refused with the setting that says so."""
    with pytest.raises(ConfigError, match=r"sources\.files"):
        reach_of(configured(files=("file:///a%00b",)).sources)
    with pytest.raises(ConfigError, match=r"sources\.news"):
        reach_of(configured(news=("nntp://h:0/",)).sources)


def test_the_whole_disk() -> None:
    """The root of everything has everything below it, and no web page."""
    reach = reach_of(configured(files=("/",)).sources)
    assert reach.has("file:///")
    assert reach.has("file:///etc/passwd")
    assert not reach.has("http://a.example/")


def test_named_seeds(tmp_path: Path) -> None:
    """A directory that is named as a seed is added to those that are allowed, unless it is below one."""
    config = configured(files=("/srv",))
    assert named(config, ["file:///srv/docs", "http://a.example/"]) == []
    assert named(config, [f"file://{tmp_path}/a b"]) == [f"sources.files=/srv file://{tmp_path}/a%20b"]


def test_what_a_crawl_needs() -> None:
    """A crawl that goes on needs its sources, or wider ones, and its logins; no secret is remembered."""
    before = configured(
        files=("/srv/docs",),
        news=("nntps://a.example/g",),
        logins=("ann:secret@A.example",),
        databases=("shop=postgresql://ann:secret@host/x",),
    ).sources
    needed = needs(before)
    assert "secret" not in "".join(needed)
    assert lack(before, needed) == ""
    assert lack(replace(before, files=("/srv",), news=("nntps://a.example/",)), needed) == ""
    assert "file:///srv/docs" in lack(replace(before, files=("/srv/docs-old",)), needed)
    assert "nntps://a.example/g" in lack(replace(before, news=()), needed)
    assert "user:password@a.example" in lack(replace(before, logins=()), needed)
    assert "shop=address" in lack(replace(before, databases=("other=sqlite://",)), needed)


def test_logins() -> None:
    """A login is for a host at any port or at one, in any spelling; the password may have anything in it."""
    logins = Logins(["ann:p:a@ss@News.example", "bob:x@news.example:1119", "eve:y@[::1]", "max:z@[0::2]:21"])
    assert logins.at("news.example", 119) == ("ann", "p:a@ss")
    assert logins.at("news.example", 1119) == ("bob", "x")
    assert logins.at("::1", 563) == ("eve", "y")
    assert (logins.at("::2", 21), logins.at("::2", 22)) == (("max", "z"), None)
    assert logins.at("other.example", 119) is None
    for wrong in ("ann:secret@host:port", "ann:secret@:119", "ann:secret@[::1"):
        with pytest.raises(ConfigError, match=r"sources\.logins") as refused:
            logins_of(configured(logins=(wrong,)).sources)
        assert "secret" not in str(refused.value)


def test_schedules() -> None:
    """The longest part of a source that has a URL says after how long it is visited again."""
    schedule = Schedule({"file:///srv": 10.0, "file:///srv/docs/": 5.0, "db://shop/": 3.0})
    assert [
        schedule.every(url)
        for url in (
            "file:///srv/a",
            "file:///srv/docs/a",
            "file:///srv/docs-old",
            "db://shop/x/",
            "http://a/",
        )
    ] == [10.0, 5.0, 10.0, 3.0, None]
    with pytest.raises(ConfigError, match=r"sources\.every"):
        schedule_of(configured(every=("/srv=1x",)))


def test_doctor(tmp_path: Path) -> None:
    """`gcs doctor` says which directories can be read, and which are not there."""
    found = list(doctor.files(configured(files=(str(tmp_path), f"{tmp_path}/none"))))
    assert [each.grade for each in found] == [Grade.OK, Grade.ERROR]


@pytest.mark.parametrize("url", ["ftp://ann:p@ss/w:1@host.example/pub", "sftp://ann:p@ss/w:1@h.example/"])
def test_a_password_in_a_seed(url: str) -> None:
    """A seed with a password is refused with where that belongs, and the password is not said again."""
    with pytest.raises(UsageError, match="cannot be crawled") as refused:
        seed_url(targets_of(configured()), url)
    assert "w:1" not in str(refused.value)
    with pytest.raises(UsageError, match=r"sources\.logins") as refused:
        seed_url(targets_of(configured()), "ftp://ann:secret@host.example/pub")
    assert "secret" not in str(refused.value)
    assert without_login("http://a.example/b") == "http://a.example/b"
