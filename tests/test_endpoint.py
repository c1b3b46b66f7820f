"""The endpoint for monitoring, over real sockets: what it answers, and what it refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio

from gcs import endpoint
from gcs.config import load
from gcs.endpoint import AT_ONCE, MAX_REQUEST_BYTES
from gcs.errors import ConfigError
from gcs.process import Process
from tests.scrapes import get, read

LOOPBACK = "127.0.0.1:0"
MORE = "# HELP gcs_more More.\n# TYPE gcs_more gauge\ngcs_more 7\n"


async def more() -> str:
    await trio.lowlevel.checkpoint()
    return MORE


@asynccontextmanager
async def served(listen: str = LOOPBACK, trouble: str = "") -> AsyncIterator[str]:
    """An endpoint; where it is."""
    with structlog.testing.capture_logs() as logs:
        async with endpoint.opened(listen) as monitored, trio.open_nursery() as nursery:
            nursery.start_soon(monitored.serve, Process("crawl", "one", "news", lambda: trouble), more)
            yield str(logs[0]["at"])
            nursery.cancel_scope.cancel()


async def asked(place: str, path: str = "/metrics", **options: Any) -> tuple[int, str]:
    return await trio.to_thread.run_sync(lambda: get(place, path, **options))


async def raw(place: str, *pieces: bytes) -> bytes:
    """Send something, and read until the end."""
    host, _, port = place.removeprefix("http://").rpartition(":")
    async with await trio.open_tcp_stream(host, int(port)) as stream:
        for piece in pieces:
            await stream.send_all(piece)
        return b"".join([some async for some in stream])


async def test_metrics() -> None:
    """What the process and its part measure can be read."""
    async with served() as place:
        status, text = await asked(place)
        found = read(text)
    assert status == 200
    assert found.at("gcs_more") == 7
    assert found["gcs_info"] == found["gcs_well"] == 1
    assert 1 << 20 < found["gcs_memory_bytes"] < 1 << 40
    assert found["gcs_cpu_seconds_total"] > 0


async def test_the_loop_is_watched() -> None:
    """How late the event loop is, is looked at for as long as the endpoint is there."""
    async with served() as place:
        while read((await asked(place))[1]).at("gcs_loop_delay_seconds_count") < 2:  # noqa: ASYNC110 - nobody tells
            await trio.sleep(0.1)


@pytest.mark.parametrize("trouble", ["", "store hung"])
async def test_health(trouble: str) -> None:
    """Whoever asks is told whether it is well, by the status and in words."""
    async with served(trouble=trouble) as place:
        told = await asked(place, "/healthz")
        found = read((await asked(place))[1])
    assert told == ((503, "store hung.\n") if trouble else (200, "All is well.\n"))
    assert found["gcs_well"] == (not trouble)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/metrics/", 404),
        ("GET", "/metrics?x=1", 200),
        ("HEAD", "/metrics", 200),
        ("POST", "/metrics", 404),
    ],
)
async def test_what_there_is(method: str, path: str, status: int) -> None:
    """There are two pages, to be read and not to be written."""
    async with served() as place:
        found, body = await asked(place, path, method=method)
    assert found == status
    assert bool(body) == (method != "HEAD")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"hello\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/2.0\r\n\r\n", b"400"),
        (b"\x16\x03\x01\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * MAX_REQUEST_BYTES, b"431"),
    ],
)
async def test_what_is_no_request(request_: bytes, status: bytes) -> None:
    """What is no request, or too large for one, is refused."""
    async with served() as place:
        assert (await raw(place, request_)).startswith(b"HTTP/1.1 " + status)


async def test_a_request_in_pieces() -> None:
    """A request may come in pieces."""
    async with served() as place:
        answer = await raw(place, b"GET /hea", b"lthz HTTP/1.1\r\nHost: x\r", b"\n\r\n")
    assert answer.endswith(b"\r\n\r\nAll is well.\n")


async def test_those_who_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is slow is cut off, and more than so many at once are not heard; then others are."""
    monkeypatch.setattr(endpoint, "WITHIN_S", 0.5)
    async with served() as place:
        host, _, port = place.removeprefix("http://").rpartition(":")
        slow = [await trio.open_tcp_stream(host, int(port)) for _ in range(AT_ONCE)]
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises((OSError, AssertionError, EOFError)):
            await asked(place, "/healthz")
        for stream in slow:
            assert await stream.receive_some() == b""
            await stream.aclose()
        assert (await asked(place, "/healthz"))[0] == 200


async def test_those_who_go_away() -> None:
    """Who hangs up, before or after asking, does no harm."""
    async with served() as place:
        host, _, port = place.removeprefix("http://").rpartition(":")
        for said in (b"", b"GET /met", b"GET /metrics HTTP/1.1\r\n\r\n"):
            stream = await trio.open_tcp_stream(host, int(port))
            if said:
                await stream.send_all(said)
            await stream.aclose()
        assert (await asked(place, "/healthz"))[0] == 200


async def test_other_places(tmp_path: Path) -> None:
    """It can be at an address of IPv6, or at a path, where what a dead process left is in nobody's way."""
    async with served("[::1]:0") as place:
        assert place.startswith("http://[::1]:")
        assert (await asked(place, "/healthz"))[0] == 200
    path = tmp_path / "socket"
    for _ in range(2):
        async with served(f"unix:{path}") as place:
            assert place == f"unix:{path}"
            assert (await asked(place, "/healthz"))[0] == 200
        assert not path.exists()
    left = trio.socket.socket(trio.socket.AF_UNIX)
    await left.bind(str(path))
    left.close()
    async with served(f"unix:{path}") as place:
        assert (await asked(place, "/healthz"))[0] == 200


async def test_a_place_that_is_taken(tmp_path: Path) -> None:
    """A place where somebody else listens, or nobody can, is refused in a sentence."""
    async with served() as place, served(f"unix:{tmp_path}/s"):
        taken = [place.removeprefix("http://"), f"unix:{tmp_path}/s"]
        for each in (*taken, f"unix:{tmp_path}/no/s", "203.0.113.1:9464", "no.invalid:9464"):
            with pytest.raises(ConfigError, match="nothing can listen at"):
                async with endpoint.opened(each):
                    pass


async def test_nowhere() -> None:
    """Without a place nothing listens, and nothing is watched."""
    async with endpoint.opened("") as monitored:
        await monitored.serve(Process("crawl", "", "news", str), more)


def test_settings() -> None:
    """A place is a host and a port, or a path; all else is refused."""
    for good in ("", "127.0.0.1:0", "[::1]:65535", "metrics.example:9464", "unix:/run/gcs/one/metrics"):
        listen = load(overrides=[f"metrics.listen={good}"], environ={}, system_file=Path("/nonexistent"))
        assert listen.config.metrics.listen == good
    for bad in ("9464", ":9464", "127.0.0.1", "127.0.0.1:65536", "::1:9464", "unix:run", "http://a:1"):
        with pytest.raises(ConfigError, match="such as"):
            load(overrides=[f"metrics.listen={bad}"], environ={}, system_file=Path("/nonexistent"))


def test_several() -> None:
    """Processes that one command starts listen side by side."""
    assert [endpoint.numbered("h:9464", number) for number in range(3)] == ["h:9464", "h:9465", "h:9466"]
    assert [endpoint.numbered("unix:/s", number) for number in range(2)] == ["unix:/s", "unix:/s.1"]
    assert endpoint.numbered("h:0", 2) == "h:0"
    assert endpoint.numbered("", 2) == ""
