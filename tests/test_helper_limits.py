"""What a helper may use: the line, the processor, the memory; and how it steps back behind others."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from itertools import accumulate
from pathlib import Path

import pytest
import trio
import trustme
from hypothesis import given
from hypothesis import strategies as st

from gcs.fetch.names import Names
from gcs.fetch.outcome import Failure, Origin, Reason, Response
from gcs.fetch.transport import Transport
from gcs.helper.limits import Bandwidth, Bucket, Cpu, Room, memory_bytes, room
from gcs.helper.modesty import Modesty, be_modest
from tests.scripted import Peer, ok, replies, serve, settings
from tests.test_fetch_tls import HERE, client_side, server_side

steps = st.lists(st.tuples(st.floats(0, 20), st.floats(0, 1)), min_size=1, max_size=40)
rates = st.floats(0.01, 1e6)


def assert_never_more(uses: list[tuple[float, float]], rate: float, burst: float) -> None:
    """Over every stretch of time, what was used is at most rate × time + burst."""
    totals = list(accumulate((amount for _, amount in uses), initial=0.0))
    for first, (begun, _) in enumerate(uses):
        for last in range(first, len(uses)):
            used = totals[last + 1] - totals[first]
            most = rate * (uses[last][0] - begun) + burst
            assert used <= most * (1 + 1e-9) + 1e-6


@given(rates, st.floats(0.01, 1e6), steps)
def test_bucket(rate: float, burst: float, taken: list[tuple[float, float]]) -> None:
    """Who uses no more than is in a bucket stays within rate × time + burst over any stretch of time."""
    bucket, now, uses = Bucket(rate, burst, 0.0), 0.0, []
    for elapsed_s, share in taken:
        now += elapsed_s
        amount = share * bucket.left(now)
        bucket.use(amount, now)
        uses.append((now, amount))
    assert_never_more(uses, rate, burst)


@given(rates, st.floats(0.01, 1e6), st.lists(st.floats(0, 1e6), min_size=1, max_size=40))
def test_bucket_paid_afterwards(rate: float, burst: float, amounts: list[float]) -> None:
    """Who rests as long as told after each use overdraws by no more than the largest piece."""
    bucket, now, uses = Bucket(rate, burst, 0.0), 0.0, []
    for amount in amounts:
        bucket.use(amount, now)
        uses.append((now, amount))
        now += bucket.rest_s(now)
    assert_never_more(uses, rate, burst + max(amounts))


@given(rates, st.floats(0.01, 1e6), st.floats(0, 1e6), st.floats(0, 2e6, allow_subnormal=False))
def test_bucket_rest(rate: float, burst: float, used: float, wanted: float) -> None:
    """After the rest there is what was wanted, or all that there can be; before it there was not."""
    bucket = Bucket(rate, burst, 0.0)
    bucket.use(used, 0.0)
    rest_s, enough = bucket.rest_s(0.0, wanted), min(wanted, burst)
    assert bucket.left(rest_s) >= enough - 1e-6 * max(1.0, enough, used)
    if rest_s > 0:
        assert bucket.left(rest_s / 2) < enough


def test_bucket_and_a_clock_that_goes_back() -> None:
    """Time that goes back gives nothing, and takes nothing away."""
    bucket = Bucket(1.0, 10.0, 100.0)
    bucket.use(10.0, 100.0)
    assert bucket.left(50.0) == 0.0
    bucket.use(0.0, 50.0)
    assert bucket.left(101.0) == 1.0


@given(st.floats(1, 100), st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5)), min_size=1, max_size=30))
def test_cpu(percent: float, work: list[tuple[float, float]]) -> None:
    """Over any stretch of time, the share is kept but for the window's worth and one piece of work."""
    now, used = 0.0, 0.0
    cpu = Cpu(percent, clock=lambda: now, cpu_s=lambda: used, window_s=10.0)
    uses: list[tuple[float, float]] = []
    for cpu_s, waiting_s in work:
        uses.append((now, cpu_s))
        used += cpu_s
        now += cpu_s + waiting_s
        now += cpu.rest_s()
    assert_never_more(uses, percent / 100, percent / 10 + max(cpu_s for cpu_s, _ in work))


def test_cpu_at_rest() -> None:
    """A helper that has used little works on at once, and one that has used much rests for it."""
    now, used = 0.0, 5.0
    cpu = Cpu(50, clock=lambda: now, cpu_s=lambda: used, window_s=10.0)
    assert cpu.rest_s() == 0.0
    used += 5.0
    assert cpu.rest_s() == 0.0
    used += 2.0
    assert cpu.rest_s() == pytest.approx(4.0)
    now += 4.0
    assert cpu.rest_s() == pytest.approx(0.0)


@pytest.mark.virtual_time
async def test_bandwidth_is_shared() -> None:
    """Many connections together keep the rate over any stretch, nearly reach it, and all get their turns."""
    rate, begun = 100_000, trio.current_time()
    line = Bandwidth(rate, clock=trio.current_time)
    uses: list[tuple[float, float]] = []
    per_task = [0] * 8

    async def connection(number: int) -> None:
        while True:
            size = min(await line.turn(), 10_000)
            line.use(size)
            uses.append((trio.current_time(), size))
            per_task[number] += size
            await trio.lowlevel.checkpoint()

    with trio.move_on_after(20):
        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(connection, number)
    assert trio.current_time() - begun == pytest.approx(20)
    assert_never_more(uses, rate, rate / 4)
    assert sum(per_task) > 0.98 * rate * 20
    assert min(per_task) > 0.5 * max(per_task)


@pytest.mark.virtual_time
async def test_bandwidth_and_other_traffic() -> None:
    """What went some other way is counted too, and waited for."""
    line = Bandwidth(100_000, clock=trio.current_time)
    line.use(225_000)
    begun = trio.current_time()
    assert await line.turn() > 0
    assert trio.current_time() - begun == pytest.approx(2.0, abs=0.05)


