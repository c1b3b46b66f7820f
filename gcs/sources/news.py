"""News servers: groups, and their articles by number.

    nntp://news.example.org/                    the groups of a server
    nntp://news.example.org/comp.misc/          a group: its blocks of a thousand numbers, the newest articles
    nntp://news.example.org/comp.misc/?after=2000   a block: articles 2001 to 3000, as far as there are any
    nntp://news.example.org/comp.misc/2345      an article: a message, which is read as mail is

Blocks are the same for ever, so a group that is visited again names new articles, and new blocks, and nothing
old by another name. An article does not change: while its number stands for the same message it is "not
modified". A server is asked one thing at a time, over one connection that is kept. Passwords are sent only
over TLS.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Final

from gcs.core.sources import NNTPS, Logins, after, names, spelt
from gcs.fetch.outcome import Failure, Origin, Outcome, Reason
from gcs.sources.answers import HTML, PIECE, Conditions, Entry, page, piece, response, shown
from gcs.sources.kept import Kept
from gcs.sources.lines import ServerError
from gcs.sources.nntp import Connection, Reply

BLOCK: Final = 1_000
_MOST_BLOCKS: Final = 4_000
"""Blocks of a group that its page names: the newest."""
_SUBJECT: Final = 200
_MOST_DIGITS: Final = 16
"""RFC 3977 has numbers of articles up to 2,147,483,647."""
_NOT_THERE: Final = frozenset({411, 412, 423, 430})
_NOT_ALLOWED: Final = frozenset({480, 481, 482, 483, 502})


class News:
    """News servers."""

    def __init__(
        self,
        logins: Logins,
        *,
        context: Callable[[], ssl.SSLContext],
        max_body_bytes: int,
        connect_timeout_s: float,
    ) -> None:
        """`context` gives what TLS needs."""
        self._logins, self._context, self._max_body_bytes = logins, context, max_body_bytes
        self._kept = Kept("news server", self._connect, connect_timeout_s=connect_timeout_s)

    async def fetch(self, url: str, conditions: Conditions) -> Outcome:
        """The answer to a canonical URL."""
        origin, _ = Origin.split(url)
        return await self._kept.ask(origin, lambda connection: self._answer(connection, url, conditions))

    async def _connect(self, origin: Origin) -> Connection:
        return await Connection.open(
            origin.host,
            origin.port,
            tls=self._context if origin.scheme == NNTPS else None,
            login=self._logins.at(origin.host, origin.port),
            context=self._context,
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._kept.aclose()

    # What is asked for

    async def _answer(self, connection: Connection, url: str, conditions: Conditions) -> Outcome:
        steps = [shown(name) for name in names(url)]
        if any(len(step.split()) > 1 or "\ufffd" in step for step in steps) or len(steps) > 2:
            return response(404)
        if steps == [""]:
            return await self._groups(connection, url)
        if len(steps) == 1:
            return response(301, location=f"{url}/")
        group, number = steps
        if number and not (number.isascii() and number.isdigit() and len(number) < 17):
            return response(404)
        reply = await connection.ask(f"GROUP {group}")
        if reply.code != 211:
            return _refused(reply)
        if number:
            return await self._article(connection, number, conditions)
        return await self._group(connection, url, group, reply, conditions)

    async def _groups(self, connection: Connection, url: str) -> Outcome:
        reply = await connection.ask("LIST ACTIVE", most_bytes=self._max_body_bytes)
        if reply.code != 215:
            return _refused(reply)
        found = sorted({line.split()[0] for line in reply.body.splitlines() if line.split()})
        entries, more = piece([name for name in found if name > after(url)][: 4 * PIECE + 1])
        body = page(url, [Entry(f"./{spelt(name)}/", shown(name)) for name in entries], more=more)
        return response(200, body, content_type=HTML, truncated="length" if reply.is_cut else "")

    async def _group(
        self, connection: Connection, url: str, group: str, reply: Reply, conditions: Conditions
    ) -> Outcome:
        try:
            count, low, high = (int(each) for each in reply.text.split()[:3])
        except ValueError:
            raise ServerError("it says nothing of its group") from None
        since = after(url)
        if since and not (since.isdigit() and len(since) < 17):
            return response(404)
        etag = "" if since else f'"{count}-{low}-{high}"'
        if etag and etag == conditions.etag:
            return response(304, etag=etag)
        first = int(since) + 1 if since else max(high - 1, 0) // BLOCK * BLOCK + 1
        listed = await self._overview(connection, max(first, low), min(first + BLOCK - 1, high))
        entries = [] if since or not count else _blocks(low, high)
        entries += [Entry(f"./{number}", subject) for number, subject in listed]
        body = page(group, entries, remarks=[f"{count} articles, {low} to {high}"] if not since else ())
        return response(200, body, content_type=HTML, etag=etag)

    async def _overview(self, connection: Connection, first: int, last: int) -> list[tuple[int, str]]:
        """The numbers and subjects of the articles in a range."""
        if last < first:
            return []
        reply = await connection.ask(f"OVER {first}-{last}", most_bytes=self._max_body_bytes)
        if reply.code in (500, 501, 503):
            reply = await connection.ask(f"XOVER {first}-{last}", most_bytes=self._max_body_bytes)
        if reply.code in _NOT_THERE or reply.code == 420:
            return []
        if reply.code != 224 or reply.is_cut:
            raise ServerError(f"it gives no overview: {reply.code} {reply.text}")
        found = []
        for line in reply.body.splitlines():
            number, _, rest = line.partition(b"\t")
            if number.isdigit() and len(number) <= _MOST_DIGITS:
                found.append((int(number), shown(rest.partition(b"\t")[0])[:_SUBJECT]))
        return found

    async def _article(self, connection: Connection, number: str, conditions: Conditions) -> Outcome:
        if conditions.etag:
            reply = await connection.ask(f"STAT {number}")
            if reply.code == 223 and _etag(reply) == conditions.etag:
                return response(304, etag=conditions.etag)
        reply = await connection.ask(f"ARTICLE {number}", most_bytes=self._max_body_bytes)
        if reply.code != 220:
            return _refused(reply)
        cut = "length" if reply.is_cut else ""
        return response(200, reply.body, content_type="message/rfc822", etag=_etag(reply), truncated=cut)


def _blocks(low: int, high: int) -> list[Entry]:
    """The blocks of a group, the newest last; of very many the newest."""
    starts = range(max(low - 1, 0) // BLOCK * BLOCK, high, BLOCK)[-_MOST_BLOCKS:]
    return [Entry(f"?after={start}", f"{start + 1} to {start + BLOCK}") for start in starts]


def _etag(reply: Reply) -> str:
    """The identity of the message that a reply is about: `number <id>`."""
    words = reply.text.split()
    return f'"{words[1]}"' if len(words) > 1 and '"' not in words[1] else ""


def _refused(reply: Reply) -> Outcome:
    """What it means that a server refuses."""
    if reply.code in _NOT_THERE:
        return response(404)
    if reply.code in _NOT_ALLOWED:
        return response(403)
    return Failure(Reason.CONNECT, f"The news server says {reply.code}.")
