"""Election of one holder at a time, with a fencing token.

The token grows with every term and never goes back, not even when the server restarts without its
last writes (it is at least the server's clock in microseconds). A holder cannot know that it is
still the holder, only that it was a moment ago: whoever acts for it passes `leadership.fence`
along, and the sink refuses a token older than the highest it has seen.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator

import trio

from tuplespace.backend import Backend, Fence, check_token
from tuplespace.errors import LeadershipLost, TemplateError, TupleSpaceError
from tuplespace.space import Space

_POLL_S = 1.0
_RESIGN_S = 2.0


class Leadership:
    """One term. Its block is cancelled when the term ends early."""

    def __init__(self, name: str, token: int, scope: trio.CancelScope) -> None:
        self._fence = Fence(name, token)
        self._scope = scope

    @property
    def token(self) -> int:
        """The fencing token; raises LeadershipLost once the lease has run out by this process's clock."""
        return self.fence.token

    @property
    def fence(self) -> Fence:
        """What a fenced write carries; raises LeadershipLost as `token` does."""
        if self._scope.cancel_called or trio.current_time() >= self._scope.deadline:
            raise LeadershipLost(f"the lease on {self._fence.name!r} has ended")
        return self._fence


@contextlib.asynccontextmanager
async def election(
    space: Space, name: str, *, lease: float = 10.0, floor: int = 0
) -> AsyncIterator[Leadership]:
    """Wait to be elected, hold the name while the block runs, and give it up when it is left.

    `floor` is the highest token the candidate has on record; the new one is larger. The lease is
    renewed in the background. When it ends early (the holder was paused, the server away) the block is
    cancelled, and LeadershipLost is raised in its place.
    """
    if not 0.05 <= lease <= 86_400:
        raise TemplateError(f"an election's lease lasts between 0.05 s and a day, not {lease!r}")
    check_token("floor", floor)
    backend = space.backend
    holder = secrets.token_bytes(16)
    try:
        token, until = await _win(backend, name, holder, lease, floor)
        with trio.CancelScope(deadline=until) as scope:
            term = Leadership(name, token, scope)
            ended = trio.Event()
            backend.spawn(lambda: _renew(backend, name, holder, lease, scope, ended))
            try:
                yield term
            finally:
                ended.set()
        if scope.cancelled_caught:
            raise LeadershipLost(f"the lease on {name!r} has ended")
    finally:
        with trio.move_on_after(_RESIGN_S, shield=True), contextlib.suppress(TupleSpaceError):
            await backend.elect(name, "resign", holder, lease, floor)


async def _win(backend: Backend, name: str, holder: bytes, lease: float, floor: int) -> tuple[int, float]:
    """Campaign until won: the token, and when the lease ends by this process's clock."""
    while True:
        asked = trio.current_time()
        token, wait = await backend.elect(name, "win", holder, lease, floor)
        if token is not None and trio.current_time() < asked + lease:
            return token, asked + lease
        await trio.sleep(min(wait, _POLL_S, lease / 4))


async def _renew(
    backend: Backend, name: str, holder: bytes, lease: float, scope: trio.CancelScope, ended: trio.Event
) -> None:
    """Keep the lease; the scope's deadline is always a lease after the *sending* of the last renewal."""
    while True:
        with trio.move_on_after(lease / 3):
            await ended.wait()
            return
        asked = trio.current_time()
        try:
            token, _ = await backend.elect(name, "renew", holder, lease, 0)
        except TupleSpaceError:
            continue
        if token is None:
            scope.cancel()
            return
        scope.deadline = asked + lease
