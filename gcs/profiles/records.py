"""A profile, a match of it, and how its deliveries go: what the tuples of profiles hold."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, Self

import msgpack

from gcs.summary.records import instant

KINDS: Final = ("atom", "webhook", "jsonl", "email")
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class _Record:
    """A record that is packed by the names of its fields; what a newer version says beside is left out."""

    __slots__ = ()

    def to_bytes(self) -> bytes:
        """As it is in a tuple."""
        packed: bytes = msgpack.packb(asdict(self))  # type: ignore[call-overload] # those that follow are dataclasses
        return packed

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """What `to_bytes` gave."""
        known = {each.name for each in fields(cls)}  # type: ignore[arg-type] # the same
        return cls(**{name: value for name, value in msgpack.unpackb(data).items() if name in known})


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile(_Record):
    """A saved query, and where its matches go."""

    name: str
    query: str
    kind: str
    """One of `KINDS`."""
    target: str
    """A URL, a path, an address for mail."""
    added: float
    """When it was added, in Unix time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match(_Record):
    """A page that a profile's query holds of, as it is delivered."""

    gatherer: str
    """The id of the gatherer that has fetched it."""
    number: int
    """Which of that gatherer's summaries it is: later ones have higher numbers."""
    url: str
    title: str
    text: str
    language: str
    media_type: str
    fetched_us: int

    def id(self, profile: str) -> str:
        """What tells this delivery from all others, however often it is tried."""
        return f"{profile}-{self.gatherer}-{self.number}"

    @property
    def fetched_at(self) -> str:
        """When it was fetched, as RFC 3339 has it."""
        return instant(self.fetched_us / 1e6).isoformat(timespec="seconds")

    def payload(self, profile: Profile) -> Mapping[str, Any]:
        """What a receiver gets."""
        return {
            "id": self.id(profile.name),
            "profile": profile.name,
            "query": profile.query,
            "url": self.url,
            "title": self.title,
            "text": self.text,
            "language": self.language,
            "media_type": self.media_type,
            "fetched_at": self.fetched_at,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class State(_Record):
    """How the deliveries of a profile go."""

    delivered: int = 0
    last: float = 0.0
    """When something was delivered last, in Unix time."""
    failures: int = 0
    """How often it has failed since."""
    failing_since: float = 0.0
    not_before: float = 0.0
    """When it is tried again."""
    why: str = ""
    """What was wrong the last time."""
    aside: bool = False
    """Whether it has failed for too long, and is not tried any more until somebody says so."""
    left_out: int = 0
    """Matches that were not kept, since too many waited."""

    def afresh(self) -> State:
        """The same, to be tried at once as if nothing had failed."""
        return replace(self, failures=0, failing_since=0.0, not_before=0.0, why="", aside=False)
