"""The values that cross between the store and those who use it.

A URL is always its key (`gcs.core.urls.key`). Every key that was ever accepted has exactly one row, in one
state, and the states are ordered: whatever happens, a row only moves to a larger state, so that two rows of
one key, from two disks or from a repeated batch, merge to the larger and order does not matter. *In flight*
is not a state: it exists in memory only, and what was in flight when a process died is queued.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from gcs.core.urls import PATH

BANDS: Final = 4
"""Priority bands of a host's queue; band 0 is handed out first."""

VIAS: Final = ("link", "redirect", "seed", "sitemap", "canonical", "sitemap-file")
"""How a URL can have become known; rows have the number, so new ones go to the end, and eight is all."""


class State(IntEnum):
    """Where a URL stands; two rows of one key merge to the larger."""

    QUEUED = 0
    DROPPED = 1
    DONE = 2


class Found(NamedTuple):
    """A URL that was named somewhere; it is accepted if its key is new."""

    key: str
    depth: int = 0
    parent: str = ""
    """The key of the page that named it; empty for a seed."""
    via: str = "link"
    band: int = 1


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


@dataclass(slots=True)
class Batch:
    """What is written as one: all of it, or nothing."""

    finished: list[Finished] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    """Added to the counters that the store keeps."""
    meta: dict[str, bytes] = field(default_factory=dict)
    """Small named values, which replace what had that name; an empty one removes it."""


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


@dataclass(frozen=True, slots=True)
class Committed:
    """What a batch changed."""

    new: list[Found]
    """Those found that were not known before, in order."""
    number: int
    """The number of this commit; they are numbered from 1."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How many URLs are in which state; their sum is what was ever accepted."""

    queued: int = 0
    done: int = 0
    dropped: int = 0

    @property
    def accepted(self) -> int:
        """Every URL that was ever accepted is in one of the states."""
        return self.queued + self.done + self.dropped


@dataclass(frozen=True, slots=True)
class HostCounts:
    """The counts of one host."""

    host: str
    queued: int
    done: int
    dropped: int


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
