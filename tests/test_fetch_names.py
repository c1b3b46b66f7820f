"""The DNS step."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from gcs.errors import ConfigError
from gcs.fetch import names
from gcs.fetch.names import Names, read_hosts
from gcs.fetch.outcome import Failure, Reason


class Slow(Names):
    """Names that answer when told to."""

    def __init__(self, *, lifetime_s: float = 60.0) -> None:
        """Nothing was asked yet."""
        super().__init__(lifetime_s=lifetime_s, concurrency=2)
        self.questions: list[str] = []
        self.go = trio.Event()

    async def ask(self, host: str) -> tuple[str, ...] | Failure:
        """A new address for each question, once `go` is set."""
        self.questions.append(host)
        await self.go.wait()
        return (f"192.0.2.{len(self.questions)}",)


async def test_localhost_is_found() -> None:
    """The system's resolver is asked, and its answer is remembered."""
    known = Names(lifetime_s=60.0, concurrency=1)
    found = await known.lookup("localhost")
    assert not isinstance(found, Failure)
    assert set(found) <= {"127.0.0.1", "::1"}
    assert known.known("localhost") == found


async def test_addresses_are_not_looked_up() -> None:
    """An address is its own answer, in its usual form."""
    asked = Slow()
    assert await asked.lookup("127.1") == ("127.0.0.1",)
    assert await asked.lookup("::ffff:10.0.0.1") == ("10.0.0.1",)
    assert asked.questions == []


async def test_the_hosts_file_comes_first(tmp_path: Path) -> None:
    """A file like /etc/hosts is asked before DNS; comments and nonsense in it are passed over."""
    file = tmp_path / "hosts"
    file.write_text(
        "# names\n127.0.0.1 Here.test there.test # us\n::1 here.test\n\n"
        "nonsense x.test\n127.0.0.1 here.test\n"
    )
    known = Names(hosts=read_hosts(file), lifetime_s=60.0, concurrency=1)
    assert await known.lookup("here.test") == ("127.0.0.1", "::1")
    assert await known.lookup("there.test.") == ("127.0.0.1",)
    assert known.known("x.test") is None


def test_a_hosts_file_that_cannot_be_read(tmp_path: Path) -> None:
    """A hosts file that is not there is an error of the configuration; no file is no names."""
    with pytest.raises(ConfigError, match=r"fetch\.hosts cannot be read"):
        read_hosts(tmp_path / "nothing")
    assert read_hosts(None) == {}


async def test_one_question_per_host() -> None:
    """Many who want to know the same host ask once, and all get the answer, even if it is not to be kept."""
    asked = Slow(lifetime_s=0.0)
    answers: list[object] = []

    async def want() -> None:
        answers.append(await asked.lookup("a.test"))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(want)
        await trio.testing.wait_all_tasks_blocked()
        asked.go.set()
    assert asked.questions == ["a.test"]
    assert answers == [("192.0.2.1",)] * 5
    assert await asked.lookup("a.test") == ("192.0.2.2",)


async def test_a_cancelled_question_is_handed_over() -> None:
    """When the one who asked is cancelled, the next who waits asks."""
    asked = Slow()
    answers: list[object] = []

    async def want(scope: trio.CancelScope) -> None:
        with scope:
            answers.append(await asked.lookup("a.test"))

    async with trio.open_nursery() as nursery:
        first = trio.CancelScope()
        nursery.start_soon(want, first)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(want, trio.CancelScope())
        await trio.testing.wait_all_tasks_blocked()
        first.cancel()
        await trio.testing.wait_all_tasks_blocked()
        asked.go.set()
    assert answers == [("192.0.2.2",)]
    assert asked.known("a.test") == ("192.0.2.2",)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (socket.gaierror(socket.EAI_NONAME, "x"), "no such host"),
        (socket.gaierror(socket.EAI_FAIL, "broken"), "broken"),
        (UnicodeError("label too long"), "label too long"),
        (None, "no address"),
    ],
)
async def test_failures_are_values(
    error: Exception | None, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the resolver says against a name is a failure, and remembered for a short time."""
    calls = 0

    def getaddrinfo(*args: object, **named: object) -> list[Any]:
        nonlocal calls
        calls += 1
        if error:
            raise error
        return []

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    known = Names(lifetime_s=60.0, concurrency=1)
    for _ in range(2):
        failure = await known.lookup("a.test")
        assert isinstance(failure, Failure)
        assert failure.reason is Reason.DNS
        assert says in failure.detail
    assert calls == 1
    monkeypatch.setattr("gcs.fetch.names.time.monotonic", lambda: 10**9)
    assert known.known("a.test") is None


async def test_questions_have_a_limit_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more questions are under way than allowed; a cancelled one keeps its place until its thread ends."""
    release, under_way, most = threading.Semaphore(0), 0, 0

    def getaddrinfo(*args: object, **named: object) -> list[Any]:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        release.acquire()
        under_way -= 1
        return [(0, 0, 0, "", ("192.0.2.1", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    known = Names(lifetime_s=60.0, concurrency=2)
    with trio.move_on_after(0.05) as scope:
        await known.lookup("first.test")
    assert scope.cancelled_caught
    async with trio.open_nursery() as nursery:
        for host in range(6):
            nursery.start_soon(known.lookup, f"{host}.test")
        await trio.sleep(0.05)
        for _ in range(7):
            release.release()
    assert most == 2


async def test_the_table_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of too many hosts the first are forgotten."""
    monkeypatch.setattr(names, "MAX_REMEMBERED", 3)
    asked = Slow()
    asked.go.set()
    for host in "abcd":
        await asked.lookup(host)
    assert [asked.known(host) is None for host in "abcd"] == [True, False, False, False]
