"""The one row that every commit writes: totals, positions in files, and the small vocabularies.

It is a value: a commit makes a new one, and it becomes the store's only after the commit is on disk.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import msgpack

from gcs.store.appending import Position
from gcs.store.outbox import Numbers
from gcs.store.records import Counts, Ledger

_MAX_REASONS: Final = 1_000
ANY_OTHER: Final = "other"
"""Stands for reasons beyond the vocabulary's bound."""


@dataclass(frozen=True, slots=True)
class Range:
    """Journal entries [head, tail) of one kind wait for their segment."""

    head: int = 0
    tail: int = 0


@dataclass(frozen=True, slots=True)
class Status:
    """What the store is at after a commit."""

    format: str
    birth: int
    """The second at which the store was made; rows count from it."""
    identity: str = ""
    """Says which store this is, for ever."""
    commit: int = 0
    counts: Counts = field(default_factory=Counts)
    parents: int = 0
    """The highest number of a parent."""
    archive: Position = field(default_factory=Position)
    log: int = 0
    """The length of the crawl log."""
    journal: Mapping[str, Range] = field(default_factory=dict)
    reasons: tuple[str, ...] = ("",)
    visits: int = 0
    """Pages of which something is remembered, to visit them again."""
    counters: Mapping[str, int] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    outboxes: Mapping[str, Numbers] = field(default_factory=dict)
    """By receiver."""
    applied: Mapping[str, int] = field(default_factory=dict)
    """By sender: the number of its last piece that was taken in."""

    def pack(self) -> bytes:
        """As it is on disk."""
        counts, archive, ledger = self.counts, self.archive, self.ledger
        packed: bytes = msgpack.packb(
            {
                "format": self.format,
                "birth": self.birth,
                "identity": self.identity,
                "commit": self.commit,
                "counts": (counts.queued, counts.done, counts.dropped, counts.passed),
                "parents": self.parents,
                "archive": (archive.serial, archive.name, archive.length),
                "log": self.log,
                "journal": {kind: (each.head, each.tail) for kind, each in self.journal.items()},
                "reasons": self.reasons,
                "visits": self.visits,
                "counters": self.counters,
                "ledger": (*ledger[:4], *map(dict, ledger[4:])),
                "outboxes": self.outboxes,
                "applied": self.applied,
            }
        )
        return packed

    @staticmethod
    def format_of(packed: bytes) -> str:
        """Only the version, which is to be looked at before anything else."""
        return str(msgpack.unpackb(packed)["format"])

    @classmethod
    def unpack(cls, packed: bytes) -> "Status":
        """The inverse of `pack`."""
        said = msgpack.unpackb(packed)
        said["counts"] = Counts(*said["counts"])
        said["archive"] = Position(*said["archive"])
        said["journal"] = {kind: Range(*each) for kind, each in said["journal"].items()}
        said["reasons"] = tuple(said["reasons"])
        said["ledger"] = Ledger(*said["ledger"])
        said["outboxes"] = {to: Numbers(*each) for to, each in said["outboxes"].items()}
        return cls(**said)

    def with_reasons(self, words: set[str]) -> "Status":
        """With numbers for more reasons; a vocabulary that grows too large gets one word for the rest."""
        unknown = sorted(words.difference(self.reasons))
        if not unknown:
            return self
        room = _MAX_REASONS - len(self.reasons)
        known = (*self.reasons, *unknown[: max(0, room)])
        if len(unknown) > room and ANY_OTHER not in known:
            known = (*known, ANY_OTHER)
        return replace(self, reasons=known)

    def reason_numbers(self) -> dict[str, int]:
        """The number of each reason."""
        return {word: number for number, word in enumerate(self.reasons)}
