"""RocksDB: its tables, how each is tuned, and one synced write at a time.

Tables: `rows` (key → where the URL stands), `hosts` (host → counts and where its queue begins and ends),
`queue` (host, band, number → a piece of its queue), `later` (time, key → a retry that waits), `parents`
(number → key), `journal` (kind, number → rows for Parquet), `outbox` (receiver, number → what waits for
it), `priorities` (key → what the last ranking says of it), `visits` (key → what is remembered of a
page that is visited again), `due` (grade, time, key: the lines for that), `meta` (name → value).

RocksDB refuses further writes after one has failed, also when there is room again: then `reopen` reads all
of it anew, and whether the failed batch is in it is for the caller to find out.
"""

import gc
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final, cast

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    ColumnFamily,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from gcs.store.errors import DiskFull, StoreError, no_room, translated

ROWS: Final = "rows"
HOSTS: Final = "hosts"
QUEUE: Final = "queue"
LATER: Final = "later"
PARENTS: Final = "parents"
JOURNAL: Final = "journal"
OUTBOX: Final = "outbox"
PRIORITIES: Final = "priorities"
VISITS: Final = "visits"
DUE: Final = "due"
META: Final = "meta"
TABLES: Final = (ROWS, HOSTS, QUEUE, LATER, PARENTS, JOURNAL, OUTBOX, PRIORITIES, VISITS, DUE, META)

_CACHE_BYTES = 16 << 20
_BLOOM_BITS = 10
_WAL_BYTES = 96 << 20
_OPEN_FILES = 256
_MEMTABLE_BYTES: Final = {ROWS: 8 << 20, QUEUE: 8 << 20, JOURNAL: 8 << 20}
_SMALL_MEMTABLE_BYTES = 2 << 20
_BLOCK_BYTES: Final = {ROWS: 3 << 10, QUEUE: 32 << 10}
"""Rows are asked for one by one, and each time a block has to be decompressed: with 16 KB that took three
times as long, for a tenth less on disk. A dictionary saved a tenth too, and cost half of the speed."""
_SMALL_BLOCK_BYTES = 8 << 10
_COMPRESSION: Final = {JOURNAL: DBCompressionType.lz4, OUTBOX: DBCompressionType.none}
"""What is in the outbox is compressed already."""
_LEVEL_BASE_BYTES = 256 << 20
_FILE_BYTES = 32 << 20
_FIRST_SCANNED = 64
_SCANNED = 1024


