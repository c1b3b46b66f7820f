"""Server-sent events: each is encoded once, and the same bytes go to all who listen.

A listener that does not keep up is cut off: its browser comes back by itself, and begins with a snapshot. One
whose time is over is sent nothing more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Any, Final, NamedTuple

import trio

from gcs.monitor.answers import encoded
from gcs.monitor.shapes.live import EVENTS

TOPICS: Final = tuple(EVENTS)
MOST_LISTENERS: Final = 256
_BEHIND: Final = 64
"""Events that may wait for one listener."""
_QUIET_S: Final = 15.0
_STILL_HERE: Final = b": still here\n\n"


def frame(topic: str, value: Any) -> bytes:
    """An event as it is sent."""
    return b"event: %b\ndata: %b\n\n" % (topic.encode(), encoded(value))


class _Listener(NamedTuple):
    """One of those who listen."""

    topics: Collection[str]
    left_s: Callable[[], float]
    """How long it may still listen."""


class Stream:
    """All who listen."""

    def __init__(self, snapshot: Callable[[], Sequence[tuple[str, Any]]]) -> None:
        """`snapshot` gives what a listener has to know first, by topic."""
        self._snapshot = snapshot
        self._listeners: dict[trio.MemorySendChannel[bytes], _Listener] = {}
        self._last: dict[str, Any] = {}
        self.cut_off = 0
        """Listeners that did not keep up."""

    @property
    def listeners(self) -> int:
        """How many there are."""
        return len(self._listeners)

    def is_wanted(self, topic: str) -> bool:
        """Whether anybody listens to a topic."""
        return any(topic in each.topics for each in self._listeners.values())

    def tell(self, topic: str, value: Any) -> None:
        """Send an event to all who want it."""
        if not self.is_wanted(topic):
            return
        data = frame(topic, value)
        for channel, listener in list(self._listeners.items()):
            if topic in listener.topics:
                try:
                    channel.send_nowait(data)
                except trio.WouldBlock:
                    self._cut(channel)
                    self.cut_off += 1

    def tell_if_new(self, topic: str, value: Any) -> None:
        """The same, unless that was the last that was told."""
        if self._last.get(topic) != value:
            self._last[topic] = value
            self.tell(topic, value)

    def dismiss(self) -> None:
        """Let go at once of all whose time is over."""
        for channel, listener in list(self._listeners.items()):
            if listener.left_s() <= 0:
                self._cut(channel)

    def _cut(self, channel: trio.MemorySendChannel[bytes]) -> None:
        del self._listeners[channel]
        channel.close()

    async def listen(self, topics: Collection[str], left_s: Callable[[], float]) -> AsyncIterator[bytes]:
        """What one listener is sent, until it is cut off or goes, or it has no time left."""
        sending, receiving = trio.open_memory_channel[bytes](_BEHIND)
        self._listeners[sending] = _Listener(topics, left_s)
        try:
            for topic, value in self._snapshot():
                if topic in topics:
                    yield frame(topic, value)
            while (rest_s := left_s()) > 0:
                data = None
                with trio.move_on_after(min(_QUIET_S, rest_s)):
                    data = await receiving.receive()
                if left_s() > 0:
                    yield _STILL_HERE if data is None else data
        except trio.EndOfChannel:
            return
        finally:
            self._listeners.pop(sending, None)
            sending.close()
