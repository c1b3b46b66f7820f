"""What sources answer: responses as web servers give them, and pages that list what there is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from email.utils import formatdate
from html import escape
from typing import Final, NamedTuple
from zlib import crc32

from gcs.core.sources import spelt
from gcs.fetch.outcome import Response

PIECE: int = 1_000
"""How many names a piece of a list has, about: four times as many at most."""
HTML = "text/html; charset=utf-8"
_YEAR_10000_S: Final = 253_402_300_800.0
"""Dates from then on cannot be written."""
_MATCHES = re.compile(rb"(?im)^if-none-match:[ \t]*([^\r\n]+)")


class Conditions(NamedTuple):
    """What is known of a page from the last visit."""

    etag: str = ""

    @classmethod
    def of(cls, headers: bytes) -> Conditions:
        """Those that header lines ask for."""
        found = _MATCHES.search(headers)
        return cls(found[1].decode("latin-1")) if found else cls()


def response(
    status: int,
    body: bytes = b"",
    *,
    content_type: str = "",
    etag: str = "",
    modified: float | None = None,
    location: str = "",
    truncated: str = "",
    retry_after: str = "",
) -> Response:
    """An answer; when it was asked for, and how long that took, is noted by whoever asked."""
    headers = {"content-type": content_type} if content_type else {}
    if etag:
        headers["etag"] = etag
    if modified is not None and 0 <= modified < _YEAR_10000_S:
        headers["last-modified"] = formatdate(modified, usegmt=True)
    if location:
        headers["location"] = location
    if retry_after:
        headers["retry-after"] = retry_after
    return Response(
        status=status,
        head=b"",
        headers=headers,
        body=body,
        raw=body,
        truncated=truncated,
        request=b"",
        address="",
        started=0.0,
        connect_s=0.0,
        first_byte_s=0.0,
        total_s=0.0,
        reused=False,
    )


class Entry(NamedTuple):
    """A link of a list: where it leads, relative to that, and what it is called."""

    href: str
    text: str


def page(title: str, entries: Iterable[Entry], *, more: bytes = b"", remarks: Sequence[str] = ()) -> bytes:
    """A list as a page; `more` is the name after which it goes on."""
    shown = escape(title)
    lines = [f"<!DOCTYPE html>\n<meta charset=utf-8>\n<title>{shown}</title>\n<h1>{shown}</h1>"]
    lines += [f"<p>{escape(remark)}</p>" for remark in remarks]
    lines += [f'<p><a href="{escape(each.href)}">{escape(each.text)}</a></p>' for each in entries]
    if more:
        lines.append(f'<p><a rel=next href="?after={spelt(more)}">…</a></p>')
    return ("\n".join(lines) + "\n").encode()


def piece(names: Sequence[bytes]) -> tuple[Sequence[bytes], bytes]:
    """The first piece of names in order, and the last name of it if there are more.

    Where a piece ends is said by the names themselves, so that those which come or go move no other piece.
    """
    for count, name in enumerate(names[: 4 * PIECE], start=1):
        if count < len(names) and (count == 4 * PIECE or crc32(name) % PIECE == 0):
            return names[:count], name
    return names, b""


def shown(name: bytes) -> str:
    """A name for people."""
    return name.decode("utf-8", "replace")
