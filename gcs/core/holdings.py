"""What a gatherer holds: the state of every range of keys, and how a new charter changes it.

Holdings are facts, a charter is an intention. A range is *held* (fetched from), *leaving* for its new owner,
*coming* from its old one, or *foreign*. Only what is held is fetched. What leaves or comes is fetched by
nobody until the last row has arrived, so no page is fetched by two.

A charter is what a leader publishes: for each range its owner, and the source that held it before, or "" when
nobody did or its holder was lost. Everything here is a value: adopting a charter gives new holdings.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final, NamedTuple

import msgpack

from gcs.core.plan import Plan
from gcs.core.urls import AFTER, PATH

NOBODY: Final = ""
VERSION: Final = 1


class Standing(StrEnum):
    """What a gatherer has to do with a range."""

    HELD = "held"
    LEAVING = "leaving"
    COMING = "coming"
    FOREIGN = "foreign"


class Extent(StrEnum):
    """How much of something may be fetched."""

    ALL = "all"
    SOME = "some"
    NONE = "none"


class Piece(NamedTuple):
    """A range of keys [start, end), to the end of everything if that is None, and how it stands."""

    start: str
    end: str | None
    standing: Standing
    peer: str
    """To whom it is leaving, or from whom it is coming."""


_Value = tuple[Standing, str]
_HELD: Final[_Value] = (Standing.HELD, NOBODY)
_FOREIGN: Final[_Value] = (Standing.FOREIGN, NOBODY)
_ON_ITS_WAY: Final = frozenset({Standing.LEAVING, Standing.COMING})
Range = tuple[str, str | None]
"""Keys from one to before another; None is the end of everything."""


class Made(NamedTuple):
    """A plan that was made: what is remembered of it after it was replaced."""

    epoch: int
    at: float
    """The Unix time by the clock of whoever led."""
    reason: str
    gatherers: int
    ranges: int
    """Those that changed hands."""
    urls: int
    """About how many URLs went with them."""


def overlap(one: Range, other: Range) -> bool:
    """Whether two ranges have something in common."""
    return (other[1] is None or one[0] < other[1]) and (one[1] is None or other[0] < one[1])


class _Cover:
    """Ranges, to be asked for single keys."""

    def __init__(self, ranges: Iterable[Range]) -> None:
        self._ranges: list[Range] = []
        """Without those that overlap."""
        for start, end in sorted(ranges, key=lambda each: each[0]):
            begun, until = self._ranges[-1] if self._ranges else ("", "")
            if until is not None and start >= until:
                self._ranges.append((start, end))
            else:
                self._ranges[-1] = (begun, None if until is None or end is None else max(until, end))
        self._starts = [start for start, _ in self._ranges]
        self.borders = {*self._starts, *(end for _, end in self._ranges if end is not None)}

    def has(self, key: str) -> bool:
        """Whether a key is in one of them."""
        at = bisect.bisect_right(self._starts, key) - 1
        return at >= 0 and ((end := self._ranges[at][1]) is None or key < end)


@dataclass(frozen=True, slots=True)
class Charter:
    """A plan as it is published: who owns what, who held it before, and all that the next leader needs."""

    epoch: int
    owners: Plan
    sources: Plan
    """Who holds each range as the charter is made, as facts; NOBODY for none, or one that was lost."""
    members: Mapping[str, str]
    """Ids of those that may own something, and their names."""
    lost: Sequence[tuple[str, str | None]] = ()
    """Ranges whose rows were lost: what was passed to them has to be passed on again."""
    departed: Sequence[str] = ()
    """Ids of members that were lost with their disks, or have left for good."""
    destroyed: Mapping[str, int] = field(default_factory=dict)
    """Those of them that have not left, but were lost, and the epoch of the first charter that said so.

    Of one that was back meanwhile, the first since then.
    """
    reason: str = ""
    strategy: str = ""
    state: bytes = b""
    expansion: bytes = b""
    forecast: Mapping[str, Any] = field(default_factory=dict)
    probes: Sequence[tuple[str, str]] = ()
    """Sites, each with a gatherer that does not own it and is to try it."""
    history: Sequence[Made] = ()
    """The last plans, this one included, the oldest first."""

    def is_lost(self, sender: str, epoch: int) -> bool:
        """Whether the rows that somebody has sent, by some charter, were lost as its disk was."""
        return epoch < self.destroyed.get(sender, 0)

    @property
    def fruitless(self) -> int:
        """How many plans in a row have moved nothing, this one the last."""
        moving = (back for back, made in enumerate(reversed(self.history)) if made.urls)
        return next(moving, len(self.history))

    def to_bytes(self) -> bytes:
        """As it is published, with a version."""
        packed: bytes = msgpack.packb(
            {
                "version": VERSION,
                "epoch": self.epoch,
                "owners": list(self.owners),
                "sources": list(self.sources),
                "members": dict(self.members),
                "lost": list(self.lost),
                "departed": list(self.departed),
                "destroyed": dict(self.destroyed),
                "reason": self.reason,
                "strategy": self.strategy,
                "state": self.state,
                "expansion": self.expansion,
                "forecast": dict(self.forecast),
                "probes": list(self.probes),
                "history": list(self.history),
            }
        )
        return packed

    @classmethod
    def from_bytes(cls, data: bytes) -> Charter:
        """What `to_bytes` gave; raises ValueError for anything else or another version."""
        try:
            said: dict[str, Any] = msgpack.unpackb(data, use_list=False)
            version = said.pop("version")
            if version != VERSION:
                raise ValueError(f"a charter of version {version}; this program reads version {VERSION}")
            for name in ("owners", "sources"):
                said[name] = Plan.of(said[name])
            destroyed = said.get("destroyed", {})
            # Who was lost was named alone in earlier versions; its charter says it at the latest.
            is_named = not isinstance(destroyed, dict)
            said["destroyed"] = dict.fromkeys(destroyed, said["epoch"]) if is_named else destroyed
            if not all(isinstance(by, int) for by in said["destroyed"].values()):
                raise ValueError("a charter that says of who was lost no epoch")
            said["history"] = [Made(*each) for each in said.get("history", ())]
            return cls(**said)
        except (KeyError, TypeError, AttributeError, msgpack.exceptions.UnpackException) as error:
            raise ValueError("these are not the bytes of a charter") from error


class Holdings:
    """The standing of every range, for one gatherer."""

    def __init__(self, pieces: Iterable[tuple[str, _Value]] = (("", _FOREIGN),)) -> None:
        """From (start, standing) in order, the first of which is the empty key."""
        self._starts: list[str] = []
        self._values: list[_Value] = []
        for start, value in pieces:
            if not self._values or self._values[-1] != value:
                self._starts.append(start)
                self._values.append(value)
        if not self._starts or self._starts[0] != "":
            raise ValueError("holdings begin with the empty key")
        self.is_settled = not any(value[0] in _ON_ITS_WAY for value in self._values)
        """Whether no range is leaving or coming."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Holdings) and self.pieces() == other.pieces()

    __hash__ = None  # type: ignore[assignment] # it is compared, not looked up

    # Questions

    def standing(self, key: str) -> Standing:
        """How the range of a key stands."""
        return self._values[bisect.bisect_right(self._starts, key) - 1][0]

    def may_fetch(self, key: str) -> bool:
        """Whether a key may be fetched here and now."""
        return self._values[bisect.bisect_right(self._starts, key) - 1][0] is Standing.HELD

    def extent(self, host: str) -> Extent:
        """How much of a host may be fetched."""
        first = bisect.bisect_right(self._starts, host + PATH) - 1
        last = bisect.bisect_left(self._starts, host + AFTER)
        held = [self._values[at] == _HELD for at in range(first, max(last, first + 1))]
        return Extent.ALL if all(held) else Extent.SOME if any(held) else Extent.NONE

    def hold_all(self, start: str, end: str) -> bool:
        """Whether everything in a range is held."""
        first = bisect.bisect_right(self._starts, start) - 1
        last = bisect.bisect_left(self._starts, end)
        return all(self._values[at] == _HELD for at in range(first, max(last, first + 1)))

    def has(self, standing: Standing, place: Range) -> bool:
        """Whether something of a range stands so."""
        start, end = place
        first = bisect.bisect_right(self._starts, start) - 1
        last = len(self._starts) if end is None else bisect.bisect_left(self._starts, end)
        return any(self._values[at][0] is standing for at in range(first, max(last, first + 1)))

    def pieces(self, *standings: Standing) -> list[Piece]:
        """The ranges with one of these standings, or all."""
        ends = (*self._starts[1:], None)
        return [
            Piece(start, end, *value)
            for start, end, value in zip(self._starts, ends, self._values, strict=True)
            if not standings or value[0] in standings
        ]

    # Changes

    def adopted(self, charter: Charter, me: str) -> Holdings:
        """After a charter was adopted.

        A range that is held and has another owner now is leaving; one that comes from someone else is
        coming. What nobody held, or was lost, is held at once. Of what was coming from someone who was lost,
        a part may be here: its owner gets it like any other.
        """
        starts = sorted({*self._starts, *charter.owners.starts, *charter.sources.starts})
        return Holdings(
            (
                start,
                _after(
                    self._values[bisect.bisect_right(self._starts, start) - 1],
                    charter.owners.owner(start),
                    charter.sources.owner(start),
                    me,
                ),
            )
            for start in starts
        )

    def arrived(
        self, ends: Sequence[tuple[str, Range]], owners: Plan, me: str, *, rows: Sequence[Range] = ()
    ) -> Holdings:
        """After the end markers of ranges, by sender: what was coming from that sender is held.

        Rows that came for a range which has another owner by now have to go on to that one, also if no end
        marker follows them: `rows` says where there are some.
        """
        markers: dict[str, list[Range]] = {}
        for sender, place in ends:
            markers.setdefault(sender, []).append(place)
        cover = {sender: _Cover(places) for sender, places in markers.items()}
        every = _Cover([*(place for _, place in ends), *rows])
        pieces: list[tuple[str, _Value]] = []
        for start in sorted({*self._starts, *owners.starts, *every.borders}):
            standing, peer = value = self._value(start)
            if standing is Standing.COMING and peer in cover and cover[peer].has(start):
                value = _HELD
            elif value == _FOREIGN and owners.owner(start) != me and every.has(start):
                value = (Standing.LEAVING, owners.owner(start))
            pieces.append((start, value))
        return Holdings(pieces)

    def left(self, gone: Sequence[tuple[Range, str]]) -> Holdings:
        """After receivers have acknowledged everything of their ranges: these are foreign."""
        ranges: dict[str, list[Range]] = {}
        for place, receiver in gone:
            ranges.setdefault(receiver, []).append(place)
        cover = {receiver: _Cover(places) for receiver, places in ranges.items()}
        borders = {border for each in cover.values() for border in each.borders}
        pieces: list[tuple[str, _Value]] = []
        for start in sorted({*self._starts, *borders}):
            standing, peer = value = self._value(start)
            if standing is Standing.LEAVING and peer in cover and cover[peer].has(start):
                value = _FOREIGN
            pieces.append((start, value))
        return Holdings(pieces)

    def _value(self, key: str) -> _Value:
        return self._values[bisect.bisect_right(self._starts, key) - 1]

    def differences(self, other: Holdings) -> list[tuple[str, str | None]]:
        """The ranges that stand differently in two holdings."""
        starts = sorted({*self._starts, *other._starts})
        ends = (*starts[1:], None)
        return [
            (start, end)
            for start, end in zip(starts, ends, strict=True)
            if self._values[bisect.bisect_right(self._starts, start) - 1]
            != other._values[bisect.bisect_right(other._starts, start) - 1]
        ]

    # In and out

    def to_bytes(self) -> bytes:
        """As it is kept on disk."""
        packed: bytes = msgpack.packb([(piece.start, piece.standing.value, piece.peer) for piece in self])
        return packed

    @classmethod
    def from_bytes(cls, data: bytes) -> Holdings:
        """What `to_bytes` gave."""
        return cls((start, (Standing(standing), peer)) for start, standing, peer in msgpack.unpackb(data))

    def __iter__(self) -> Iterator[Piece]:
        return iter(self.pieces())


