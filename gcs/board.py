"""The notice board of a crawl: what its gatherers, its leader and its operators say to all, as tuples.

    ("member", id, beat, pulse, at)         one per gatherer; the beat grows with every heartbeat
    ("now", what, epoch, data)              what is in force: the charter, a call, rulings, the end…
    ("charter", epoch, part, parts, bytes)  a plan in parts, for a tuple has a largest size
    ("posted", what)                        all parts of it are there; this becomes what is in force
    ("report", token, id, part, parts, …)   what a gatherer answers to a call
    ("rebalance", reason, who, method)      somebody wants a new plan
    ("order", to, number, kind, arguments)  what one gatherer is asked to do
    ("answer", number, from, data)          and what came of it
    ("told", id, data)                      what a gatherer has found, while somebody watches

Seeds are in a space of their own, `("seed", urls)`, so that the end is not declared while one is leased. So
are turns (`gcs.gatherer.turns`) and domains (`gcs.gatherer.proximity`). URLs between gatherers do not go
here, but into each one's inbox, a space of its own. Whatever stands here may be lost with Redis: gatherers
know on their disks what they need, and put it up again.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple

import msgpack
import trio

import tuplespace
from gcs import spaces
from gcs.config import Config
from gcs.core.holdings import Charter
from gcs.core.rulings import Rulings
from gcs.traffic import Traffic
from gcs.world import REAL, World
from tuplespace import Fence, Unavailable, election

LEADER: Final = "leader"
CHARTER: Final = "charter"
CALL: Final = "call"
OVER: Final = b"over"
"""Said of a call: no plan came of it, and none will."""
DRY: Final = b"dry"
"""And of one of which none was to come."""
RULINGS: Final = "rulings"
FINISHED: Final = "finished"
WATCHED: Final = "watched"
RANKED: Final = "ranked"
"""When a ranking was last begun."""
UNSAID: Final = -1
"""What somebody of an earlier version does not say."""
WATCHED_S: Final = 30.0
"""Who watches says so again within a third of this."""
_INDEX: Final = {
    "member": (1, 2),
    "now": (1,),
    "charter": (1,),
    "posted": (1,),
    "report": (1, 2),
    "order": (1,),
    "answer": (1,),
    "told": (1,),
}
_INBOX: Final = {"batch": (1,)}
_TURNS: Final = {"turn": (1, 2), "mark": (1, 2)}
_DOMAINS: Final = {"announce": (1,), "delay": (1,), "domain": (1, 2, 5)}
_PART_BYTES: Final = 256 << 10
_REPORT_TTL_S: Final = 120.0
_POSTED_TTL_S: Final = 120.0
_POSTINGS: Final = 3
"""How often a plan is put up that Redis loses while that is done."""
_ANSWER_TTL_S: Final = 60.0
_POLL_S: Final = 0.1
_RULING_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Pulse:
    """What a gatherer says of itself with every heartbeat."""

    name: str
    incarnation: str
    """Another one after every start."""
    started: float = 0.0
    """When this incarnation began, in Unix time."""
    epoch: int = 0
    """That of the charter it has adopted."""
    rulings: int = 0
    """The epoch of the rulings that are in force there."""
    standing: str = "joining"
    """joining, crawling, paused, draining, left, finished, caught up."""
    applied: Mapping[str, int] = field(default_factory=dict)
    """By sender: the last batch that is on disk."""
    quiet: bool = False
    ended: bool = False
    """Whether it has seen that all is done."""
    met: int = 0
    """The start of the server of turns, if it relies on no lease that this may have forgotten."""
    board_start: int = UNSAID
    """The start of the board's server that it knew of when this was made; 0 for none yet."""
    heading: int = 0
    """The epoch of the newest charter that it follows, or may follow soon."""
    activity: int = 0
    forget_after_s: float = 0.0
    """It stops fetching before it has been silent for so long; nobody forgets it sooner."""
    leaving: Mapping[str, int] = field(default_factory=dict)
    """Ranges that are on their way, by receiver."""
    coming: Mapping[str, int] = field(default_factory=dict)
    """The same, by sender."""
    pending: Mapping[str, int] = field(default_factory=dict)
    """By receiver: URLs that wait in the outbox."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Statistics, by name."""

    def to_bytes(self) -> bytes:
        """As it is sent."""
        packed: bytes = msgpack.packb({name: getattr(self, name) for name in _PULSE})
        return packed

    @classmethod
    def from_bytes(cls, data: bytes) -> Pulse:
        """What `to_bytes` gave; what a newer version says beside that is left out."""
        said = msgpack.unpackb(data)
        return cls(**{name: value for name, value in said.items() if name in _PULSE})


