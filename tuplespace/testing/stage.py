"""What checks are made of: where they play, and what they wait for."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar, cast

import trio

from tuplespace.backend import Backend, Grant
from tuplespace.errors import Unavailable
from tuplespace.fields import Field
from tuplespace.space import Space, Spaces, Taken

Make = Callable[[], AbstractAsyncContextManager[Spaces]]
Thing = TypeVar("Thing")

PATIENCE_S: Final = 30.0
"""For how long a check may take."""
LONG_S: Final = 20.0
"""A lease that does not end while a check runs as it should."""
SLACK_S: Final = 0.05
"""By how much two clocks may differ over a second."""


@dataclass(frozen=True)
class Stage:
    """Where a check plays: two clients of one server, a way to make more, and a name nobody else uses."""

    first: Spaces
    second: Spaces
    make: Make
    name: str

    def pair(self, index: Mapping[str, Sequence[int]] | None = None, **terms: Any) -> tuple[Space, Space]:
        """One space as each of the two clients has it."""
        return (
            self.first.space(self.name, index=index, **terms),
            self.second.space(self.name, index=index, **terms),
        )

    def space(self, index: Mapping[str, Sequence[int]] | None = None, **terms: Any) -> Space:
        """The space as the first client has it."""
        return self.pair(index, **terms)[0]

    def unrenewed(self, index: Mapping[str, Sequence[int]] | None = None, **terms: Any) -> Space:
        """The space of a client that does everything but renew what it holds, as if it were paused."""
        return self.disturbed(Unrenewed, index, **terms)

    def disturbed(
        self,
        disturbance: Callable[[Backend], Unrenewed],
        index: Mapping[str, Sequence[int]] | None = None,
        **terms: Any,
    ) -> Space:
        """The space of a client that does something of its own between the space and its backend."""
        spaces = Spaces(lambda name: cast(Backend, disturbance(self.first.space(name).backend)))
        return spaces.space(self.name, index=index, **terms)


class Check(Protocol):
    """One promise: its docstring is the sentence that it shows to be true."""

    __name__: str
    __doc__: str | None

    async def __call__(self, stage: Stage) -> None:
        """Raise when the promise is broken."""


class Unrenewed:
    """A backend whose renewals never reach the server."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    async def renew(self, grants: Sequence[Grant]) -> None:
        await trio.lowlevel.checkpoint()

    async def elect(
        self, name: str, step: str, holder: bytes, lease_s: float, floor: int
    ) -> tuple[int | None, float]:
        if step == "renew":
            await trio.lowlevel.checkpoint()
            raise Unavailable("the renewal was not sent")
        return await self._backend.elect(name, cast(Any, step), holder, lease_s, floor)


class raises:  # noqa: N801 - reads like the function of that name in test frameworks
    """A block that must raise this very kind of error, with a sentence that says what is wrong."""

    def __init__(self, kind: type[Exception]) -> None:
        self._kind = kind

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        assert kind is not None, f"{self._kind.__name__} was not raised"
        assert kind is not self._kind or str(error), "an error says what is wrong"
        return kind is self._kind


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    """Wait until the condition's answer is true."""
    while not await condition():  # noqa: ASYNC110 - a server has no event for it
        await trio.sleep(0.01)


async def in_line(space: Space, *, takers: int = 0, readers: int = 0) -> None:
    """Wait until so many wait."""

    async def there() -> bool:
        statistics = await space.statistics()
        return (statistics.takers, statistics.readers) == (takers, readers)

    await until(there)


async def empty(space: Space) -> None:
    """Wait until the space holds nothing, waiting or leased."""

    async def nothing() -> bool:
        statistics = await space.statistics()
        return statistics.waiting == statistics.leased == 0

    await until(nothing)


async def listed(things: AsyncIterable[Thing]) -> list[Thing]:
    """All of them."""
    return [thing async for thing in things]


async def hold(space: Space, *template: Any, **terms: Any) -> Taken:
    """Take without ever leaving the block, as a process that dies does."""
    return await space.take(*template, **terms).__aenter__()


def put(
    results: list[Any], ask: Callable[..., Awaitable[Any]], *arguments: Any
) -> Callable[[], Awaitable[None]]:
    """A task that appends what a call gives."""

    async def task() -> None:
        results.append(await ask(*arguments))

    return task


def nested(depth: int) -> Field:
    """A field with so many tuples around it."""
    field: Field = "core"
    for _ in range(depth):
        field = (field,)
    return field


async def gives(question: Awaitable[object], answer: object) -> bool:
    """Whether that is the answer."""
    return await question == answer


async def just(value: Thing) -> Thing:
    """A value as an answer."""
    await trio.lowlevel.checkpoint()
    return value
