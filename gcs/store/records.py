"""The values that cross between the store and those who use it.

A URL is always its key (`gcs.core.urls.key`). Every key that is known has exactly one row, in one state,
and the states are ordered: whatever is found, finished or handed over, a row only moves to a larger state, so
that two rows of one key, from two disks or from a repeated batch, merge to the larger and order does not
matter. Only who asks for it by name moves a row back: `Batch.released`, `erased` and `again`. *In flight* is
not a state: it exists in memory only, and what was in flight when a process died is queued.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from gcs.core.ranking import Priority
from gcs.core.revisits.standing import Standing
from gcs.core.urls import PATH

VIAS: Final = ("link", "redirect", "seed", "sitemap", "canonical", "sitemap-file")
"""How a URL can have become known; rows have the number, so new ones go to the end, and eight is all."""


_TIME_BYTES: Final = 8


SEED: Final = "seed"
"""How a URL became known that somebody gave the crawl to begin with."""


FIRST, USUAL, LATER = 0, 1, 3
"""The bands of a queue: seeds, sitemaps and what is wanted most, links, and what is probably not worth it."""


class State(IntEnum):
    """Where a URL stands; two rows of one key merge to the larger."""

    PASSED = 0
    """It belongs to another gatherer, to which it was passed on; it is not accepted here."""
    QUEUED = 1
    DROPPED = 2
    DONE = 3


class Found(NamedTuple):
    """A URL that was named somewhere; it is accepted if its key is new."""

    key: str
    depth: int = 0
    parent: str = ""
    """The key of the page that named it; empty for a seed."""
    via: str = "link"
    band: int = 1


class Passed(NamedTuple):
    """A URL that was named somewhere and belongs to another gatherer."""

    to: str
    """The identity of that gatherer's store; empty if the URL is there, and has only to be known here."""
    found: Found
    always: bool = False
    """Send it also if it was passed on before."""


SUMMARIES: Final = "summaries"
LINKS: Final = "links"
"""The two kinds of rows."""


class Packed(NamedTuple):
    """Rows for Parquet, as `gcs.store.columns` packs them."""

    rows: int
    data: bytes


NO_ROWS: Final = Packed(0, b"")


@dataclass(slots=True, kw_only=True)
class Finished:
    """What became of one URL that was handed out; with state QUEUED it is tried again after `retry_at`."""

    key: str
    state: State
    status: int
    """The HTTP status, or a negative code."""
    reason: str = ""
    """Why it was dropped or failed: a word from a bounded vocabulary."""
    at: float
    attempts: int
    digest: bytes = b""
    """Of the body; a row keeps its first bytes."""
    retry_at: float = 0.0
    records: Sequence[bytes] = ()
    """Whole, compressed WARC records, which are appended one after the other."""
    summary: Packed = NO_ROWS
    """Its row of the summaries, if it has one."""
    links: Packed = NO_ROWS
    """Its rows of the links."""
    log: bytes = b""
    """Its line of the crawl log, with the newline."""
    is_revisit: bool = False
    """Whether it was done before. If by now it is not, or is queued again beside this, its row stays."""


_CHUNK_ROWS: Final = 2_000
"""About what `Store.chunk` packs."""
_WORK: Final = (
    *("finished", "found", "passed", "moved", "released", "erased", "again"),
    *("rows", "told", "mail", "priorities", "remembered", "revised"),
)


@dataclass(slots=True)
class Batch:
    """What is written as one: all of it, or nothing.

    Of a key that is in several of its fields: erased counts before released, that before all others; of
    finished and moved the larger state counts; then again, then found; passed comes last, and sees what the
    others left. The end of a visit to a page that was done before counts after again.
    """

    finished: list[Finished] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    """Added to the counters that the store keeps."""
    meta: dict[str, bytes] = field(default_factory=dict)
    """Small named values, which replace what had that name; an empty one removes it."""
    passed: list[Passed] = field(default_factory=list)
    """URLs that belong to others: those that are not known go to the outbox, and are known from then on."""
    moved: list[bytes] = field(default_factory=list)
    """Rows that others handed over, as `Store.chunk` packs them; they merge with those that are here."""
    released: list[str] = field(default_factory=list)
    """Keys of rows that another gatherer has now; here they are passed, whatever they were."""
    erased: list[str] = field(default_factory=list)
    """Keys of rows that are deleted, as if they had never been known."""
    again: list[str] = field(default_factory=list)
    """Keys of rows that are done or dropped and are queued once more, as if they had never been tried."""
    rows: list[tuple[str, bytes]] = field(default_factory=list)
    """For the outbox of a receiver: rows that are handed over to it, as `Store.chunk` packs them."""
    told: list[tuple[str, Found]] = field(default_factory=list)
    """For the outbox of a receiver: URLs that it has to know of, though others own them."""
    mail: list[tuple[str, bytes]] = field(default_factory=list)
    """For the outbox of a receiver, after all else: what means nothing to the store."""
    priorities: list[Priority] = field(default_factory=list)
    """What a ranking says of URLs; those that are not known here, or were passed on, are left out."""
    remembered: list[tuple[str, "Remembered"]] = field(default_factory=list)
    """What is to be remembered of pages that are done until they are visited again."""
    revised: list["Revised"] = field(default_factory=list)
    """The same, but only of pages of which still that is remembered which it was decided by."""
    applied: dict[str, int] = field(default_factory=dict)
    """By sender: the number of its last piece that this batch takes in. It never goes down."""
    received: dict[str, int] = field(default_factory=dict)
    """By sender: how many URLs this batch has from it, for the ledger."""
    acked: dict[str, int] = field(default_factory=dict)
    """By receiver: the number up to which it has the pieces of its outbox on disk."""
    withdrawn: dict[str, int] = field(default_factory=dict)
    """By receiver: the number up to which the pieces of its outbox are not for it any more, as it is gone."""

    @property
    def is_work(self) -> bool:
        """Whether it says anything about URLs, beyond what is noted beside them."""
        return any(getattr(self, name) for name in _WORK)

    @property
    def weight(self) -> int:
        """How many URLs have to be decided about, roughly."""
        names = ("found", "passed", "released", "erased", "again", "priorities", "remembered", "revised")
        return sum(len(getattr(self, name)) for name in names) + _CHUNK_ROWS * len(self.moved)

    def add(self, other: "Batch") -> None:
        """Write another batch together with this one."""
        for name in _WORK:
            getattr(self, name).extend(getattr(other, name))
        for name in ("counters", "received"):
            sums = getattr(self, name)
            for each, more in getattr(other, name).items():
                sums[each] = sums.get(each, 0) + more
        for name in ("applied", "acked", "withdrawn"):
            numbers = getattr(self, name)
            for each, number in getattr(other, name).items():
                numbers[each] = max(number, numbers.get(each, 0))
        self.meta.update(other.meta)


