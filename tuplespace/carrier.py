"""Carries calls between tasks and the servers behind an address.

Each server has up to three connections: one for calls, one for elections (a heartbeat must not wait
behind a megabyte of tuples) and one that listens. Threads own the sockets; everything else, and
every decision, happens in trio.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import outcome
import redis.exceptions as remote_errors
import trio

from tuplespace.errors import (
    AccessDenied,
    ClientClosed,
    OutcomeUnknown,
    ServerError,
    SpaceFull,
    TupleSpaceError,
    Unavailable,
)
from tuplespace.mail import Mail
from tuplespace.pump import REFUSED_LOGIN, Call, Counters, Detour, Pump, State
from tuplespace.topology import Link, Topology

_CLOSE_S: Final = 5.0
_WATCH_S: Final = 0.25
_REFRESH_S: Final = 0.5
_DETOUR_S: Final = 0.05
_DENIED: Final = (*REFUSED_LOGIN, remote_errors.NoPermissionError)
_DENYING: Final = (
    "Protocol error: unauthenticated",  # a request that is too long for one who has not logged in
    "The user executing the script can't",  # Redis 7.0, of a command inside our functions
    "ACL failure in script",  # later ones and Valkey, of the same
)


@dataclass(eq=False)
class Node:
    """One server: its link, its threads, and what is wrong with it at present."""

    link: Link
    calls: Pump
    elections: Pump
    mail: Mail
    problem: str | None = None


@dataclass(eq=False)
class Subscription:
    """A channel somebody listens to, and the key that says which server has it."""

    key: bytes
    heard: Callable[[bytes], None]
    ready: Callable[[], None]
    refused: Callable[[str], None]


@dataclass(eq=False)
class Carrier:
    """Carries calls to whichever server has their key, and answers back to the task that waits."""

    topology: Topology
    timeout_s: float | None
    address: str
    nursery: trio.Nursery | None = None
    _nodes: dict[Link, Node] = field(default_factory=dict)
    _pending: dict[Call, Pump] = field(default_factory=dict)
    _subscriptions: dict[bytes, Subscription] = field(default_factory=dict)
    _token: trio.lowlevel.TrioToken = field(default_factory=trio.lowlevel.current_trio_token)
    _awake_s: float = 0.0
    _refreshing: bool = False
    _closed: bool = False
    counters: list[Counters] = field(default_factory=list)

    async def ask(self, call: Call, *, election: bool = False) -> Any:
        """Send a call and wait for its answer, an error of the server included, as a value.

        Cancelled, the call is withdrawn if it was not yet sent; else it may have been done.
        Raises Unavailable or OutcomeUnknown when no answer comes in time.
        """
        if self._closed:
            raise ClientClosed("this client is closed")
        call.task = trio.lowlevel.current_task()
        call.started = self._awake_s
        if call.patience_s is None:
            call.patience_s = self.timeout_s
        self._submit(call, self.node(call.key), election=election)

        def leave(_: object) -> trio.lowlevel.Abort:
            self._pending.pop(call).withdraw(call)
            return trio.lowlevel.Abort.SUCCEEDED

        return await trio.lowlevel.wait_task_rescheduled(leave)

    def spawn(self, task: Callable[..., Awaitable[object]], *args: object) -> None:
        """Run a task for as long as the client lives; raises ClientClosed when it no longer does."""
        try:
            assert self.nursery is not None
            self.nursery.start_soon(task, *args)
        except RuntimeError:
            raise ClientClosed("this client is closed") from None

    def tell(self, call: Call) -> None:
        """Send a call whose answer nobody needs; it is repeated until the server has it."""
        if not self._closed:
            self._submit(call, self.node(call.key), election=False)

    def subscribe(self, channel: bytes, subscription: Subscription) -> None:
        """Listen to a channel; `ready` is called when that is in force, and after every interruption."""
        if self._closed:
            raise ClientClosed("this client is closed")
        self._subscriptions[channel] = subscription
        self.node(subscription.key).mail.subscribe(channel)

    def node(self, key: bytes) -> Node:
        """The server that has a key, as far as is known."""
        return self._node(self.topology.link(key))

    async def watch_clock(self) -> None:
        """Answer for the server when it has been silent for too long.

        Time is counted in steps of this loop, so that a process which stood still (SIGSTOP, a laptop's
        lid) does not blame the server: what was answered meanwhile has yet to be read.
        """
        while True:
            before = trio.current_time()
            step_s = min([_WATCH_S, *[c.patience_s / 4 for c in self._pending if c.patience_s is not None]])
            await trio.sleep(step_s)
            self._awake_s += min(trio.current_time() - before, 2 * step_s)
            for call in list(self._pending):
                if call.patience_s is not None and self._awake_s - call.started > call.patience_s:
                    self._give_up(call)

    async def close(self) -> None:
        """Send what is queued, end the threads; bounded in time."""
        self._closed = True
        nodes = list(self._nodes.values())
        for node in nodes:
            node.calls.stop()
            node.elections.stop()
            node.mail.stop()
        with trio.move_on_after(_CLOSE_S, shield=True):
            for node in nodes:
                for thread in (node.calls, node.elections, node.mail):
                    await trio.to_thread.run_sync(thread.join, _CLOSE_S, abandon_on_cancel=True)
        for call in list(self._pending):
            self._end(call, outcome.Error(ClientClosed("this client is closed")))

    def _node(self, link: Link) -> Node:
        if link not in self._nodes:
            deliver = partial(self._soon, self._complete)
            node = Node(
                link,
                Pump(link.dial, deliver, lambda problem: self._soon(self._trouble, node, problem)),
                Pump(link.dial, deliver, lambda problem: self._soon(self._trouble, node, problem)),
                Mail(
                    link.dial,
                    partial(self._soon, self._heard),
                    partial(self._soon, self._ready),
                    lambda *refused: self._soon(self._lost_channel, refused[0], node, *refused[1:]),
                ),
            )
            self.counters += [node.calls.counters, node.elections.counters]
            self._nodes[link] = node
        return self._nodes[link]

    def _submit(self, call: Call, node: Node, *, election: bool) -> None:
        pump = node.elections if election else node.calls
        if call.task is not None:
            self._pending[call] = pump
        pump.submit(call)

    def _soon(self, function: Callable[..., object], *args: object) -> None:
        """Hand over from a thread to trio; after trio's end there is nobody to tell."""
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(function, *args)

    def _complete(self, calls: list[Call]) -> None:
        for call in calls:
            if isinstance(call.reply, remote_errors.AskError | Detour):
                self._redirect(call, call.reply)
            elif call.answered is not None and isinstance(call.reply, Exception) and not self._closed:
                self._try_again(call)  # somebody relies on its being done
            else:
                if call.answered is not None:
                    call.answered()
                self._end(call, _outcome(call, self.address))

    def _end(self, call: Call, result: outcome.Outcome[Any]) -> None:
        """Wake the task that waits for a call, if one still does."""
        self._pending.pop(call, None)
        task, call.task = call.task, None
        if task is not None and call.state is not State.LEFT:
            trio.lowlevel.reschedule(task, result)

    def _redirect(self, call: Call, reason: Exception) -> None:
        """Send a call that was not done here to the server that will do it."""
        if call.state is State.LEFT:
            return
        call.state, call.asking = State.QUEUED, False
        if isinstance(reason, remote_errors.MovedError):  # which is a kind of AskError to the library
            self.topology.moved(call.key, reason.host, reason.port)
        elif isinstance(reason, remote_errors.AskError):
            call.asking = True
            self._submit(call, self._node(self.topology.at(reason.host, reason.port)), election=False)
            return
        self._try_again(call)

    def _try_again(self, call: Call) -> None:
        try:
            self.spawn(self._resubmit, call)
        except ClientClosed as error:
            self._end(call, outcome.Error(error))

    async def _resubmit(self, call: Call) -> None:
        """A little later, so that servers which disagree about a slot are not asked in a tight circle."""
        await trio.sleep(_DETOUR_S)
        if call.state is not State.LEFT:
            self._submit(call, self.node(call.key), election=False)

    def silence(self, key: bytes, patience_s: float | None) -> Unavailable:
        """What to say when a server has not answered in time."""
        problem = self.node(key).problem or "no reply"
        return Unavailable(f"{self.address} has not answered for {patience_s or 0:g} s: {problem}")

    def _give_up(self, call: Call) -> None:
        pump = self._pending.pop(call)
        silence = self.silence(call.key, call.patience_s)
        task, call.task = call.task, None
        if not pump.withdraw(call):
            silence = OutcomeUnknown(f"{silence}; the request had been sent")
        assert task is not None
        trio.lowlevel.reschedule(task, outcome.Error(silence))

    def _trouble(self, node: Node, problem: str | None) -> None:
        node.problem = problem
        if (
            problem is not None
            and not self._refreshing
            and not self._closed
            and self.topology.owners() is not None
        ):
            with contextlib.suppress(ClientClosed):
                self.spawn(self._refresh)
                self._refreshing = True

    async def _refresh(self) -> None:
        """Ask the cluster who owns what now, and retire servers that own nothing any more."""
        try:
            await trio.to_thread.run_sync(self.topology.refresh, abandon_on_cancel=True)
        except remote_errors.RedisError:
            pass
        else:
            owners = self.topology.owners() or set()
            for link, node in list(self._nodes.items()):
                if link not in owners:
                    del self._nodes[link]
                    node.calls.retire()
                    node.elections.retire()
                    node.mail.stop()
                    self._move_channels()
        await trio.sleep(_REFRESH_S)
        self._refreshing = False

    def _move_channels(self) -> None:
        for channel, subscription in self._subscriptions.items():
            self.node(subscription.key).mail.subscribe(channel)

    def _heard(self, channel: bytes, data: bytes) -> None:
        if channel in self._subscriptions:
            self._subscriptions[channel].heard(data)

    def _ready(self, channel: bytes) -> None:
        if channel in self._subscriptions:
            self._subscriptions[channel].ready()

    def _lost_channel(self, channel: bytes, node: Node, reason: str, denied: bool) -> None:  # noqa: FBT001
        """The server will not have a subscription: we may not, or the space has moved and we look again."""
        node.mail.unsubscribe(channel)
        if denied:
            if (subscription := self._subscriptions.pop(channel, None)) is not None:
                subscription.refused(reason)
            return
        self._trouble(node, reason)
        with contextlib.suppress(ClientClosed):
            self.spawn(self._listen_later, channel)

    async def _listen_later(self, channel: bytes) -> None:
        await trio.sleep(_REFRESH_S)
        if (subscription := self._subscriptions.get(channel)) is not None:
            self.node(subscription.key).mail.subscribe(channel)


