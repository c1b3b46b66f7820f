"""How much is read of one body at most, and how that is counted.

A `Budget` is one body's: all that is expanded out of it, however deep, is taken from it. What is too much is
`Refused`, with a reason for people; what was found before stays.
"""

from __future__ import annotations

from typing import IO, Final, NamedTuple

from gcs.settings import size

_STEP: Final = 1 << 18
FREE_BYTES: Final = 1 << 20
"""Up to here anything may expand to any number of times its size: a small page of blanks is no bomb."""


class Refused(Exception):
    """It is not read, or not further, and why."""


class Limits(NamedTuple):
    """What `[summary]` in the configuration says of it."""

    members: int = 1_000
    member_bytes: int = 32 << 20
    expanded_bytes: int = 256 << 20
    ratio: int = 200
    depth: int = 3
    thumbnail_px: int = 128


class Budget:
    """What may still be expanded out of one body."""

    def __init__(self, limits: Limits, body_bytes: int) -> None:
        self.limits = limits
        self.members = self.expanded_bytes = 0
        self._most_bytes = min(limits.expanded_bytes, max(FREE_BYTES, limits.ratio * body_bytes))
        self._is_by_ratio = self._most_bytes < limits.expanded_bytes

    def member(self) -> None:
        """One more member; raises Refused."""
        if self.members >= self.limits.members:
            raise Refused(f"more than {self.limits.members:,} members")
        self.members += 1

    def take(self, count: int) -> None:
        """So many bytes more; raises Refused."""
        self.expanded_bytes += count
        if self.expanded_bytes > self._most_bytes:
            if self._is_by_ratio:
                raise Refused(f"a bomb: it expands to more than {self.limits.ratio} times its size")
            raise Refused(f"it expands to more than {size(self.limits.expanded_bytes)}")

    def read(self, stream: IO[bytes]) -> bytes | None:
        """All of a member's stream; None if it is longer than a member may be. Raises Refused."""
        parts: list[bytes] = []
        length = 0
        while chunk := stream.read(_STEP):
            self.take(len(chunk))
            length += len(chunk)
            if length > self.limits.member_bytes:
                return None
            parts.append(chunk)
        return b"".join(parts)
