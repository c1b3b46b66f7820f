"""A disk: tables that outlive a crash. A batch is on it whole or not at all, as RocksDB's log promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sortedcontainers import SortedDict

from gcs.store.database import TABLES, Database, Writes
from gcs.store.errors import DiskFull, StoreError, no_room

_SOME = 64


class Disk:
    """What is on it, whoever has it open."""

    def __init__(self) -> None:
        self.tables: dict[str, Any] = {table: SortedDict() for table in TABLES}
        self.is_full = False
        self._generation = 0

    def open(self, place: Path) -> DiskDatabase:
        """Open it; whoever had it open before, and has died, has it no more."""
        self._generation += 1
        return DiskDatabase(place, self, self._generation)

    def crash(self) -> None:
        """Whoever has it open is dead."""
        self._generation += 1

    def is_open(self, generation: int) -> bool:
        """Whether who opened it is the last one, and lives."""
        return generation == self._generation


class DiskWrites(Writes):
    """A batch, as a list of what to do."""

    def __init__(self) -> None:
        self.tables: dict[str, Any] = {table: table for table in TABLES}
        self.steps: list[Callable[[Mapping[str, Any]], object]] = []
        self.put: Callable[..., None] = self._put
        self.delete: Callable[..., None] = self._delete
        self.delete_range: Callable[..., None] = self._delete_range

    __slots__ = ("steps",)

    def _put(self, key: bytes, value: bytes, table: str) -> None:
        self.steps.append(lambda tables: tables[table].__setitem__(key, value))

    def _delete(self, key: bytes, table: str) -> None:
        self.steps.append(lambda tables: tables[table].pop(key, None))

    def _delete_range(self, start: bytes, end: bytes, table: str) -> None:
        self.steps.append(
            lambda tables: [
                tables[table].pop(key)
                for key in list(tables[table].irange(start, end, inclusive=(True, False)))
            ]
        )


class DiskDatabase(Database):
    """The tables of a store on such a disk."""

    def __init__(self, place: Path, disk: Disk, generation: int) -> None:
        self._place, self._disk, self._generation = place, disk, generation
        self._is_closed = False

    def _now(self, table: str) -> Any:
        if self._is_closed or not self._disk.is_open(self._generation):
            raise StoreError(f"{self._place}: closed.")
        return self._disk.tables[table]

    def get(self, table: str, key: bytes) -> bytes | None:
        """One value."""
        value: bytes | None = self._now(table).get(key)
        return value

    def get_many(self, table: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of some keys, in their order."""
        found = self._now(table)
        return [found.get(key) for key in keys]

    def scan(self, table: str, start: bytes, end: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """The entries of a range [start, end), in order."""
        while True:
            entries = self._now(table)
            some = []
            for key in entries.irange(start, end, inclusive=(True, False)):
                some.append((key, entries[key]))
                if len(some) == _SOME:
                    break
            yield from some
            if len(some) < _SOME:
                return
            start = some[-1][0] + b"\0"

    def batch(self) -> Writes:
        """A new, empty batch."""
        return DiskWrites()

    def write(self, writes: Writes) -> None:
        """Write a batch."""
        assert isinstance(writes, DiskWrites)
        self._now(TABLES[0])
        if self._disk.is_full:
            raise no_room(self._place)
        for step in writes.steps:
            step(self._disk.tables)

    def reopen(self) -> None:
        """Nothing is between it and the disk; it has room again, or has not."""
        if self._disk.is_full:
            raise DiskFull(f"{self._place}: full.")

    def close(self) -> None:
        """Let go of it."""
        self._is_closed = True

    def flush(self) -> None:
        """Everything is where it should be."""