def _outcome(call: Call, address: str) -> outcome.Outcome[Any]:
    """What the waiting task gets: the reply, or the error that waiting does not cure.

    What a server says before our function runs speaks of this sending only. Of a request that was sent
    before, and may have been done then, it says nothing.
    """
    reply = call.reply
    if not isinstance(reply, Exception) or str(reply).startswith("TS"):
        return outcome.Value(reply)
    error = _translate(reply, address)
    unsure = call.repeated or (call.sent and isinstance(error, Unavailable))
    if unsure and call.flag_at is not None:
        return outcome.Error(OutcomeUnknown(f"{error}; the request had been sent before"))
    return outcome.Error(error)


def _translate(error: Exception, address: str) -> TupleSpaceError:
    if isinstance(error, remote_errors.OutOfMemoryError) or "used memory > 'maxmemory'" in str(error):
        return SpaceFull(f"{address} is at its memory limit; take something out, or raise maxmemory")
    if isinstance(error, _DENIED) or str(error).startswith(_DENYING):
        return AccessDenied(f"{address} refuses this user: {error}")
    if "unknown command" in str(error):
        return ServerError(f"{address} is too old: tuple spaces need Redis 7 or Valkey ({error})")
    if isinstance(error, remote_errors.ConnectionError):
        return Unavailable(f"{address} went away while the client was closing: {error}")
    return ServerError(f"{address} refused a request: {error}")
