"""A TCP proxy between a client and its server, which loses replies, holds them back or cuts connections."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import trio

from tests.servers import Node
from tuplespace import library


@dataclass(eq=False)
class Conversation:
    """One connection through the proxy."""

    client: trio.SocketStream
    server: trio.SocketStream
    listens: bool = False
    losing: bool = False

    async def close(self) -> None:
        await trio.aclose_forcefully(self.client)
        await trio.aclose_forcefully(self.server)


@dataclass(eq=False)
class Proxy:
    """What a test does to the network."""

    port: int
    target: Node
    url: str
    lost: int = 0
    on_loss: Callable[[], object] = lambda: None
    _loses: list[bytes] = field(default_factory=list)
    _conversations: set[Conversation] = field(default_factory=set)
    _mail: trio.Event = field(default_factory=trio.Event)
    _replies: trio.Event = field(default_factory=trio.Event)
    _refuses: bool = False

    def lose_reply(self, operation: str, times: int = 1) -> None:
        """Let the server do the next such requests, but cut the connection instead of answering."""
        self.lose_reply_to(library.function(operation).encode(), times)

    def lose_reply_to(self, words: bytes, times: int = 1) -> None:
        """The same for requests that contain these words."""
        self._loses += [words] * times

    def hold_mail(self) -> None:
        """Keep back what the server publishes, until `release`."""
        self._mail = trio.Event()

    def hold_replies(self) -> None:
        """Keep back all answers, until `release`."""
        self._replies = trio.Event()

    def release(self) -> None:
        """Pass on what was held back."""
        self._mail.set()
        self._replies.set()

    async def cut(self, *, refuse: bool = False) -> None:
        """Close all connections; with `refuse`, also those that are made until `accept`."""
        self._refuses = refuse
        for conversation in list(self._conversations):
            await conversation.close()

    def accept(self) -> None:
        """Take connections again."""
        self._refuses = False

    async def serve(self, client: trio.SocketStream) -> None:
        """Carry one connection."""
        if self._refuses:
            await trio.aclose_forcefully(client)
            return
        server = await trio.open_tcp_stream("127.0.0.1", self.target.port)
        conversation = Conversation(client, server)
        self._conversations.add(conversation)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._carry, self._up, conversation, nursery)
                nursery.start_soon(self._carry, self._down, conversation, nursery)
        finally:
            self._conversations.discard(conversation)
            with trio.CancelScope(shield=True):
                await conversation.close()

    async def _carry(
        self,
        direction: Callable[[Conversation], Awaitable[None]],
        conversation: Conversation,
        nursery: trio.Nursery,
    ) -> None:
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await direction(conversation)
        nursery.cancel_scope.cancel()

    async def _up(self, conversation: Conversation) -> None:
        async for data in conversation.client:
            conversation.listens = conversation.listens or b"SSUBSCRIBE" in data
            for name in self._loses:
                if name in data:
                    conversation.losing = True
                    self._loses.remove(name)
                    break
            await conversation.server.send_all(data)

    async def _down(self, conversation: Conversation) -> None:
        async for data in conversation.server:
            if conversation.losing:
                self.lost += 1
                self.on_loss()
                return
            await (self._mail if conversation.listens else self._replies).wait()
            await conversation.client.send_all(data)


@contextlib.asynccontextmanager
async def between(node: Node) -> AsyncIterator[Proxy]:
    """A proxy in front of a server, for the length of a block."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = int(listeners[0].socket.getsockname()[1])
        proxy = Proxy(port, node, node.url.replace(f":{node.port}/", f":{port}/"))
        proxy.release()
        nursery.start_soon(trio.serve_listeners, proxy.serve, listeners)
        try:
            yield proxy
        finally:
            nursery.cancel_scope.cancel()
