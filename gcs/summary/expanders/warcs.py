"""WARC: responses and resources, each a member named after the URL that it came from.

Also gzipped, as most are. What is said of a record by its headers is believed: its length, its type. A
payload keeps the codings in which it was sent until here.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from typing import IO, Final

from gcs.fetch.answer import parse_headers
from gcs.fetch.decoding import Undecodable, codings, decode
from gcs.summary.deep import unreadable
from gcs.summary.expanders.packed import unpacked
from gcs.summary.limits import Budget, Refused
from gcs.summary.plugins import Part

_KINDS: Final = frozenset({"response", "resource", "conversion"})
_MAX_HEAD: Final = 64 << 10


def expand(part: Part, budget: Budget) -> Iterator[Part]:
    """The documents of a file; raises Refused when it is cut off or damaged."""
    stream: IO[bytes]
    if part.body.startswith(b"\x1f\x8b"):
        stream = gzip.GzipFile(fileobj=io.BytesIO(part.body))  # type: ignore[assignment] # which is one
    elif part.body.startswith(b"\x28\xb5\x2f\xfd"):
        stream = io.BytesIO(unpacked(part._replace(media_type="application/zstd"), budget))
    else:
        stream = io.BytesIO(part.body)
    try:
        yield from _records(stream, budget)
    except EOFError:
        raise Refused("truncated") from None
    except (OSError, ValueError) as error:
        raise Refused(f"damaged: {error}") from None


def _records(stream: IO[bytes], budget: Budget) -> Iterator[Part]:
    while (headers := _head(stream, budget)) is not None:
        length = int(headers.get("content-length", "-1"))
        if length < 0:
            raise Refused("damaged: a record without a length")
        name = headers.get("warc-target-uri", "").strip("<>")
        is_kept = headers.get("warc-type", "").lower() in _KINDS
        data = _block(stream, length, budget, is_kept=is_kept)
        if data is None and is_kept:
            yield unreadable(name, "larger than a member may be")
        elif data is not None:
            yield _member(name, headers.get("content-type", ""), data, budget)


def _head(stream: IO[bytes], budget: Budget) -> dict[str, str] | None:
    """The headers of the next record; None at the end."""
    headers: dict[str, str] = {}
    is_begun = False
    for line in _lines(stream, budget):
        if line in {b"\r\n", b"\n"}:
            if is_begun:
                return headers
        elif not is_begun:
            if not line.startswith(b"WARC/"):
                raise Refused("damaged: no record where one should begin")
            is_begun = True
        else:
            name, _, value = line.decode("utf-8", "replace").partition(":")
            headers[name.strip().lower()] = value.strip()
    if is_begun:
        raise EOFError
    return None


def _lines(stream: IO[bytes], budget: Budget) -> Iterator[bytes]:
    """Lines up to the end; raises Refused for more than headers can be."""
    size = 0
    while line := stream.readline(_MAX_HEAD):
        budget.take(len(line))
        size += len(line)
        if size > _MAX_HEAD:
            raise Refused("damaged: headers without end")
        yield line


def _block(stream: IO[bytes], length: int, budget: Budget, *, is_kept: bool) -> bytes | None:
    """The block of a record, passed over unless it is to be kept and is not too long."""
    is_kept = is_kept and length <= budget.limits.member_bytes
    parts: list[bytes] = []
    while length:
        data = stream.read(min(length, 1 << 18))
        if not data:
            raise EOFError
        budget.take(len(data))
        length -= len(data)
        if is_kept:
            parts.append(data)
    return b"".join(parts) if is_kept else None


def _member(name: str, media_type: str, data: bytes, budget: Budget) -> Part:
    if not media_type.lower().startswith("application/http"):
        return Part(data, name, media_type)
    head, separator, payload = data.partition(b"\r\n\r\n")
    headers = parse_headers(head + separator)
    if "chunked" in headers.get("transfer-encoding", "").lower():
        payload = _without_chunks(payload)
    limit = budget.limits
    applied = codings(headers)
    found = decode(payload, applied, max_bytes=limit.member_bytes, max_ratio=limit.ratio)
    if isinstance(found, Undecodable):
        return unreadable(name, f"damaged: {found.detail or found.reason}")
    budget.take(len(found.body) if applied else 0)
    return Part(found.body, name, headers.get("content-type", ""))


def _without_chunks(payload: bytes) -> bytes:
    """A payload that was archived in chunks, put together; as far as it is in chunks."""
    parts: list[bytes] = []
    at = 0
    while (end := payload.find(b"\r\n", at, at + 100)) >= 0:
        try:
            length = int(payload[at:end].partition(b";")[0], 16)
        except ValueError:
            return payload if not parts else b"".join(parts)
        if length <= 0:
            break
        parts.append(payload[end + 2 : end + 2 + length])
        at = end + 2 + length + 2
    return b"".join(parts)