class Database:
    """The tables of one store; used by one thread for writing, and by any for reading."""

    def __init__(self, place: Path, *, read_only: bool = False) -> None:
        """Open what is there, or make it; read-only, it may be open elsewhere, and is seen as it is now."""
        self._place = place
        self._is_read_only = read_only
        self._is_writable = False
        self._cache = Cache(_CACHE_BYTES)
        self._unsynced = WriteOptions()
        self._db: Rdict
        self._is_closed = False
        # Nobody reads while it is closed only to be opened again.
        self._opening = threading.RLock()
        self._tables: dict[str, Rdict] = {}
        self._handles: dict[str, ColumnFamily] = {}
        self._open(read_only=read_only)

    def _open(self, *, read_only: bool) -> None:
        with translated(self._place):
            self._db = Rdict(
                str(self._place),
                _database_options(),
                {table: self._options(table) for table in TABLES},
                AccessType.read_only() if read_only else AccessType.read_write(),
            )
            self._is_writable = not read_only
            self._tables = {table: self._db.get_column_family(table) for table in TABLES}
            self._handles = {table: self._db.get_column_family_handle(table) for table in TABLES}

    def _options(self, table: str) -> Options:
        blocks = BlockBasedOptions()
        blocks.set_block_cache(self._cache)
        blocks.set_block_size(_BLOCK_BYTES.get(table, _SMALL_BLOCK_BYTES))
        blocks.set_format_version(5)
        if table in (ROWS, HOSTS):
            blocks.set_bloom_filter(bits_per_key=_BLOOM_BITS, block_based=False)
        options = Options(raw_mode=True)
        options.set_block_based_table_factory(blocks)
        options.set_write_buffer_size(_MEMTABLE_BYTES.get(table, _SMALL_MEMTABLE_BYTES))
        options.set_max_write_buffer_number(2)
        options.set_level_compaction_dynamic_level_bytes(True)
        options.set_max_bytes_for_level_base(_LEVEL_BASE_BYTES)
        options.set_target_file_size_base(_FILE_BYTES)
        options.set_compression_type(_COMPRESSION.get(table, DBCompressionType.zstd)())
        return options

    def _table(self, table: str) -> Rdict:
        if not self._tables:
            # Opening it again failed, even for reading. It is tried for every commit.
            raise StoreError(f"{self._place}: closed.") if self._is_closed else no_room(self._place)
        return self._tables[table]

    def get(self, table: str, key: bytes) -> bytes | None:
        """One value."""
        with self._opening, translated(self._place):
            value: bytes | None = self._table(table).get(key)
        return value

    def get_many(self, table: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of some keys, in their order; the GIL is free meanwhile."""
        if not keys:
            return []
        with self._opening, translated(self._place):
            values: list[bytes | None] = self._table(table).get(keys)  # type: ignore[arg-type,assignment] # a list is what it takes
        return values

    def scan(self, table: str, start: bytes, end: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """The entries of a range [start, end), in order; each as it is when it is read.

        Some are read at a time, so that a scan which nobody ends keeps nothing alive in the database.
        """
        options = ReadOptions()
        if end is not None:
            options.set_iterate_upper_bound(end)
        at_once = _FIRST_SCANNED
        while True:
            with self._opening, translated(self._place):
                items = self._table(table).items(from_key=start, read_opt=options)
                some = cast("list[tuple[bytes, bytes]]", list(islice(items, at_once)))
            yield from some
            if len(some) < at_once:
                return
            start = some[-1][0] + b"\0"
            at_once = _SCANNED

    def batch(self) -> "Writes":
        """A new, empty batch."""
        return Writes(self._handles)

    def write(self, writes: "Writes") -> None:
        """Write a batch and sync it; the sync, which is what takes long, leaves the GIL free."""
        if not self._is_writable:
            raise no_room(self._place)
        with translated(self._place):
            self._db.write(writes.batch, self._unsynced)
            self._db.flush_wal(sync=True)

    def reopen(self) -> None:
        """Close and open again; if that fails, it may be tried again, and until then be read from."""
        with self._opening:
            self._close()
            try:
                self._open(read_only=self._is_read_only)
            except DiskFull:
                with suppress(StoreError):
                    self._open(read_only=True)
                raise

    def close(self) -> None:
        """Let go of the files; twice does no harm."""
        self._is_closed = True
        self._close()

    def _close(self) -> None:
        self._is_writable = False
        if not self._tables:
            return
        for each in (*self._tables.values(), self._db):
            # Closing repeats the error that made it necessary; it is closed all the same.
            with suppress(Exception):
                each.close()
        # RocksDB keeps its lock for as long as any object of it lives, those that a batch refers to too.
        self._tables.clear()
        self._handles.clear()
        del self._db
        gc.collect()

    def flush(self) -> None:
        """Move what is in memory to sorted files, so that the log can go and the next start is fast."""
        if not self._is_writable:
            return
        with translated(self._place):
            for table in self._tables.values():
                table.flush()


class Writes:
    """A batch of changes to any tables, all of which happen or none.

    `put(key, value, table)`, `delete(key, table)` and `delete_range(start, end, table)` are bare methods of
    RocksDB, because they are called for every new URL; `tables` has what they take for a table.
    """

    __slots__ = ("batch", "delete", "delete_range", "put", "tables")

    def __init__(self, tables: dict[str, ColumnFamily]) -> None:
        """An empty one."""
        self.tables = tables
        self.batch = WriteBatch(raw_mode=True)
        self.put = self.batch.put
        self.delete = self.batch.delete
        self.delete_range = self.batch.delete_range


def _database_options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(create_if_missing=True)
    options.create_missing_column_families(create_missing_cfs=True)
    options.set_max_total_wal_size(_WAL_BYTES)
    options.set_max_open_files(_OPEN_FILES)
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    options.set_bytes_per_sync(1 << 20)
    # There is one writer.
    options.set_allow_concurrent_memtable_write(allow=False)
    return options