class Queued(NamedTuple):
    """A URL that is to be fetched now."""

    key: str
    depth: int
    via: str
    attempts: int
    """How often it was tried before."""
    not_before: float
    parent: str
    band: int


class Remembered(NamedTuple):
    """What is remembered of a page from one visit to the next."""

    memory: bytes
    """As `gcs.core.revisits.memory` packs it."""
    standing: Standing | None
    """Its place in the timetable; None if it is not visited any more."""


class Revised(NamedTuple):
    """What is to be remembered of a page in place of something, if that is what is remembered still."""

    key: str
    before: bytes | None
    """The memory that it was decided by; None if nothing was remembered."""
    after: Remembered


class Again(NamedTuple):
    """A page that is to be visited again now."""

    queued: Queued
    memory: bytes
    status: int
    """That of the last visit that was answered."""
    digest: bytes
    """The first bytes of that of its body."""


@dataclass(frozen=True, slots=True)
class Row:
    """All that is known about where one URL stands."""

    state: State
    status: int
    reason: str
    depth: int
    via: str
    parent: str
    at: float
    """When it was last tried, to the second; 0.0 if never."""
    attempts: int
    band: int
    digest: bytes

    @property
    def retry_at(self) -> float:
        """When a URL that failed is tried again, as Unix time; 0.0 for all others."""
        is_retry = self.state is State.QUEUED and len(self.digest) == _TIME_BYTES
        return int.from_bytes(self.digest, "big") / 1000 if is_retry else 0.0


@dataclass(frozen=True, slots=True)
class Committed:
    """What a batch changed."""

    new: list[Found]
    """Those found that were not known before, in order."""
    number: int
    """The number of this commit; they are numbered from 1."""
    hosts: list[str] = field(default_factory=list)
    """Hosts that have more to fetch now because rows were moved here, or are queued again."""
    ranked: frozenset[str] = frozenset()
    """Of the URLs whose priorities it had, those that are known here."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How many URLs are in which state."""

    queued: int = 0
    done: int = 0
    dropped: int = 0
    passed: int = 0

    @property
    def accepted(self) -> int:
        """Every URL that was accepted here, and is still here, is in one of these states."""
        return self.queued + self.done + self.dropped

    def __add__(self, other: "Counts") -> "Counts":
        """Those of two stores together."""
        return Counts(
            self.queued + other.queued,
            self.done + other.done,
            self.dropped + other.dropped,
            self.passed + other.passed,
        )


@dataclass(frozen=True, slots=True)
class HostCounts:
    """The counts of one host."""

    host: str
    queued: int
    done: int
    dropped: int
    passed: int = 0


class Outbox(NamedTuple):
    """What waits for one receiver: pieces [first, next), numbered from 1."""

    first: int
    """The first that was not acknowledged."""
    next: int
    """The number that the next piece gets."""
    bytes: int
    entries: int
    """URLs, those of rows that are handed over included."""


class Ledger(NamedTuple):
    """Where URLs came from and went to, from the beginning on.

    Invariant: accepted + moved_in - moved_out - erased is what is queued, dropped and done.
    """

    accepted: int = 0
    """URLs that became known here, or became ours after they had been passed on."""
    moved_in: int = 0
    """Rows that came by hand-over, and were not here before."""
    moved_out: int = 0
    """Rows that were released."""
    erased: int = 0
    sent: Mapping[str, int] = MappingProxyType({})
    """By receiver: URLs that were put into its outbox."""
    received: Mapping[str, int] = MappingProxyType({})
    """By sender: URLs that came from it."""
    withdrawn: Mapping[str, int] = MappingProxyType({})
    """By receiver: URLs that were taken out of its outbox again; it may have got them all the same."""


@dataclass(frozen=True, slots=True)
class StoreStatistics:
    """What the store holds in memory and on disk, for operators."""

    commits: int
    counts: Counts
    in_flight: int
    hosts_in_memory: int
    window: int
    """URLs of the queue that are in memory, beside those in flight."""
    journalled: Mapping[str, int]
    """Rows that wait for their segment, by kind."""
    segments: Mapping[str, int]
    """Segments written by this process, by kind."""
    warc_files: int
    warc_bytes: int
    """Written by this process."""
    log_bytes: int


def host_of(key: str) -> str:
    """The part of a key that names host, scheme and port."""
    return key[: key.find(PATH)]
