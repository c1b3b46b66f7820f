"""What is in a store, for reading; also from outside, while the gatherer that owns it is at work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from gcs.store import directory as directories
from gcs.store.database import HOSTS, META, PARENTS, ROWS, VISITS, Database
from gcs.store.encoding import state_of, unpack_host, unpack_origin, unpack_outcome, unpack_visit
from gcs.store.errors import StoreError
from gcs.store.records import VIAS, Counts, Found, HostCounts, Remembered, Row
from gcs.store.segments import journal_entry, journal_rows
from gcs.store.status import Range, Status

STATUS_KEY: Final = b"\0status"


class View:
    """A store as it was when it was opened; nothing is locked, and nothing can be written."""

    def __init__(self, directory: Path) -> None:
        """Raises StoreError for a directory that holds no crawl, or that of a newer version."""
        directories.check(directory)
        self._database = Database(directory / "db", read_only=True)
        packed = self._database.get(META, STATUS_KEY)
        if packed is None:
            self._database.close()
            raise StoreError(f"{directory}: nothing has been kept there yet.")
        self._status = Status.unpack(packed)

    def get(self, key: str) -> Row | None:
        """Where a URL stands; None if it is not known."""
        return row_of(self._database, self._status, key)

    def remembered(self, key: str) -> Remembered | None:
        """What is remembered of a page that is visited again."""
        packed = self._database.get(VISITS, key.encode())
        return None if packed is None else unpack_visit(packed)

    def host(self, host: str) -> HostCounts:
        """The counts of one host."""
        return host_counts(host, self._database.get(HOSTS, host.encode()))

    @property
    def identity(self) -> str:
        """That of the store, which is also its gatherer's."""
        return self._status.identity

    def counts(self) -> Counts:
        """How many URLs are in which state."""
        return self._status.counts

    def get_meta(self, name: str) -> bytes | None:
        """A named value; None if there is none."""
        return self._database.get(META, name.encode())

    def waiting(self, kind: str) -> list[tuple[int, int]]:
        """What of one kind of rows was in no file: numbers of journal entries and their rows, in order."""
        entries = self.journal(kind)
        counts = [(n, journal_rows(self._database, kind, n)) for n in range(entries.head, entries.tail)]
        return [(number, rows) for number, rows in counts if rows is not None]

    def journal(self, kind: str) -> Range:
        """The numbers of those entries: the first, and the one that the next will have."""
        return self._status.journal.get(kind, Range())

    def packed(self, kind: str, number: int) -> bytes | None:
        """The packed rows of such an entry."""
        return journal_entry(self._database, kind, number)

    def __enter__(self) -> Self:
        """The view itself, closed at the end."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        self._database.close()


def row_of(database: Database, status: Status, key: str) -> Row | None:
    """The row of one URL."""
    packed = database.get(ROWS, key.encode())
    return next(rows_of(database, status, [(key.encode(), packed)]))[1] if packed is not None else None


def rows_of(
    database: Database, status: Status, entries: Sequence[tuple[bytes, bytes]]
) -> Iterator[tuple[str, Row]]:
    """Entries of the table of rows, as people read them."""
    parents = parents_of(database, (unpack_origin(packed).parent for _, packed in entries))
    for key, packed in entries:
        origin, outcome = unpack_origin(packed), unpack_outcome(packed)
        yield (
            key.decode(),
            Row(
                state=state_of(packed),
                status=outcome.status if outcome else 0,
                reason=status.reasons[outcome.reason] if outcome else "",
                depth=origin.depth,
                via=VIAS[origin.via],
                parent=parents[origin.parent],
                at=float(outcome.at + status.birth) if outcome else 0.0,
                attempts=outcome.attempts if outcome else 0,
                band=origin.band,
                digest=outcome.digest if outcome else b"",
            ),
        )


def found_of(key: str, packed: bytes, parents: Mapping[int, str]) -> Found:
    """How the URL of a row became known."""
    via, band, depth, parent = unpack_origin(packed)
    return Found(key, depth, parents[parent], VIAS[via], band)


def parents_of(database: Database, numbers: Iterable[int]) -> dict[int, str]:
    """The keys of some parents by number; 0 stands for none."""
    wanted = {number for number in numbers if number}
    values = database.get_many(PARENTS, [parent_key(number) for number in wanted])
    found = {n: value.decode() for n, value in zip(wanted, values, strict=True) if value is not None}
    return {0: ""} | dict.fromkeys(wanted, "") | found


def parent_key(number: int) -> bytes:
    """Where a parent's key is on disk."""
    return number.to_bytes(5, "big")


def host_counts(host: str, packed: bytes | None) -> HostCounts:
    """The counts of a host, from its row if it has one."""
    passed, queued, dropped, done = unpack_host(packed).counts if packed is not None else (0, 0, 0, 0)
    return HostCounts(host, queued, done, dropped, passed)