def _after(now: _Value, owner: str, source: str, me: str) -> _Value:
    standing, peer = now
    if owner == me:
        if standing is Standing.FOREIGN and source not in (NOBODY, me):
            return (Standing.COMING, source)
        if standing is Standing.COMING and source not in (NOBODY, me):
            return (Standing.COMING, source)
        return _HELD
    if standing is Standing.FOREIGN:
        return _FOREIGN
    if standing is Standing.LEAVING and peer == owner:
        return now
    return (Standing.LEAVING, owner)


def are_disjoint(held: Iterable[Sequence[Range]]) -> bool:
    """Whether no two gatherers say that they hold the same."""
    ranges = sorted((each for holds in held for each in holds), key=lambda each: each[0])
    return not any(overlap(one, other) for one, other in pairwise(ranges))


def facts(held: Mapping[str, Sequence[tuple[str, str | None]]]) -> Plan:
    """Who holds what, from the ranges that each gatherer says it holds; NOBODY where none does."""
    borders = {""}
    for ranges in held.values():
        for start, end in ranges:
            borders |= {start} if end is None else {start, end}
    starts = sorted(borders)
    holders = [NOBODY] * len(starts)
    for gatherer in sorted(held):
        for start, end in held[gatherer]:
            first = bisect.bisect_left(starts, start)
            last = len(starts) if end is None else bisect.bisect_left(starts, end)
            holders[first:last] = [gatherer] * (last - first)
    return Plan.of(zip(starts, holders, strict=True))
