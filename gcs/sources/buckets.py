"""Buckets of objects, at one endpoint that speaks as S3 does.

    s3://archive/                       a bucket: what there is up to the next slash, in pieces
    s3://archive/2024/                  what begins with 2024/
    s3://archive/2024/a.txt             an object, as its bytes are

Objects are asked for over HTTP, by the transport of the web and so by the guard's leave, anonymously or
signed. What has a name that no URL of a source can have (an empty part, dots) is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes
from xml.parsers import expat

from gcs.core.dates import moment
from gcs.core.signing import Credentials, headers, target
from gcs.core.sources import Logins, after, names, spelt
from gcs.core.urls import canonical
from gcs.fetch.fetching import Fetching
from gcs.fetch.outcome import Failure, Origin, Outcome, Reason, Response
from gcs.sources.answers import HTML, Conditions, Entry, page, piece, response, shown

_LAST: Final = "\U0010ffff".encode()
"""After all that begins with a name."""
_LISTING_BYTES: Final = 8 << 20
_DEEPEST: Final = 8


class _Page(NamedTuple):
    """Names of one answer, in order, those of what has parts with a slash at the end; and how it goes on."""

    names: list[bytes]
    more: str


class Buckets:
    """The buckets of an endpoint."""

    def __init__(
        self,
        web: Fetching,
        logins: Logins,
        *,
        endpoint: str,
        region: str,
        max_body_bytes: int,
        now: Callable[[], datetime],
    ) -> None:
        """Logins are of buckets: the identity of a key, and its secret. `now` is in UTC."""
        self._web, self._logins, self._region, self._now = web, logins, region, now
        self._endpoint, _ = Origin.split(canonical(endpoint))
        self._max_body_bytes = max_body_bytes

    async def fetch(self, url: str, conditions: Conditions) -> Outcome:
        """The answer to a canonical URL."""
        origin, _ = Origin.split(url)
        path = b"/".join(names(url))
        if path and not path.endswith(b"/"):
            return await self._object(origin.host, path, url, conditions)
        return await self._listing(origin.host, path, after(url))

    async def _get(
        self,
        bucket: str,
        key: bytes,
        query: dict[str, str | bytes],
        *,
        etag: str = "",
        most_bytes: int = _LISTING_BYTES,
    ) -> Outcome:
        """GET something; anything but an answer about it is a failure."""
        asked = target(b"/" + bucket.encode() + b"/" + key, query)
        lines = f"If-None-Match: {etag}\r\n".encode("latin-1") if etag else b""
        if (login := self._logins.of(bucket)) is not None:
            lines += headers(self._endpoint.netloc, asked, Credentials(*login, self._region), self._now())
        found = await self._web.fetch(self._endpoint, asked, headers=lines, max_body_bytes=most_bytes)
        if isinstance(found, Failure) or found.status in (200, 304, 403, 404, 429) or found.status >= 500:
            return found
        advice = "sources.bucket_endpoint and sources.bucket_region have to be those of it"
        return Failure(Reason.CONNECT, f"The bucket {bucket} says {found.status}; {advice}.")

    # Objects

    async def _object(self, bucket: str, key: bytes, url: str, conditions: Conditions) -> Outcome:
        found = await self._get(bucket, key, {}, etag=conditions.etag, most_bytes=self._max_body_bytes)
        if isinstance(found, Failure):
            return found
        if found.status == 404:
            below = await self._page(bucket, key + b"/", {"max-keys": "1"})
            if isinstance(below, _Page) and below.names:
                return response(301, location=f"{url}/")
        if found.status not in (200, 304):
            return _refused(found)
        return response(
            found.status,
            found.body,
            content_type=found.headers.get("content-type", ""),
            etag=found.headers.get("etag", ""),
            modified=moment(found.headers.get("last-modified", "")),
            truncated=found.truncated,
        )

    # What there is

    async def _listing(self, bucket: str, prefix: bytes, since: bytes) -> Outcome:
        # What has parts comes before them: all that begins with it is passed over.
        start = prefix + since + _LAST if since.endswith(b"/") else prefix + since
        query: dict[str, str | bytes] = {"start-after": start} if since else {}
        listed: list[bytes] = []
        while True:
            found = await self._page(bucket, prefix, query)
            if not isinstance(found, _Page):
                return found
            listed += found.names
            entries, more = piece(listed)
            if more or not found.more:
                break
            query = {"continuation-token": found.more}
        links = [Entry(f"./{_href(name)}", shown(name)) for name in entries]
        title = f"{bucket}: {shown(prefix)}" if prefix else bucket
        return response(200, page(title, links, more=more), content_type=HTML)

    async def _page(self, bucket: str, prefix: bytes, query: dict[str, str | bytes]) -> _Page | Outcome:
        """A part of what begins with a prefix, up to the next slash."""
        asked = {"list-type": "2", "delimiter": "/", "encoding-type": "url", "prefix": prefix, **query}
        found = await self._get(bucket, b"", asked)
        if isinstance(found, Failure):
            return found
        if found.status != 200:
            return _refused(found)
        try:
            return _read(found.body, prefix)
        except (expat.ExpatError, ValueError):
            return Failure(Reason.PROTOCOL, f"The bucket {bucket} gives no list of what is in it.")


def _refused(found: Response) -> Response:
    """An answer that gives nothing, with the time that it asks for."""
    return response(found.status, retry_after=found.headers.get("retry-after", ""))


def _read(body: bytes, prefix: bytes) -> _Page:
    """What an answer lists; raises ExpatError, or ValueError for what is no list."""
    steps: list[str] = []
    texts: list[str] = []
    found: list[str] = []
    more = encoding = ""

    def start(name: str, _: object) -> None:
        if len(steps) > _DEEPEST or (not steps and name != "ListBucketResult"):
            raise ValueError("it is no list")
        steps.append(name)
        texts.clear()

    def end(_: str) -> None:
        nonlocal more, encoding
        text = "".join(texts)
        if steps[1:] in (["Contents", "Key"], ["CommonPrefixes", "Prefix"]):
            found.append(text)
        elif steps[1:] == ["EncodingType"]:
            encoding = text
        elif steps[1:] == ["NextContinuationToken"]:
            more = text
        steps.pop()

    def declared(*_: object) -> None:
        raise ValueError("a list declares nothing")  # such as names for very long texts

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = declared
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = texts.append
    parser.Parse(body, True)  # noqa: FBT003 - it takes no names
    # Some servers encode nothing, whatever they are asked for. With the others a plus stands for a space.
    decoded = (
        unquote_to_bytes(each.replace("+", " ")) if encoding == "url" else each.encode() for each in found
    )
    return _Page(sorted(filter(_is_name, (name.removeprefix(prefix) for name in decoded))), more)


def _is_name(name: bytes) -> bool:
    """Whether something has a URL: one name, perhaps with a slash at the end."""
    bare = name.removesuffix(b"/")
    return bare not in (b"", b".", b"..") and b"/" not in bare and b"\0" not in bare


def _href(name: bytes) -> str:
    return spelt(name.removesuffix(b"/")) + "/" * name.endswith(b"/")
