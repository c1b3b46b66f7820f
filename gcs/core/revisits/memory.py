"""What is remembered of a page from one visit to the next, and what the next answer makes of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

import msgpack

from gcs.core.revisits import likeness
from gcs.core.revisits.course import Course, Seen
from gcs.core.revisits.standing import Standing

_VERSION: Final = 1
_VALIDATOR: Final = 512
_SENDABLE = re.compile(r"[\x20-\x7e]+").fullmatch
MISSING: Final = frozenset({404, 410})


@dataclass(frozen=True, slots=True)
class Memory:
    """A page as it was found the last time."""

    course: Course
    standing: Standing | None
    """Its place in the timetable; None if it is not visited any more."""
    visited_at: float
    """When it was last asked for and answered."""
    kept_at: float
    """When the answer came whose body was kept: the date of its record. 0 if it is not to be kept, and less
    if it may be in a record of another page only: then it is kept at the next visit."""
    etag: str = ""
    modified: str = ""
    """As its server gave them, to be sent back."""
    words: int = 0
    links: bytes = b""
    degree: float = 1.0
    """I + O, as far as is known."""
    tried_at: float = 0.0
    """When it was last asked for in vain; 0 if it was there the last time."""

    @property
    def asked_at(self) -> float:
        """When it was last asked for, whatever was answered."""
        return max(self.visited_at, self.tried_at)

    def conditions(self) -> bytes:
        """The header lines that ask for the page only if it is not the same any more."""
        lines = ""
        if self.etag:
            lines += f"If-None-Match: {self.etag}\r\n"
        if self.modified:
            lines += f"If-Modified-Since: {self.modified}\r\n"
        return lines.encode("ascii")

    def to_bytes(self) -> bytes:
        """As a store keeps it."""
        standing = list(self.standing) if self.standing is not None else None
        packed: bytes = msgpack.packb(
            [
                _VERSION,
                list(self.course),
                standing,
                self.visited_at,
                self.kept_at,
                self.etag,
                self.modified,
                self.words,
                self.links,
                self.degree,
                self.tried_at,
            ],
            use_single_float=False,
        )
        return packed

    @classmethod
    def from_bytes(cls, stored: bytes) -> Memory:
        """What `to_bytes` gave; raises ValueError for anything else."""
        try:
            version, course, standing, *rest = msgpack.unpackb(stored)
            if version != _VERSION:
                raise ValueError(f"of version {version}, not {_VERSION}")
            return cls(Course(*course), Standing(*standing) if standing is not None else None, *rest)
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise ValueError(f"this is nothing that is remembered of a page: {error}") from error


@dataclass(frozen=True, slots=True)
class Look:
    """What an answer says of a page, beside its status."""

    at: float
    etag: str = ""
    modified: str = ""
    words: int = 0
    links: bytes = b""
    out_degree: int = 0


def validator(said: str) -> str:
    """A validator as it can be sent back; "" for one that cannot, or is too long to be kept."""
    return said if len(said) <= _VALIDATOR and _SENDABLE(said) else ""


def seen(memory: Memory, status: int, look: Look, *, same_bytes: bool) -> tuple[Seen, float]:
    """What a visit has found, and C."""
    if status in MISSING:
        return Seen.MISSING, 0.0
    if status == 304 or same_bytes:
        return Seen.UNCHANGED, 0.0
    if not 200 <= status < 400:
        return Seen.FAILED, 0.0
    changed = likeness.change(memory.links, look.links) if memory.links or look.links else 0.0
    alike = likeness.are_alike(memory.words, look.words)
    return (Seen.TOUCHED if alike else Seen.CHANGED), changed


def first(look: Look, course: Course, standing: Standing | None, degree: float) -> Memory:
    """What is remembered of a page that was visited for the first time."""
    return Memory(
        course,
        standing,
        look.at,
        look.at,
        validator(look.etag),
        validator(look.modified),
        look.words,
        look.links,
        degree,
    )


def after(memory: Memory, found: Seen, look: Look, course: Course, standing: Standing | None) -> Memory:
    """What is remembered after another visit."""
    if found in (Seen.FAILED, Seen.MISSING):
        return replace(memory, course=course, standing=standing, tried_at=look.at)
    if found is Seen.UNCHANGED:
        return replace(
            memory,
            course=course,
            standing=standing,
            visited_at=look.at,
            etag=validator(look.etag) or memory.etag,
            modified=validator(look.modified) or memory.modified,
            tried_at=0.0,
        )
    return first(look, course, standing, memory.degree)
