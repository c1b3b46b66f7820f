"""Sends every summary to an OpenSearch, for those who have outgrown the embedded index.

Pages are sent in bulk, in their order, again and again until they are there. A page's version is when it was
fetched, so that whatever is sent twice, or late by another gatherer, replaces nothing that is newer. How far
it has come is kept in the store after an answer: what is lost in between is sent once more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

import httpx
import msgpack
import structlog
import trio

from gcs import config
from gcs.fetch.client import HttpxTransport, unguarded
from gcs.fetch.transport import Transport
from gcs.index import FORGOTTEN
from gcs.index.entries import Entry
from gcs.index.feed import forgotten, journalled
from gcs.index.following import Following
from gcs.index.records import Forgotten, Position
from gcs.store.errors import DiskFull
from gcs.store.records import SUMMARIES, Batch
from gcs.store.store import Store

SENT: Final = "sent to opensearch"
"""The name under which a store keeps how far its summaries were sent."""
LOOK_EVERY_S: Final = 0.5
_PAGES: Final = 500
"""Pages of one request."""
_FIRST_REST_S: Final = 1.0
_LONGEST_REST_S: Final = 60.0
_TIMEOUT_S: Final = 60.0
_BULK: Final = "/_bulk"
_DELETE: Final = "/_delete_by_query?conflicts=proceed&refresh=true"
_EXISTS: Final = "resource_already_exists"
"""What it says where the index is there already."""
_TOO_BUSY: Final = 429
_CONFLICT: Final = 409
_NOT_FOUND: Final = 404
_TEXT: Final = {"type": "text"}
_KEYWORD: Final = {"type": "keyword"}
MAPPING: Final[Mapping[str, Any]] = {
    "mappings": {
        "properties": {
            **dict.fromkeys(("title", "description", "keywords", "headings", "text"), _TEXT),
            **dict.fromkeys(("url", "key", "host", "lang", "type"), _KEYWORD),
            "fetched_us": {"type": "long"},
        }
    }
}


class _Gathered(Following):
    """Holds the summaries that are to be sent next."""

    def __init__(self, store: Store, position: Position) -> None:
        super().__init__(store.directory)
        self._at = position
        self.entries: list[Entry] = []

    def at(self) -> Position:
        """What was given out."""
        return self._at

    def take(self, entries: Iterable[Entry], position: Position) -> None:
        """Hold summaries."""
        self.entries, self._at = list(entries), position


class Sink:
    """Sends what one gatherer has fetched."""

    def __init__(self, config: config.Config, store: Store) -> None:
        self._config, self._store = config, store
        self._log = structlog.get_logger()
        parts = urlsplit(config.index.url)
        host = parts.netloc.rpartition("@")[2]
        self._base = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._auth = (
            httpx.BasicAuth(unquote(parts.username), unquote(parts.password or ""))
            if parts.username
            else None
        )
        self._index = f"{self._base}/{config.index.name}"
        self._sent = 0
        self._moved = trio.Event()

    async def run(self) -> None:
        """Send, again and again; never ends by itself."""
        async with Transport(unguarded(self._config.fetch)) as transport:
            over = HttpxTransport(transport, max_body_bytes=16 << 20)
            async with httpx.AsyncClient(transport=over, auth=self._auth, timeout=_TIMEOUT_S) as client:
                await self._asked(client, "PUT", "", json.dumps(MAPPING).encode())
                while True:
                    try:
                        await self._follow(client)
                    except DiskFull as error:
                        self._log.warning("how far OpenSearch has come cannot be kept", why=str(error))
                        await trio.sleep(_LONGEST_REST_S)

    async def caught_up(self, within_s: float) -> bool:
        """Wait until what is committed now was sent; False if that takes too long."""
        wanted = self._store.journal(SUMMARIES).tail
        with trio.move_on_after(within_s):
            while self._sent < wanted:
                await self._moved.wait()
            return True
        return False

    async def _asked(self, client: httpx.AsyncClient, method: str, path: str, body: bytes) -> Any:
        """What it answers, however long that takes: it is asked again, after longer and longer rests."""
        kind = "application/x-ndjson" if path == _BULK else "application/json"
        rest_s = _FIRST_REST_S
        while True:
            try:
                url, headers = f"{self._index}{path}", {"Content-Type": kind}
                answer = await client.request(method, url, content=body, headers=headers)
                if answer.is_success or _EXISTS in answer.text:
                    return answer.json()
                why = f"it answered {answer.status_code} {answer.text[:200]}"
            except (httpx.HTTPError, ValueError) as error:
                why = str(error) or type(error).__name__
            self._log.warning("OpenSearch cannot be used; trying again", why=why, rest_s=rest_s)
            await trio.sleep(rest_s)
            rest_s = min(_LONGEST_REST_S, rest_s * 2)

    async def _follow(self, client: httpx.AsyncClient) -> None:
        """Send what is next; returns after a part of it, and when there is nothing."""
        kept = self._store.get_meta(SENT)
        entry, rows, told = msgpack.unpackb(kept) if kept else (0, 0, b"")
        gathered = _Gathered(self._store, Position(entry, rows))
        gone = self._store.get_meta(FORGOTTEN) or b""
        ranges = forgotten(gone)
        if gone != told:
            for each in ranges:
                await self._forget(client, each)
        packed = await trio.to_thread.run_sync(partial(journalled, self._store, entry))
        if packed:
            gathered.rows(entry, packed)
        elif packed is None:
            await trio.to_thread.run_sync(gathered.files, self._store.journal(SUMMARIES).head)
        elif gone == told:
            await trio.sleep(LOOK_EVERY_S)
            return
        entries = [
            each
            for each in gathered.entries
            if not each.unchanged and not any(some.covers(each.key, each.fetched_us) for some in ranges)
        ]
        for at in range(0, len(entries), _PAGES):
            await self._send(client, entries[at : at + _PAGES])
        position = msgpack.packb((*gathered.at(), gone))
        await trio.to_thread.run_sync(self._store.commit, Batch(meta={SENT: position}))
        self._sent = gathered.at().entry
        self._moved.set()
        self._moved = trio.Event()

    async def _send(self, client: httpx.AsyncClient, entries: Sequence[Entry]) -> None:
        """Send pages until all are taken, or refused for good."""
        left = list(entries)
        while left:
            answer = await self._asked(client, "POST", _BULK, b"".join(_lines(left)))
            statuses = [next(iter(item.values()))["status"] for item in answer["items"]]
            again = [each for each, status in zip(left, statuses, strict=True) if _is_busy(status)]
            refused = [status for status in statuses if _is_refused(status)]
            if refused:
                self._log.warning("OpenSearch has refused pages", count=len(refused), status=refused[0])
            left = again
            if left:
                await trio.sleep(_FIRST_REST_S)

    async def _forget(self, client: httpx.AsyncClient, each: Forgotten) -> None:
        keys = {"gte": each.start} | ({"lt": each.end} if each.end is not None else {})
        ranges = [{"range": {"key": keys}}, {"range": {"fetched_us": {"lt": each.before_us}}}]
        asked = {"query": {"bool": {"filter": ranges}}}
        await self._asked(client, "POST", _DELETE, json.dumps(asked).encode())


def _is_busy(status: int) -> bool:
    return status == _TOO_BUSY or status >= 500


def _is_refused(status: int) -> bool:
    """Whether a page is not taken, and never will be; one that is newer there, or gone, is as it should."""
    return 400 <= status < 500 and status not in (_TOO_BUSY, _CONFLICT, _NOT_FOUND)


def identity(key: str) -> str:
    """What a page is called there; keys may be longer than names there."""
    return hashlib.blake2b(key.encode(), digest_size=20).hexdigest()


def _lines(entries: Iterable[Entry]) -> Iterator[bytes]:
    for entry in entries:
        about = {"_id": identity(entry.key), "version": entry.fetched_us, "version_type": "external_gte"}
        yield json.dumps({"index" if entry.is_there else "delete": about}).encode() + b"\n"
        if entry.is_there:
            yield json.dumps(_document(entry), ensure_ascii=False).encode() + b"\n"


def _document(entry: Entry) -> Mapping[str, Any]:
    return {
        "url": entry.url,
        "key": entry.key,
        "title": entry.title,
        "description": entry.description,
        "keywords": list(entry.keywords),
        "headings": list(entry.headings),
        "text": entry.excerpt,
        "fetched_us": entry.fetched_us,
        **entry.exact(),
    }
