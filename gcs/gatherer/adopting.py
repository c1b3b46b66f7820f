"""Pages that were fetched before anybody thought of coming back: what can be found out about them now.

Summaries have the validators of a page, rows that it was fetched. Whether its body is in a record of its own
nothing says: while nobody thinks of coming back, a page with the payload of another that was kept of late is
kept as a reference to that one. The log has the digests of all payloads in the order in which they came; so
who may be such a reference is known, and is kept whole at its next visit.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, islice
from typing import Final, NamedTuple

from gcs.core.revisits.memory import Look
from gcs.core.urls import Rejected, key
from gcs.gatherer.archive import ORIGINALS
from gcs.gatherer.revisiting import ELSEWHERE, Revisiting
from gcs.store.errors import DiskFull
from gcs.store.records import SUMMARIES, Revised, State
from gcs.store.store import Store
from gcs.summary.records import MEMBER

AT_ONCE: Final = 500
_COLUMNS: Final = ("key", "fetched_at", "etag", "last_modified", "links_out", "via")
_FIELDS: Final = 12
_URL, _DIGEST = 3, 9


class Stranger(NamedTuple):
    """What is known of a page."""

    key: str
    look: Look
    links: int
    kept_at: float


class Strangers:
    """The pages of a store that are done, and of which nothing is remembered."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def everywhere(self) -> Iterator[list[Stranger]]:
        """Some at a time. It reads much, and may do so in a thread."""
        # Of what finds no room rows alone tell.
        with suppress(DiskFull):
            self._store.flush_segments(everything=True)
        yield from chain(self._references(), self._summarised(), self.within("", None))

    def within(self, start: str, end: str | None) -> Iterator[list[Stranger]]:
        """Those of a range [start, end) of keys of which rows alone tell, some at a time."""
        rows = self._store.scan(start, end)
        while some := list(islice(rows, AT_ONCE)):
            done = [(key, row) for key, row in some if row.state is State.DONE and 200 <= row.status < 400]
            known = self._store.all_remembered([key for key, _ in done])
            yield [
                Stranger(key, Look(row.at), 0, 0.0 if _is_secret(row.reason, row.via) else ELSEWHERE)
                for (key, row), has in zip(done, known, strict=True)
                if has is None
            ]

    def _summarised(self) -> Iterator[list[Stranger]]:
        from gcs.store.parquet import read

        for path in self._store.segments(SUMMARIES):
            for found in read(path, _COLUMNS, AT_ONCE):
                rows = [row[:-1] for row in found if row[-1] != MEMBER]
                known = self._store.all_remembered([row[0] for row in rows])
                yield [
                    Stranger(key, Look(at_us / 1e6, etag or "", modified or ""), links or 0, at_us / 1e6)
                    for (key, at_us, etag, modified, links), has in zip(rows, known, strict=True)
                    if has is None
                ]

    def _references(self) -> Iterator[list[Stranger]]:
        """Pages whose payload had come before, of late; without validators, so that they come whole."""
        keys = self._repeated()
        while some := list(islice(keys, AT_ONCE)):
            known = self._store.all_remembered(some)
            rows = [(key, self._store.get(key)) for key, has in zip(some, known, strict=True) if has is None]
            yield [
                Stranger(key, Look(row.at), 0, ELSEWHERE)
                for key, row in rows
                if row is not None and row.state is State.DONE and 200 <= row.status < 300
                if not _is_secret(row.reason, row.via)
            ]

    def _repeated(self) -> Iterator[str]:
        """Keys of what the log says to have come with a payload that had come before."""
        lately: OrderedDict[str, None] = OrderedDict()
        with self._store.log_file.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                words = line.split()
                if len(words) != _FIELDS or words[_DIGEST] == "-":
                    continue
                digest = words[_DIGEST]
                if digest not in lately:
                    lately[digest] = None
                    if len(lately) > ORIGINALS:
                        lately.popitem(last=False)
                    continue
                try:
                    yield key(words[_URL])
                except Rejected:
                    continue


def _is_secret(reason: str, via: str) -> bool:
    """Whether a page is not to be kept: it asks for that, or only lists others."""
    return reason == "noindex" or via == "sitemap-file"


def adopted(revisiting: Revisiting, some: list[Stranger]) -> list[Revised]:
    """What is to be remembered of some strangers, if nobody has met them meanwhile."""
    return [Revised(each.key, None, revisiting.adopted(*each)) for each in some]
