"""What a monitor needs: 50 gatherers, 5,000 superpages, 200 hosts a second of change, 50 who listen.

    python -m benchmarks.monitor [--gatherers 50] [--superpages 5000] [--hosts 200] [--listeners 50]
                                 [--seconds 40] [--json]

The gatherers are simulated: one process puts up their heartbeats once a second, what they have found as often
as gatherers do, and a new plan in the middle. The monitor is the real one, and what it needs is what it says
itself at /metrics, from one reading to the next. The listeners are another process.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

import httpx
import msgpack
import numpy as np
import trio

from benchmarks.together import gcs_program
from gcs import board as boards
from gcs.board import Board, Pulse
from gcs.config import Config, load
from gcs.core.holdings import Charter, Made
from gcs.core.placement import Plan
from gcs.core.rounds.knowledge import Knowledge
from gcs.core.tree import Expansion
from gcs.core.urls import key
from gcs.gatherer.findings import VERSION, Findings, Host, Page
from gcs.gatherer.telling import EVERY_S, MORE_S
from tuplespace import embedded

_WARM_S = 12.0
_SETTINGS = ("monitor.listen=127.0.0.1:0", "metrics.listen=127.0.0.1:0")
_CPU, _MEMORY = "gcs_cpu_seconds_total", "gcs_memory_bytes"
_METER = re.compile(rf"^({_CPU}|{_MEMORY}) (\S+)$", re.MULTILINE)
_DOMAINS = ("com", "org", "de", "fr", "jp", "uk", "br", "cn")
_LANGUAGES = ("en", "de", "fr", "ja", "pt", "zh")


@dataclass(frozen=True, slots=True)
class Result:
    """What was needed, and what came of it."""

    gatherers: int
    superpages: int
    hosts_per_s: int
    listeners: int
    seconds: float
    cpu_percent: float
    """Of one core."""
    memory_mb: float
    """The most of all readings, one a second."""
    events_per_s: float
    sent_mb_per_s: float
    latest_s: float
    """The longest that an overview took from the look that it is about to a listener."""


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print."""
    options = _options(argv)
    if options.publish:
        trio.run(_publish, options)
    elif options.listen:
        trio.run(_listen, options)
    else:
        result = trio.run(_measure, options)
        if options.json:
            print(json.dumps(asdict(result)))
        else:
            for name, value in asdict(result).items():
                print(f"{name.replace('_', ' '):<14} {value:,}")


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (("gatherers", 50), ("superpages", 5_000), ("hosts", 200), ("listeners", 50)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--publish", default="", help=argparse.SUPPRESS)
    parser.add_argument("--listen", default="", help=argparse.SUPPRESS)
    parser.add_argument("--token", default="", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


# What is measured


async def _measure(options: argparse.Namespace) -> Result:
    with tempfile.TemporaryDirectory(prefix="gcs-monitor-") as place:
        async with embedded.start(Path(place) / "space") as server:
            return await trio.to_thread.run_sync(_measured, options, server.url, Path(place))


def _measured(options: argparse.Namespace, redis: str, place: Path) -> Result:
    numbers = [
        f"--{name}={getattr(options, name)}" for name in ("gatherers", "superpages", "hosts", "listeners")
    ]
    again = [sys.executable, "-m", "benchmarks.monitor", *numbers, f"--seconds={options.seconds}"]
    settings = [word for each in (*_SETTINGS, f"redis.url={redis}") for word in ("-s", each)]
    line = [gcs_program(), "monitor", "--into", str(place / "monitor"), *settings]
    with ExitStack() as stack:
        publisher = stack.enter_context(
            subprocess.Popen([*again, "--publish", redis], stdout=subprocess.PIPE)
        )
        stack.callback(publisher.terminate)
        assert publisher.stdout is not None
        publisher.stdout.readline()
        monitor = stack.enter_context(subprocess.Popen(line, stderr=subprocess.PIPE, text=True))
        stack.callback(monitor.terminate)
        assert monitor.stderr is not None
        metrics, page = "", ""
        while not page:
            said = monitor.stderr.readline()
            if "metrics" in said and (found := re.search(r"http://[0-9.:]+", said)):
                metrics = found[0]
            if said.startswith("To look only: "):
                page = said.split()[-1]
        url, _, token = page.partition("#token=")
        listening = [*again, "--listen", url, "--token", token]
        listeners = stack.enter_context(subprocess.Popen(listening, stdout=subprocess.PIPE, text=True))
        time.sleep(_WARM_S)
        needs, began = [_needs(metrics)], time.monotonic()
        while time.monotonic() < began + options.seconds:
            time.sleep(1.0)
            needs.append(_needs(metrics))
        took = time.monotonic() - began
        said, _ = listeners.communicate()
        heard = json.loads(said)
    return Result(
        gatherers=options.gatherers,
        superpages=options.superpages,
        hosts_per_s=options.hosts,
        listeners=options.listeners,
        seconds=round(took, 1),
        cpu_percent=round(100 * (needs[-1][_CPU] - needs[0][_CPU]) / took, 2),
        memory_mb=round(max(each[_MEMORY] for each in needs) / 1e6, 1),
        **heard,
    )


def _needs(metrics: str) -> dict[str, float]:
    """The processor time and the memory that the monitor says it has used."""
    return {name: float(value) for name, value in _METER.findall(httpx.get(f"{metrics}/metrics").text)}


# Those who listen


async def _listen(options: argparse.Namespace) -> None:
    url = httpx.URL(options.listen)
    request = (
        f"GET {url.path}api/stream HTTP/1.1\r\nHost: {url.netloc.decode()}\r\n"
        f"Authorization: Bearer {options.token}\r\n\r\n"
    ).encode()
    counts = {"events": 0, "bytes": 0}
    delays: list[float] = []
    began = trio.current_time()

    async def one(*, is_first: bool) -> None:
        async with await trio.open_tcp_stream(url.host, url.port or 80) as stream:
            await stream.send_all(request)
            rest = b""
            async for data in stream:
                counts["bytes"] += len(data)
                counts["events"] += data.count(b"event: ")
                if is_first:
                    rest += data
                    *whole, rest = rest.split(b"\n\n")
                    now = time.time()
                    delays.extend(now - float(found) for each in whole for found in _AT.findall(each))

    with trio.move_on_after(_WARM_S + options.seconds):
        async with trio.open_nursery() as nursery:
            for number in range(options.listeners):
                nursery.start_soon(lambda number=number: one(is_first=number == 0))  # type: ignore[misc]
    took = trio.current_time() - began
    heard = {
        "events_per_s": round(counts["events"] / took, 1),
        "sent_mb_per_s": round(counts["bytes"] / took / 1e6, 3),
        "latest_s": round(max(delays[1:], default=0.0), 3),
    }
    print(json.dumps(heard))


_AT = re.compile(rb'"reach":\{[^}]*\},"at":([0-9.]+)')


# Gatherers that are not there


class Crowd:
    """Gatherers of which only what they say exists."""

    def __init__(self, options: argparse.Namespace, random: Random) -> None:
        self._superpages, self.hosts_per_s, self._random = options.superpages, options.hosts, random
        self.ids = [f"{number:012x}" for number in range(options.gatherers)]
        self._found = {each: Findings() for each in self.ids}
        self._pages = dict.fromkeys(self.ids, 0)
        self._beat = round(time.time() * 1000)
        self._hosts = [
            f"www{number}.site{number % 977}.{_DOMAINS[number % len(_DOMAINS)]}"
            for number in range(40 * options.gatherers)
        ]
        self.epoch = 0

    def charter(self) -> Charter:
        """A plan in which each has a part of all superpages."""
        self.epoch = round(time.time() * 1e6)
        # A host has a superpage for its scheme, and one for other schemes.
        hosts = sorted({f"http://s{number}.example.com/" for number in range(self._superpages // 2)})
        expansion = Expansion.from_lines(hosts)
        keys = [key(f"{self._random.choice(hosts)}d{n % 7}/p{n}.html") for n in range(40_000)]
        expansion.visit_many(keys, self._random)
        knowledge = Knowledge(self.ids, expansion)
        knowledge.queued = np.array(expansion.visits) * 0.4
        knowledge.done = np.array(expansion.visits) * 0.6
        for number, each in enumerate(hosts[:2_000]):
            site = key(each).partition("\x01")[0]
            knowledge.learned.observe(site, self.ids[number % len(self.ids)], 0.1 * (1 + number % 9), 10)
        knowledge.learned.learn()
        starts = ["", *(start for start, _ in expansion.boundaries()[1:])]
        owners = [(start, self.ids[number % len(self.ids)]) for number, start in enumerate(starts)]
        before = [
            (start, self.ids[(number + number % 2) % len(self.ids)]) for number, start in enumerate(starts)
        ]
        return Charter(
            epoch=self.epoch,
            owners=Plan.of(owners),
            sources=Plan.of(before),
            members={each: f"g{number}" for number, each in enumerate(self.ids)},
            reason="operator",
            strategy="superpage",
            state=knowledge.to_bytes(),
            expansion=expansion.fresh().to_bytes(),
            forecast={
                "times": dict.fromkeys(self.ids, 60.0),
                "bound": 55.0,
                "moved": 1_000,
                "cut_links": 10,
                "method": "I",
                "superpages": len(expansion.superpages),
            },
            history=[Made(self.epoch, time.time(), "operator", len(self.ids), 100, 1_000)],
        )

    async def beat(self, board: Board) -> None:
        """One heartbeat of each."""
        self._beat += 1
        async with trio.open_nursery() as nursery:
            for number, each in enumerate(self.ids):
                self._pages[each] += self._random.randrange(5, 60)
                nursery.start_soon(board.beat, each, self._beat, self._pulse(number, each))

    def _pulse(self, number: int, gatherer: str) -> Pulse:
        pages = self._pages[gatherer]
        waiting = {self.ids[(number + step) % len(self.ids)]: pages % 97 for step in range(1, 6)}
        counts = {
            "pages": pages,
            "bytes": pages * 9_000,
            "failed": pages // 50,
            "queued": 20_000 + pages % 999,
        }
        return Pulse(
            name=f"g{number}",
            incarnation="0",
            epoch=self.epoch,
            standing="crawling",
            activity=pages,
            pending=waiting,
            applied=dict.fromkeys(self.ids, pages),
            facts={
                **counts,
                "done": pages,
                "dropped": pages // 9,
                "passed": pages * 3,
                "under_way": pages % 128,
                "outbox": pages % 1_000,
                "rate": 30.0 + pages % 7,
                "remaining_s": 600.0 - pages % 60,
                "overhead_percent": 1.2,
                "unanswered_s": 0.1,
                "resting": pages % 300,
                "beat_s": 0.004,
                "rest_s": 0.2,
                "held": 100,
                "barred": [],
                "ignored": {},
            },
        )

    def told(self, gatherer: str, hosts: int) -> bytes:
        """What one has found, with so many hosts that have changed since."""
        found, now = self._found[gatherer], time.time()
        mine = self._hosts[int(gatherer, 16) * 40 :][:40]
        for _ in range(hosts):
            name = self._random.choice(mine)
            row = found.hosts.setdefault(name, Host())
            row.pages, row.bytes, row.at = row.pages + 1, row.bytes + 9_000, now
            row.seconds += self._random.random()
            place, language = name.rpartition(".")[2], self._random.choice(_LANGUAGES)
            found.answered(place, 9_000)
            found.read(place, language, "utf-8", self._random.choice(("utf-8", "iso-8859-1")))
            found.linked(place, self._random.choice(_DOMAINS), 16)
            number = found.places.total()
            text = (
                f"A title of page {number}",
                "x" * 150,
                language,
                "utf-8",
                "utf-8",
                "utf-8",
                200,
                9_000,
                0.3,
            )
            found.pages.append(Page(number, now, f"http://{name}/p{number}.html", name, *text))
        said = {"version": VERSION, "name": f"g{int(gatherer, 16)}", "incarnation": "0"}
        said |= {"sent": dict.fromkeys(self.ids, 100), "traffic": (10_000, 20_000, 3_000_000)}
        packed: bytes = msgpack.packb({**said, **found.told(now)})
        return packed


async def _publish(options: argparse.Namespace) -> None:
    config: Config = load(overrides=[f"redis.url={options.publish}"], environ={}).config
    crowd = Crowd(options, Random(7))
    async with boards.opened(config) as board:
        await board.publish(crowd.charter())
        await crowd.beat(board)
        print("ready", flush=True)
        every_s = EVERY_S + MORE_S * options.gatherers
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_beat_on, crowd, board)
            nursery.start_soon(_plan_once, crowd, board, _WARM_S + options.seconds / 2)
            for number, each in enumerate(crowd.ids):
                nursery.start_soon(_tell_on, crowd, board, each, every_s, number / len(crowd.ids) * every_s)


async def _beat_on(crowd: Crowd, board: Board) -> None:
    while True:
        began = trio.current_time()
        await crowd.beat(board)
        await trio.sleep_until(began + 1.0)


async def _plan_once(crowd: Crowd, board: Board, after_s: float) -> None:
    await trio.sleep(after_s)
    await board.publish(await trio.to_thread.run_sync(crowd.charter))


async def _tell_on(crowd: Crowd, board: Board, gatherer: str, every_s: float, first_s: float) -> None:
    await trio.sleep(first_s)
    hosts = round(crowd.hosts_per_s / len(crowd.ids) * every_s)
    while True:
        await board.tell(gatherer, crowd.told(gatherer, hosts))
        await trio.sleep(every_s)


if __name__ == "__main__":
    main()
