"""The act `network`: connections to Redis are cut, refused and delayed, and replies are lost on their way.

Each gatherer has a network of its own, so that what happens to one does not happen to the others. Nothing
that was asked is done twice, and nothing is lost: a request without a reply is sent again with its number.
"""

from __future__ import annotations

import queue
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import trio

from tests.crawling import server
from tests.gatherers import gatherers
from tests.proxy import Proxy, between
from tests.servers import Node, redis_server
from tests.soak.progress import Progress
from tests.soak.trial import SETTINGS, Trial

TIMEOUT_S: Final = 2.0
"""How long a gatherer waits for Redis before an operation fails."""
_NAMES: Final = ("one", "two", "three")
_CALL: Final = b"FCALL"


class Way:
    """The network of one gatherer, for another thread than that in which it is."""

    def __init__(self, proxy: Proxy, token: trio.lowlevel.TrioToken) -> None:
        self._proxy, self._token = proxy, token
        self.url = proxy.url

    def _call(self, act: Callable[[], object]) -> None:
        trio.from_thread.run_sync(act, trio_token=self._token)

    def cut(self, _: float) -> None:
        """Close all connections."""
        trio.from_thread.run(self._proxy.cut, trio_token=self._token)

    def refuse(self, for_s: float) -> None:
        """Close all connections, and accept none for a while."""
        trio.from_thread.run(partial(self._proxy.cut, refuse=True), trio_token=self._token)
        time.sleep(for_s)
        self._call(self._proxy.accept)

    def delay(self, for_s: float) -> None:
        """Hold all replies back for a while."""
        self._call(self._proxy.hold_replies)
        time.sleep(for_s)
        self._call(self._proxy.release)

    def hush(self, for_s: float) -> None:
        """Hold back for a while what tells of new tuples."""
        self._call(self._proxy.hold_mail)
        time.sleep(for_s)
        self._call(self._proxy.release)

    def lose(self, _: float) -> None:
        """Let what is asked for next be done, and cut the connection instead of answering."""
        self._call(partial(self._proxy.lose_reply_to, _CALL))


@contextmanager
def ways(node: Node, count: int) -> Iterator[list[Way]]:
    """As many networks to one server, in a thread of their own."""
    made: queue.Queue[tuple[Sequence[Proxy], trio.lowlevel.TrioToken, trio.Event]] = queue.Queue()

    async def run() -> None:
        async with AsyncExitStack() as stack:
            proxies = [await stack.enter_async_context(between(node)) for _ in range(count)]
            over = trio.Event()
            made.put((proxies, trio.lowlevel.current_trio_token(), over))
            await over.wait()

    thread = threading.Thread(target=trio.run, args=(run,))
    thread.start()
    proxies, token, over = made.get(timeout=30)
    try:
        yield [Way(proxy, token) for proxy in proxies]
    finally:
        trio.from_thread.run_sync(over.set, trio_token=token)
        thread.join()


def disturb(pages: int, hosts: int, rng: random.Random, progress: Progress, *, for_s: float) -> str:
    """Disturb the network of some gatherers for a while; gives the verdict or raises Failed."""
    settings = [*SETTINGS, f"redis.timeout={TIMEOUT_S:.0f}s"]
    with (
        tempfile.TemporaryDirectory() as place,
        server(Path(place, "web"), rng.randrange(1000), hosts=hosts, pages=pages, latency_ms=50) as served,
        redis_server("redis") as redis,
        ways(redis, len(_NAMES)) as networks,
        gatherers(redis, served, Path(place, "gatherers"), settings) as group,
    ):
        trial = Trial(group, served, progress)
        for name, way in zip(_NAMES, networks, strict=True):
            trial.start(name, f"redis.url={way.url}")
        group.seed(served.web.seeds)
        happened: Counter[str] = Counter()
        trial.at(0.1, "the network gets bad", lambda: _disturb(trial, networks, rng, for_s, happened))
        trial.end()
        shown = ", ".join(f"{count} times {what}" for what, count in sorted(happened.items()))
        return f"{shown}; {trial.verdict()}"


def _disturb(
    trial: Trial, networks: Sequence[Way], rng: random.Random, for_s: float, happened: Counter[str]
) -> None:
    """Do this and that to the networks for a while."""
    until = time.monotonic() + for_s
    kinds = [Way.cut, Way.refuse, Way.delay, Way.hush, Way.lose]
    while time.monotonic() < until:
        for act in rng.sample(kinds, len(kinds)):
            happened[act.__name__] += 1
            trial.show(f"{act.__name__}, {happened.total()} so far")
            # Sometimes longer than operations wait.
            act(rng.choice(networks), rng.choice([0.1, 0.3, 1.0, 1.5 * TIMEOUT_S]))
            time.sleep(rng.uniform(0, 0.2))
