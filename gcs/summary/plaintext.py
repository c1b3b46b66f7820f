"""Plain text, read: its first line for a title, its language, its first words."""

from __future__ import annotations

from typing import Final

from gcs.summary import records
from gcs.summary.charsets import UNKNOWN, Charset
from gcs.summary.language import identify
from gcs.summary.recognise import TEXT
from gcs.summary.records import Document
from gcs.summary.text import fitted

READ: Final = 64 << 10
"""Bytes of a text that are looked at."""


def read_text(
    body: bytes, *, charset: Charset = UNKNOWN, media_type: str = TEXT, domain: str = ""
) -> Document:
    """What a text in UTF-8 says; `charset` is what it was in, and hints at the language as `domain` does."""
    text = body[:READ].decode("utf-8", "replace")
    first = next(filter(None, map(str.strip, text[:5_000].splitlines())), "")
    excerpt = fitted(text, records.MAX_EXCERPT)
    found = identify(excerpt, domain=domain, charset=charset.used)
    return Document(
        format=media_type,
        charset=charset.used,
        charset_declared=charset.declared,
        charset_detected=charset.detected,
        title=fitted(first, records.MAX_TITLE),
        excerpt=excerpt,
        language=found.code,
        language_confidence=found.confidence,
    )