_PULSE: Final = dict.fromkeys(each.name for each in fields(Pulse))


@dataclass(frozen=True, slots=True)
class Member:
    """A gatherer as the others see it."""

    id: str
    beat: int
    pulse: Pulse
    at: float = 0.0
    """When it last beat, by its own clock: for people, who know how far clocks differ."""


def left_of(members: Mapping[str, Member]) -> set[str]:
    """The ids of those that say that they have left."""
    return {each for each, member in members.items() if member.pulse.standing == "left"}


class Wish(NamedTuple):
    """Somebody wants a new plan."""

    reason: str
    who: str
    """The name of a gatherer; with the reason `OPERATOR` of `gcs.core.reasons`, what that one says."""
    method: str = ""
    """How to partition; "" leaves it to the configuration of whoever leads."""


class Board:
    """The board of one crawl."""

    def __init__(self, client: tuplespace.Spaces, config: Config, world: World = REAL) -> None:
        self.client, self._config, self._world = client, config, world
        self.space = spaces.space(client, config, "board", index=_INDEX)
        self.seeds = spaces.space(client, config, "seeds")
        self.turns = spaces.space(client, config, "turns", index=_TURNS)
        self.domains = spaces.space(client, config, "domains", index=_DOMAINS)
        self._inboxes: dict[str, tuplespace.Space] = {}
        self._pulses: dict[str, tuple[bytes, Pulse]] = {}
        self.traffic = Traffic()
        """What this process has written and read here, and by `Exchange`."""

    def inbox(self, gatherer: str) -> tuplespace.Space:
        """Where a gatherer gets its URLs."""
        if gatherer not in self._inboxes:
            self._inboxes[gatherer] = spaces.space(
                self.client, self._config, f"inbox:{gatherer}", index=_INBOX
            )
        return self._inboxes[gatherer]

    def unreadable(self, gatherer: str) -> int:
        """What this process found here, and in a gatherer's inbox, in place of tuples, and dropped."""
        here = (self.space, self.seeds, self.turns, self.domains, self.inbox(gatherer))
        return sum(each.unreadable for each in here)

    # Members

    async def beat(self, gatherer: str, beat: int, pulse: Pulse) -> None:
        """Say that this gatherer lives."""
        said = ("member", gatherer, beat, pulse.to_bytes(), self._world.now())
        if await self.space.swap(("member", gatherer, int, bytes, float), said) is None:
            await self.space.out(*said)
        self.traffic.wrote(*said)

    async def members(self) -> dict[str, Member]:
        """All that are there, or were."""
        found: dict[str, Member] = {}
        async for _, gatherer, beat, pulse, at in self.space.scan("member", str, int, bytes, float):
            assert isinstance(gatherer, str)
            assert isinstance(beat, int)
            assert isinstance(pulse, bytes)
            assert isinstance(at, float)
            self.traffic.read("member", gatherer, beat, pulse, at)
            if gatherer in found:
                # A heartbeat whose outcome was unknown, or one that has come while this looks.
                await self.space.inp("member", gatherer, min(beat, found[gatherer].beat), bytes, float)
            if gatherer not in found or beat > found[gatherer].beat:
                found[gatherer] = Member(gatherer, beat, self._pulse(gatherer, pulse), at)
        self._pulses = {each: said for each, said in self._pulses.items() if each in found}
        return found

    def _pulse(self, gatherer: str, data: bytes) -> Pulse:
        """What a gatherer says of itself, unpacked once for as long as it says the same."""
        said = self._pulses.get(gatherer)
        if said is None or said[0] != data:
            said = self._pulses[gatherer] = data, Pulse.from_bytes(data)
        return said[1]

    # What is in force

    async def now(self) -> dict[str, tuple[int, bytes]]:
        """Everything that is in force, by name, each with its epoch."""
        found: dict[str, tuple[int, bytes]] = {}
        async for _, what, epoch, data in self.space.scan("now", str, int, bytes):
            assert isinstance(what, str)
            assert isinstance(epoch, int)
            assert isinstance(data, bytes)
            self.traffic.read("now", what, epoch, data)
            if what not in found or epoch > found[what][0]:
                found[what] = (epoch, data)
        return found

    async def put_up(self, what: str, epoch: int, data: bytes = b"", *, fence: Fence | None = None) -> None:
        """Let something be in force from now on."""
        said = ("now", what, epoch, data)
        if await self.space.swap(("now", what, int, bytes), said, fence=fence) is None:
            await self.space.out(*said, fence=fence)
        self.traffic.wrote(*said)

    async def take_down(self, what: str) -> None:
        """Let something be in force no more."""
        while await self.space.inp("now", what, int, bytes) is not None:
            pass

    async def rule(self, change: Callable[[Rulings, int], Rulings]) -> Rulings:
        """Change the rulings; `change` gets those in force and the epoch of the new ones.

        One at a time, so that no operator overwrites what another one ruled meanwhile.
        """
        async with election(self.space, RULINGS, lease=_RULING_S) as turn:
            _, data = (await self.now()).get(RULINGS, (0, b""))
            before = Rulings.from_bytes(data)
            # Beyond all that were ever put up, also when Redis has lost them.
            rulings = change(before, max(before.epoch + 1, int(self._world.now() * 1e6)))
            if rulings is not before:
                await self.put_up(RULINGS, rulings.epoch, rulings.to_bytes(), fence=turn.fence)
        return rulings

    async def publish(self, charter: Charter, *, fence: Fence | None = None, is_elected: bool = True) -> None:
        """Put up a charter; raises Fenced when somebody was elected since, unless a later fence is given.

        Only who `is_elected` takes down what was there before. Several that did so at once would take down
        each other's; what is older than something else there means nothing to anybody.
        """
        fence = fence or Fence(LEADER, charter.epoch)
        parts = _parts(zlib.compress(charter.to_bytes(), 1))
        rows = [("charter", charter.epoch, n, len(parts), part) for n, part in enumerate(parts)]
        before = await self.now()
        for _ in range(_POSTINGS):
            if await self._put_up_whole(charter.epoch, rows, fence):
                break
        else:
            raise Unavailable("a plan was lost again and again while it was put up")
        if not is_elected:
            return
        while await self.space.count("now", CHARTER, int, bytes) > 1:
            await self.space.inp("now", CHARTER, int, bytes)  # the oldest
        old = before.get(CHARTER, (0, b""))[0]
        while old < charter.epoch and await self.space.inp("charter", old, int, int, bytes) is not None:
            pass

    async def _put_up_whole(self, epoch: int, rows: Sequence[Sequence[Any]], fence: Fence) -> bool:
        """Let a charter be in force with all of its parts, or say that Redis has lost some of them.

        What was posted after the parts is lost with them: if it is there when it gives way to what is in
        force, so are they, whatever Redis has lost since they were seen.
        """
        posted = ("posted", f"{epoch} {self._world.token(8)}")
        await self.space.out_many(rows, fence=fence)
        await self.space.out(*posted, ttl=_POSTED_TTL_S, fence=fence)
        for row in (*rows, posted):
            self.traffic.wrote(*row)
        if await self.charter(epoch) is None:
            return False
        return await self.space.swap(posted, ("now", CHARTER, epoch, b""), fence=fence) is not None

    async def charter(self, epoch: int) -> Charter | None:
        """A charter; None if it is not, or no longer, there as a whole."""
        found = [row async for row in self.space.scan("charter", epoch, int, int, bytes)]
        for row in found:
            self.traffic.read(*row)
        data = _joined((row[2], row[3], row[4]) for row in found)
        return None if data is None else Charter.from_bytes(zlib.decompress(data))

    # Reports

    async def report(self, token: int, gatherer: str, data: bytes) -> None:
        """Answer a leader's call."""
        parts = _parts(zlib.compress(data, 1))
        rows = [("report", token, gatherer, n, len(parts), part) for n, part in enumerate(parts)]
        await self.space.out_many(rows, ttl=_REPORT_TTL_S)
        for row in rows:
            self.traffic.wrote(*row)

    async def reports(self, token: int, expected: Iterable[str], deadline_s: float) -> dict[str, bytes]:
        """The answers to a call, until all have come or the time is up."""
        missing, found = set(expected), dict[str, bytes]()
        with trio.move_on_after(deadline_s):
            while missing:
                for gatherer in sorted(missing):
                    rows = [row async for row in self.space.scan("report", token, gatherer, int, int, bytes)]
                    for row in rows:
                        self.traffic.read(*row)
                    data = _joined((row[3], row[4], row[5]) for row in rows)
                    if data is not None:
                        found[gatherer] = zlib.decompress(data)
                        missing.discard(gatherer)
                if missing:
                    await trio.sleep(_POLL_S)
        return found

    # What is found

    async def watch(self) -> None:
        """Say that somebody watches."""
        await self.put_up(WATCHED, int(self._world.now() * 1e6))

    async def tell(self, gatherer: str, data: bytes) -> None:
        """Put up what a gatherer has found, in place of what it said before."""
        if await self.space.swap(("told", gatherer, bytes), ("told", gatherer, data)) is None:
            await self.space.out("told", gatherer, data)

    async def told(self) -> dict[str, bytes]:
        """What gatherers have found, by id."""
        return {str(row[1]): bytes(row[2]) async for row in self.space.scan("told", str, bytes)}  # type: ignore[arg-type] # as the template says

    # Wishes, seeds, orders

    async def ask_for_plan(self, reason: str, who: str, *, method: str = "") -> None:
        """Ask for a new plan, unless the same was asked for and not answered yet."""
        asked = {(wish[1], wish[3]) async for wish in self.space.scan("rebalance", str, str, str)}
        if (reason, method) not in asked:
            wish = ("rebalance", *Wish(reason, who, method))
            await self.space.out(*wish)
            self.traffic.wrote(*wish)

    async def seed(self, urls: Iterable[str]) -> int:
        """Give the crawl URLs to begin with; says how many."""
        waiting = list(urls)
        for at in range(0, len(waiting), 1000):
            await self.seeds.out("seed", msgpack.packb(waiting[at : at + 1000]))
        return len(waiting)

    async def waiting_seeds(self) -> tuple[list[str], int]:
        """The seeds that nobody has taken, and how many bundles of others are being taken."""
        waiting = [url async for _, urls in self.seeds.scan("seed", bytes) for url in msgpack.unpackb(urls)]
        return waiting, (await self.seeds.statistics()).leased

    async def seeds_wait(self) -> bool:
        """Whether there are seeds that no gatherer has on its disk, taken or not."""
        statistics = await self.seeds.statistics()
        return bool(statistics.waiting or statistics.leased)

    async def order(
        self, to: str, number: str, kind: str, arguments: Mapping[str, Any], *, within_s: float
    ) -> None:
        """Ask one gatherer to do something, and not to begin with it later than within some time."""
        await self.space.out("order", to, number, kind, msgpack.packb(dict(arguments)), ttl=within_s)

    async def answer(self, number: str, gatherer: str, data: Mapping[str, Any]) -> None:
        """Say what came of an order."""
        await self.space.out("answer", number, gatherer, msgpack.packb(dict(data)), ttl=_ANSWER_TTL_S)

    async def answers(
        self, number: str, expected: Iterable[str], deadline_s: float
    ) -> dict[str, dict[str, Any]]:
        """What came of an order, from those who answer in time."""
        missing, found = set(expected), dict[str, dict[str, Any]]()
        with trio.move_on_after(deadline_s):
            while missing:
                _, _, gatherer, data = await self.space.in_("answer", number, str, bytes)
                found[str(gatherer)] = msgpack.unpackb(data)
                missing.discard(str(gatherer))
        return found


@asynccontextmanager
async def opened(config: Config) -> AsyncIterator[Board]:
    """The board of the configured crawl, on the configured Redis."""
    async with spaces.connect(config, config.redis.url) as client:
        yield Board(client, config)


def _parts(data: bytes) -> list[bytes]:
    return [data[at : at + _PART_BYTES] for at in range(0, len(data), _PART_BYTES)] or [b""]


def _joined(rows: Iterable[tuple[Any, Any, Any]]) -> bytes | None:
    """The whole from (number, of how many, bytes); None if a part is missing."""
    found: dict[int, bytes] = {}
    count = -1
    for number, count, part in rows:  # noqa: B007 - they all say the same
        found[number] = part
    if len(found) != count:
        return None
    return b"".join(found[number] for number in range(count))