async def throttled_s(transport: Transport, *asked: Origin) -> float:
    """How long it takes to fetch all of these at once."""
    begun = time.monotonic()

    async def one(origin: Origin) -> None:
        outcome = await transport.fetch(origin, "/")
        assert isinstance(outcome, Response), outcome
        assert not outcome.truncated

    async with trio.open_nursery() as nursery:
        for origin in asked:
            nursery.start_soon(one, origin)
    return time.monotonic() - begun


async def test_a_page_comes_no_faster_than_agreed() -> None:
    """One large page takes as long as the line's limit says, and two at once twice as long."""
    line = Bandwidth(400_000)
    async with (
        serve(replies(ok(bytes(300_000)))) as one,
        serve(replies(ok(bytes(300_000)))) as other,
        Transport(settings(), throttle=line) as transport,
    ):
        assert 0.45 <= await throttled_s(transport, one.origin) < 3
        assert 1.0 <= await throttled_s(transport, one.origin, other.origin) < 5


async def test_a_server_has_to_wait() -> None:
    """While a page is taken in slowly, its server cannot send it all: the system's buffer is small."""
    sent = 0

    async def script(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 64000000\r\n\r\n")
        while True:
            await peer.send(bytes(64_000))
            sent += 64_000

    fetch = settings(max_body_bytes=1 << 30)
    async with serve(script) as server, Transport(fetch, throttle=Bandwidth(50_000)) as transport:
        outcome = await transport.fetch(server.origin, "/", timeout_s=1.0)
    assert isinstance(outcome, Response)
    assert outcome.truncated == "time"
    assert len(outcome.body) < 150_000
    assert sent < 10_000_000


async def test_a_secure_page_comes_no_faster_than_agreed() -> None:
    """What TLS adds goes through the limit too, and the page is whole."""
    line, authority = Bandwidth(400_000), trustme.CA()
    known = Names(hosts=HERE, lifetime_s=1.0, concurrency=1)
    secure, trusting = server_side(authority, "site.test"), client_side(authority)
    async with (
        serve(replies(ok(os.urandom(300_000))), tls=secure, host="site.test") as server,
        Transport(settings(), names=known, tls=trusting, throttle=line) as transport,
    ):
        assert 0.45 <= await throttled_s(transport, server.origin) < 3


async def test_a_limit_is_no_fault_of_the_server() -> None:
    """A server is not called slow for what the limit does, and the total time counts while it rests."""
    line = Bandwidth(16_384)
    fetch = settings(min_rate_bytes=1 << 20, timeout_s=2.0)
    async with (
        serve(replies(ok(bytes(1000)), ok(bytes(100_000)))) as server,
        Transport(fetch, throttle=line, slow_window_s=0.2) as transport,
    ):
        line.use(16_384)
        first = await transport.fetch(server.origin, "/")
        assert isinstance(first, Response)
        line.use(1_000_000)
        begun = time.monotonic()
        second = await transport.fetch(server.origin, "/", timeout_s=0.5)
        assert isinstance(second, Failure)
        assert second.reason is Reason.TIMEOUT
        assert time.monotonic() - begun < 30


@given(st.none() | st.integers(0, 1 << 32), st.none() | st.integers(1, 1 << 32))
def test_room(used: int | None, most: int | None) -> None:
    """Up to four fifths of the memory work is taken, up to all of it gone on with, and beyond it ends."""
    if used is None or most is None or used < 0.8 * most:
        assert room(used, most) is Room.TAKE
    else:
        assert room(used, most) is (Room.LEAVE if used > most else Room.WAIT)


def test_memory(tmp_path: Path) -> None:
    """The memory of this process is that of a process like this; where nothing tells it, it is unknown."""
    used = memory_bytes()
    assert used is not None
    assert 10 << 20 < used < 8 << 30
    assert memory_bytes(tmp_path / "nothing") is None
    (tmp_path / "status").write_text("Name:\tpython\n")
    assert memory_bytes(tmp_path / "status") is None


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the number of ioprio_get is that of x86-64")
def test_modesty() -> None:
    """A modest process has the lowest priority and the idle class of the disk, its threads too."""
    program = """
import ctypes, os, threading
from gcs.helper.modesty import be_modest
print(be_modest())
def show():
    me = threading.get_native_id()
    print(os.getpriority(os.PRIO_PROCESS, me), ctypes.CDLL(None).syscall(252, 1, me) >> 13)
show()
thread = threading.Thread(target=show)
thread.start()
thread.join()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["Modesty(nice=True, idle_io=True)", "19 3", "19 3"]


def test_modesty_in_words() -> None:
    """What could be set is said, and what could not is not."""
    assert Modesty(nice=True, idle_io=True).words == "It runs with the lowest priority and idle I/O."
    assert Modesty(nice=True, idle_io=False).words == "It runs with the lowest priority."
    assert Modesty(nice=False, idle_io=False).words == "It runs with the usual priority."


def test_modesty_that_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that may not set its priority, but has the lowest from its manager, says so."""

    def refuse(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(platform, "machine", lambda: "unheard of")
    monkeypatch.setattr(os, "setpriority", refuse)
    monkeypatch.setattr(os, "getpriority", lambda *_: 19)
    assert be_modest().nice
    monkeypatch.setattr(os, "getpriority", lambda *_: 0)
    assert not be_modest().nice


def test_modesty_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a system that knows neither, nothing is set and nothing fails."""
    monkeypatch.delattr(os, "setpriority")
    monkeypatch.setattr(platform, "machine", lambda: "unheard of")
    assert be_modest() == Modesty(nice=False, idle_io=False)
