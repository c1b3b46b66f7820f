"""The acts `partition` and `apart`: two groups of gatherers are cut off from Redis, and so from each other.

First one group, then both. Nobody hears of that: what they send is lost on its way. They go on with what they
own, and with the crawl when they are connected again.

Or a group is cut off for longer than gatherers are remembered. It stops fetching before that; the other takes
over what it had and fetches it again, and gets what it has when it is back.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from gcs.simulate.verdict import read_log
from tests.crawling import server
from tests.gatherers import gatherers
from tests.networks import HUB, CannotConnect, Network, network
from tests.servers import PASSWORD, redis_server
from tests.soak import Failed, Skipped
from tests.soak.progress import Progress
from tests.soak.trial import SETTINGS, Trial

WEST, EAST = "west", "east"
MEMBERS: Final = {WEST: ("one", "two"), EAST: ("three",)}
LATENCY_MS: Final = 50.0
_PORT: Final = 6379
CUT_S: Final = 3.0
"""Longer than operations wait for Redis here."""


@dataclass(frozen=True, slots=True)
class _Parting:
    """A crawl whose gatherers can be parted."""

    trial: Trial
    network: Network

    def cut(self, *groups: str, until_missed: bool = False) -> int:
        """Cut groups off for a while, or until they are missed; gives what they fetched meanwhile."""
        trial, names = self.trial, [name for group in groups for name in MEMBERS[group]]
        began = time.time()
        for group in groups:
            self.network.cut(group)
        # What was sent just before may still be heard.
        trial.until(lambda: time.time() > began + CUT_S / 3, "a moment")
        beats = self._beats()
        trial.until(lambda: time.time() > began + CUT_S, "the time")
        if until_missed:
            trial.until_missed(names)
        if any(self._beats()[name] > beats[name] for name in names):
            raise Failed("those who were cut off could be heard")
        for group in groups:
            self.network.heal(group)
        fetched = sum(each.agent in names and each.start > began for each in read_log(trial.served.log))
        trial.until(lambda: all(self._beats()[name] > beats[name] for name in names), "all to be back")
        if until_missed:
            trial.excuse_loss(names, began)
        return fetched

    def _beats(self) -> dict[str, int]:
        return {name: member.beat for name, member in self.trial.group.members().items()}


def part(pages: int, hosts: int, rng: random.Random, progress: Progress, *, times: int = 1) -> str:
    """Cut one group off, then both; gives the verdict, or raises Failed or Skipped."""
    with _parting(pages, hosts, rng, progress) as parting:
        trial, fetched = parting.trial, list[int]()
        for number in range(times):
            share = 0.2 + 0.6 * number / times
            trial.at(share, "one group is cut off", lambda: fetched.append(parting.cut(WEST)))
            share += 0.3 / times
            trial.at(share, "both groups are", lambda: fetched.append(parting.cut(WEST, EAST)))
        trial.end()
        verdict = trial.verdict("nothing was fetched by those who were cut off" if not sum(fetched) else "")
        return f"{2 * times} cuts, during which {sum(fetched)} pages were fetched; {verdict}"


def be_apart(pages: int, hosts: int, rng: random.Random, progress: Progress, *, forget_after_s: float) -> str:
    """Cut one group off until it is thought lost; gives the verdict, or raises Failed or Skipped."""
    with _parting(pages, hosts, rng, progress, f"member.forget_after={forget_after_s:.1f}s") as parting:
        trial = parting.trial
        trial.at(0.3, "one group is cut off", lambda: parting.cut(WEST, until_missed=True))
        trial.end()
        return f"{len(MEMBERS[WEST])} were cut off, thought lost, and connected again; {trial.verdict()}"


@contextmanager
def _parting(
    pages: int, hosts: int, rng: random.Random, progress: Progress, *settings: str
) -> Iterator[_Parting]:
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        try:
            made = stack.enter_context(network(list(MEMBERS)))
        except CannotConnect as error:
            raise Skipped(str(error)) from error
        hub = made.within(HUB)
        seed = rng.randrange(1000)
        web = server(place / "web", seed, hosts=hosts, pages=pages, latency_ms=LATENCY_MS, within=hub)
        served = stack.enter_context(web)
        # We reach it by its socket, for namespaces are about networks only.
        listen = [f"port {_PORT}", f"bind {' '.join(map(made.address, MEMBERS))}"]
        redis = stack.enter_context(redis_server("redis", unix_socket=True, extra=listen, within=hub))
        wanted = [*SETTINGS, "redis.timeout=2s", "fetch.per_host=4", *settings]
        group = stack.enter_context(gatherers(redis, served, place / "gatherers", wanted))
        trial = Trial(group, served, progress)
        for side, names in MEMBERS.items():
            url = f"redis://:{quote(PASSWORD, safe='')}@{made.address(side)}:{_PORT}/0"
            for name in names:
                trial.start(name, f"redis.url={url}", within=made.within(side))
        group.seed(served.web.seeds)
        group.until(lambda members: len(members) == len(group.processes), "all members")
        yield _Parting(trial, made)
