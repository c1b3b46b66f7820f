"""What a space must be able to do, and the records that pass between a space and its users.

`Space` (in `space.py`) is what people use; it checks and encodes, keeps leases alive and decides
what leaving a block means. A backend does the few atomic steps below it: `memory` in one process,
`remote` on a server.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from tuplespace.errors import TemplateError
from tuplespace.fields import Item, Template, Tuple


def check_token(name: str, token: int) -> None:
    """Tokens are counted in floating point by the server, exactly up to 2**53."""
    if not 0 <= token < 1 << 53:
        raise TemplateError(f"a {name} lies between 0 and 2**53, unlike {token}")


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms tuples are leased: for how long, and after how many deliveries they are dead letters."""

    lease_s: float
    max_deliveries: int | None = None


@dataclass(frozen=True, slots=True)
class Fence:
    """An election and a token won in it; a write that carries it is refused once a newer one was seen."""

    name: str
    token: int

    def __post_init__(self) -> None:
        """Refuse what the server could not count exactly."""
        check_token("token", self.token)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A tuple as it was handed out, and how often it had been handed out before."""

    fields: Tuple
    tries: int


@dataclass(frozen=True, slots=True)
class Tenure:
    """For how long a server has surely forgotten nothing: since it was started, or was made the master."""

    seconds: float = 0.0
    from_nothing: bool = False
    """Whether the space had never been written to before."""
    start: int = 0
    """A name for that start, the same for all who ask; 0 if it is not known."""


@dataclass(eq=False, slots=True)
class Grant:
    """A lease on some tuples; `lost` once the space has said that it ended.

    It cannot have ended before `sure_until`, on trio's clock, unless the server has forgotten it. `tenure` is
    the server's when it was last asked, and 0 after a take that waited.
    """

    name: bytes
    deliveries: Sequence[Delivery]
    terms: Terms
    lost: bool = False
    sure_until: float = -math.inf
    tenure: Tenure = Tenure()


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened to a tuple: it was written (`out`) or removed for good (`in`)."""

    kind: Literal["out", "in"]
    fields: Tuple


@dataclass(frozen=True, slots=True)
class Statistics:
    """What is in a space now, and what this client has done so far."""

    waiting: int
    leased: int
    leases: int
    takers: int
    readers: int
    sessions: int
    kept_replies: int
    calls: int = 0
    retries: int = 0
    reconnects: int = 0


class Backend(Protocol):
    """The atomic steps of one space. Cancelling any of them loses no tuple."""

    @property
    def unreadable(self) -> int:
        """What this client has found in place of tuples so far, and dropped.

        That is what is no tuple, another one than its head says, or longer than this client reads.
        """

    async def out(self, items: Sequence[Item], fence: Fence | None) -> None:
        """Write these tuples; all or none up to `batch_limit`."""

    async def take(self, template: Template, many: int, terms: Terms, *, wait: bool) -> Grant | None:
        """Lease the oldest matching tuples; None when there are none and `wait` is false."""

    async def remove(self, template: Template) -> Tuple | None:
        """Take the oldest match for good: a take and its commit in one step."""

    async def read(self, template: Template, *, wait: bool) -> Tuple | None:
        """The oldest matching tuple, which stays."""

    async def page(self, template: Template, after: bytes, limit: int) -> tuple[list[Tuple], bytes | None]:
        """Matching tuples past a place (b"" for all), and the place to go on from, None at the end."""

    async def count(self, template: Template) -> int:
        """How many match."""

    async def commit(
        self, grant: Grant, items: Sequence[Item], fence: Fence | None, *, patience_s: float
    ) -> None:
        """Remove what is leased and write these, in one step; raises LeaseLost when the lease has ended.

        Raises OutcomeUnknown or Unavailable when there is no answer within `patience_s`.
        """

    def release(self, grant: Grant, *, counted: bool) -> None:
        """Give a lease back, soon; `counted` when the tuples were seen and that counts as a delivery."""

    async def renew(self, grants: Sequence[Grant]) -> None:
        """Give leases their full time again; marks those that have ended as lost, and notes the tenure."""

    async def tenure(self) -> Tenure:
        """For how long the server has forgotten nothing."""

    async def swap(self, template: Template, item: Item, fence: Fence | None) -> Tuple | None:
        """Replace the oldest match in one step; None when nothing matched and nothing was written."""

    async def watch(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call `listener` for what happens from now on, as far as it is heard of; returns how to stop."""

    async def elect(
        self, name: str, step: Literal["win", "renew", "resign"], holder: bytes, lease_s: float, floor: int
    ) -> tuple[int | None, float]:
        """The token when held, else None and the seconds until it may be asked again."""

    async def statistics(self) -> Statistics:
        """What is in the space."""

    def spawn(self, task: Callable[[], Awaitable[object]]) -> None:
        """Run a task for as long as the client lives."""

    def close(self) -> None:
        """Let go of what is kept on the server for this client, soon."""
