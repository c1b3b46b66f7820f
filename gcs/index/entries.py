"""What of a summary can be found, and which summaries are to be found at all.

Summaries come as the store keeps them: packed rows of its journal, or rows of its Parquet files. Of a page
that was visited again and is as it was, nothing is said anew; of one that is gone, that it is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgpack

from gcs.core.query import Paper
from gcs.core.words import Words, folding
from gcs.summary.records import NAMES

COLUMNS: Final = (
    *("url", "key", "status", "media_type", "fetched_at", "unchanged", "title", "description"),
    *("keywords", "headings", "excerpt", "language"),
)
"""The columns of a summary that an entry is made of."""
_AT: Final = [NAMES.index(name) for name in COLUMNS]
_HEADINGS: Final = COLUMNS.index("headings")
_ROWS_AT_ONCE: Final = 1_000


class Entry(NamedTuple):
    """One page, as it can be found and shown."""

    url: str
    key: str
    status: int
    media_type: str
    fetched_us: int
    """When it was fetched, in microseconds of Unix time."""
    unchanged: bool
    title: str
    description: str
    keywords: Sequence[str]
    headings: Sequence[str]
    excerpt: str
    language: str

    @property
    def is_there(self) -> bool:
        """Whether there is a page; not if it was answered that there is none any more."""
        return 200 <= self.status < 300

    @property
    def host(self) -> str:
        """The name of its host, without a port."""
        return host_of(self.url)

    def texts(self) -> dict[str, str]:
        """The texts of each field that has words."""
        about = " \n".join([self.description, *self.keywords, *self.headings])
        return {
            "title": self.title,
            "about": about,
            "text": self.excerpt,
            "url": self.url.partition("://")[2],
        }

    def exact(self) -> dict[str, list[str]]:
        """The values of each field that is compared as a whole."""
        kind = folding(self.media_type)
        return {
            "host": domains(self.host),
            "lang": [folding(self.language)] if self.language else [],
            "type": [kind, kind.partition("/")[0]] if kind else [],
        }

    def paper(self, words: Words) -> Paper:
        """The page as queries see it."""
        return Paper(words, self.language, self.texts(), self.exact())


class Shown(NamedTuple):
    """What of a page is shown where it was found; its fields are those of `Entry`."""

    url: str
    key: str
    media_type: str
    fetched_us: int
    title: str
    description: str
    excerpt: str
    language: str


SHOWN: Final = ("url", "key", "media_type", "fetched_at", "title", "description", "excerpt", "language")
"""The columns of a summary that these are; those that hold several values take longer to read."""


def shown(entry: Entry) -> Shown:
    """What is shown of an entry."""
    return Shown(*[getattr(entry, name) for name in Shown._fields])


def host_of(url: str) -> str:
    """The host of a canonical URL, without its port."""
    parts = url.split("/", 3)
    host = parts[2] if len(parts) > 2 else ""
    return (
        host if host.endswith("]") else host.partition(":")[0] if host[:1] != "[" else host.rpartition(":")[0]
    )


def domains(host: str) -> list[str]:
    """A host and all domains above it."""
    found = [host]
    if host[-1:].isdigit() or host[:1] == "[":  # an address
        return found
    while dot := host.find(".") + 1:
        host = host[dot:]
        found.append(host)
    return found


def unpacked(packed: bytes) -> Iterator[Entry]:
    """The rows of a journal entry."""
    unpacker = msgpack.Unpacker(use_list=False, max_buffer_size=max(1, len(packed)))
    unpacker.feed(packed)
    for row in unpacker:
        yield entry_of([row[at] for at in _AT])


def filed(path: Path) -> Iterator[Entry]:
    """The rows of a Parquet file."""
    from gcs.store import parquet

    for rows in parquet.read(path, COLUMNS, _ROWS_AT_ONCE):
        yield from map(entry_of, rows)


def entry_of(values: Sequence[Any]) -> Entry:
    """The entry of a row, from the values of `COLUMNS`."""
    said = list(values)
    said[_HEADINGS] = [each["text"] if isinstance(each, Mapping) else each[1] for each in said[_HEADINGS]]
    return Entry(*said)
