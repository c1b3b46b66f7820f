"""The store of one gatherer: one atomic unit on disk.

A commit appends the batch's WARC records and log lines and syncs them, then writes everything else as one
synced RocksDB batch, which records how long those files are. What RocksDB has is what happened: files are
cut to the recorded lengths when a store is opened, and after a commit that failed. So after a crash at any
moment a batch is there as a whole or not at all, and what was in flight is queued.

Invariant: every URL that was ever accepted is queued (in flight or not), done or dropped, and is counted
once, unless it was handed over or erased, which the ledger counts. What belongs to another gatherer is passed
on: it is known here, and in the outbox until that one has it.

One thread at a time commits. The other methods may be called from another thread meanwhile: the queue in
memory is locked while a batch is decided about and while its effects are entered, not while it is written.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from gcs import config
from gcs.core.ranking import Priority
from gcs.core.revisits.standing import APPOINTED
from gcs.core.urls import AFTER, PATH
from gcs.store import directory as directories
from gcs.store import moving, priorities, ranges, revisits, warc
from gcs.store.appending import AppendOnly, Archive
from gcs.store.database import HOSTS, META, ROWS, Database
from gcs.store.encoding import state_of, unpack_origin
from gcs.store.errors import DiskFull, StoreError, translated
from gcs.store.outbox import Numbers, outgoing
from gcs.store.planning import Plan, Planner
from gcs.store.queue import Bounds, Queue
from gcs.store.ranges import Which
from gcs.store.records import (
    Again,
    Batch,
    Committed,
    Counts,
    Found,
    HostCounts,
    Ledger,
    Outbox,
    Queued,
    Remembered,
    Row,
    State,
    StoreStatistics,
)
from gcs.store.segments import Segments, files, forget
from gcs.store.status import Range, Status
from gcs.store.view import STATUS_KEY, found_of, host_counts, parents_of, row_of, rows_of
from gcs.world import REAL, World

if TYPE_CHECKING:
    import pyarrow as pa

from gcs.core.revisits.timetable import Timetable

_LOG_FILE: Final = "crawl.log"
_ROWS_AT_ONCE = 512
_BOUNDS: Final = Bounds()
_MAX_BACKLOG = 4.0
"""Segments' worth of journalled rows at which a commit writes segments itself, so that it has a bound."""


class Store:
    """What a gatherer keeps."""

    def __init__(
        self,
        directory: Path,
        settings: config.Store,
        lock: directories.Lock,
        database: Database,
        archive: Archive,
        segments: Segments,
        queue: Queue,
        world: World,
    ) -> None:
        """Recover from whatever happened before; use `open`."""
        self._directory, self._world = directory, world
        self._lock = lock
        self._database = database
        self._archive = archive
        self._segments = segments
        self._queue = queue
        self._lines = revisits.Lines(database)
        self._planner = Planner(database, queue, self._lines)
        self._room = directories.Room(directory, settings.keep_free_bytes)
        self._keeps_pages = settings.pages != "none"
        self._writing = threading.Lock()
        self._flushing = threading.Lock()
        self._memory = threading.RLock()
        self._failed: Plan | None = None
        self._archived = 0
        self._status = self._read_status()
        self._outboxes: tuple[Mapping[str, Numbers], Mapping[str, Outbox]] = ({}, {})
        """What waits for others, by the numbers that it was reckoned from."""
        self._log = AppendOnly(directory / _LOG_FILE, self._status.log)
        archive.restore(self._status.archive)
        segments.restore(self._status.journal)
        # On a full disk what is not needed any more stays until the next start.
        with suppress(DiskFull):
            self._forget({kind: Range(0, each.head) for kind, each in segments.ranges({}).items()})

    @classmethod
    def open(
        cls,
        directory: Path,
        settings: config.Store,
        *,
        resume: bool,
        name: str = "crawl",
        about: Mapping[str, str] | None = None,
        schemas: Mapping[str, pa.Schema] | None = None,
        bounds: Bounds = _BOUNDS,
        database: Callable[[Path], Database] = Database,
        world: World = REAL,
        finely: bool = False,
    ) -> Self:
        """Open or make the store in a directory; raises StoreError, in one sentence, if that cannot be.

        WARC files are named after `name`, and `about` is what their first record says of the crawl. `schemas`
        are those of "summaries" and "links" if not the usual ones, `bounds` how much of the queue is in
        memory, `database` what opens the tables. With `finely`, single summaries can be read fast.
        """
        with ExitStack() as undo:
            lock = directories.prepare(directory, resume=resume)
            undo.callback(lock.release)
            tables = database(directory / "db")
            undo.callback(tables.close)
            archive = Archive(
                directory / "warc",
                prefix=name,
                suffix=f".{settings.pages}",
                max_bytes=settings.warc_bytes,
                head=warc.Builder(settings.pages, about).warcinfo,
                clock=warc.digits_of_now,
            )
            segments = Segments(directory, tables, schemas, settings.segment_rows, finely=finely)
            queue = Queue(tables, bounds)
            with translated(directory):
                store = cls(directory, settings, lock, tables, archive, segments, queue, world)
            undo.pop_all()
        return store

    def _read_status(self) -> Status:
        packed = self._database.get(META, STATUS_KEY)
        if packed is None:
            return Status(directories.format_line(), int(self._world.now()), self._world.token(6))
        directories.check_version(self._directory, Status.format_of(packed))
        return Status.unpack(packed)

    def commit(self, batch: Batch, *, is_last: bool = False) -> Committed:
        """Write a batch, all of it or nothing, and say what of it was new.

        What is kept free on the disk is not kept from the last one, which is small and says how it ended.
        Raises DiskFull if there is no room: nothing has changed then, and the same batch can be committed
        again. (If it turns out to have reached the disk after all, the repetition says what it said.) Raises
        ValueError, and nothing has changed either, if rows that another gatherer handed over are damaged.
        """
        if self._segments.backlog > _MAX_BACKLOG:
            self.flush_segments()
        with self._writing:
            if self._failed is not None:
                landed = self._recover(batch)
                if landed is not None:
                    return landed
            if not is_last:
                self._room.check(self._world.timer())
            with self._memory:
                plan = self._planner.plan(batch, self._status)
            plan.journalled = self._segments.journal(batch.finished, plan.writes)
            self._append(plan)
            self._write(plan)
            with self._memory:
                self._apply(plan)
            return plan.committed

    def _append(self, plan: Plan) -> None:
        """Append to the files; an error leaves them as they were."""
        finished = plan.batch.finished
        try:
            with translated(self._directory):
                archive = self._status.archive
                pages = [each.records for each in finished if each.records]
                if self._keeps_pages and pages:
                    archive = self._archive.append(pages)
                lines = b"".join([each.log for each in finished])
                if lines:
                    self._log.append(lines)
                    self._log.sync()
        except StoreError:
            self._cut_files()
            with self._memory:
                self._planner.abandon(plan)
            raise
        plan.record(archive=archive, log=self._log.length, journal=self._segments.ranges(plan.journalled))

    def _write(self, plan: Plan) -> None:
        try:
            self._database.write(plan.writes)
        except BaseException:
            # Whether it is on disk is found out before the next commit, also after an interrupt.
            self._failed = plan
            raise

    def _apply(self, plan: Plan) -> None:
        self._planner.apply(plan)
        self._segments.added(plan.journalled)
        if plan.status.archive.serial == self._status.archive.serial:
            self._archived += plan.status.archive.length - self._status.archive.length
        else:
            self._archived += plan.status.archive.length
        self._status = plan.status

    def _recover(self, batch: Batch) -> Committed | None:
        """Find out whether the batch that failed is on disk; what it changed if it is this one, and is."""
        failed = self._failed
        assert failed is not None
        with self._memory:
            self._database.reopen()
            self._failed = None
            if self._read_status().commit == failed.status.commit:
                self._apply(failed)
                return failed.committed if batch is failed.batch else None
            self._planner.abandon(failed)
            self._cut_files()
        return None

    def _cut_files(self) -> None:
        with translated(self._directory):
            self._archive.restore(self._status.archive)
            self._log.cut(self._status.log)

    def flush_segments(self, *, everything: bool = False) -> list[Path]:
        """Write the segments for which there are enough rows, or with `everything` all rows.

        It may run in a thread of its own while batches are committed. Raises DiskFull; no row is lost then.
        """
        paths = []
        with self._flushing:
            while written := self._segments.write_one(everything=everything):
                kind, path, entries = written
                paths.append(path)
                with self._writing:
                    self._forget({kind: entries})
        return paths

    def segments_due(self) -> bool:
        """Whether `flush_segments` has something to do."""
        return self._segments.backlog >= 1

    def _forget(self, ranges: Mapping[str, Range]) -> None:
        """Delete journal entries that are in segments; after a failure that waits for the next start."""
        if self._failed is not None:
            return
        writes = self._database.batch()
        for kind, entries in ranges.items():
            forget(kind, entries, writes)
        status = replace(self._status, journal=self._segments.ranges({}))
        writes.put(STATUS_KEY, status.pack(), writes.tables[META])
        self._database.write(writes)
        self._status = status

    def seen(self, keys: Sequence[str]) -> list[bool]:
        """Whether each of some keys is known: it was accepted, or passed on."""
        rows = self._database.get_many(ROWS, [key.encode() for key in keys])
        return [row is not None for row in rows]

    def held(self, keys: Sequence[str]) -> list[bool]:
        """Whether each of some keys was accepted here, and not passed on."""
        rows = self._database.get_many(ROWS, [key.encode() for key in keys])
        return [row is not None and state_of(row) is not State.PASSED for row in rows]

    def get(self, key: str) -> Row | None:
        """Where a URL stands; None if it is not known."""
        return row_of(self._database, self._status, key)

    def scan(self, start: str, end: str | None = None) -> Iterator[tuple[str, Row]]:
        """The rows of a range of keys [start, end), in order, each as it is when it is read."""
        entries = self._database.scan(ROWS, start.encode(), None if end is None else end.encode())
        while some := list(islice(entries, _ROWS_AT_ONCE)):
            yield from rows_of(self._database, self._status, some)

    def chunk(self, start: str, end: str | None, limit: int = 2_000) -> tuple[bytes, int, str | None]:
        """Rows of a range [start, end) for a hand-over: packed, how many, and the key from which to go on.

        Those that were passed on are left out. There may be none though there is more to come; only when the
        key is None the range is at its end.
        """
        entries, following = ranges.read(self._database, start, end, limit, Which.HELD)
        # What is on disk now knows the reasons of all rows that were read.
        status = self._read_status()
        packed = moving.pack(
            entries,
            reasons=status.reasons,
            birth=status.birth,
            parents_of=partial(parents_of, self._database),
            memories=revisits.memories(self._database, entries) if status.visits else {},
            priorities=priorities.of_rows(self._database, entries),
        )
        return packed, len(entries), following

    def keys(self, start: str, end: str | None, limit: int, which: Which) -> tuple[list[str], str | None]:
        """Some keys of a range, and the key from which to go on."""
        entries, following = ranges.read(self._database, start, end, limit, which)
        return [key.decode() for key, _ in entries], following

    def founds(self, keys: Sequence[str]) -> list[Found]:
        """How URLs became known, in the order of the keys; those that are not known are left out."""
        values = self._database.get_many(ROWS, [key.encode() for key in keys])
        rows = [(key, row) for key, row in zip(keys, values, strict=True) if row is not None]
        parents = parents_of(self._database, (unpack_origin(row).parent for _, row in rows))
        return [found_of(key, row, parents) for key, row in rows]

    def priorities(self, keys: Sequence[str]) -> list[Priority | None]:
        """What the last ranking said of some URLs, in the order of the keys; None where it said nothing."""
        return priorities.read(self._database, keys)

    @property
    def has_priorities(self) -> bool:
        """Whether a ranking has said something of a URL that is here."""
        return priorities.are_known(self._database)

    def mean_priority(self, host: str, most: int) -> float | None:
        """The mean of what the last ranking says of new URLs of a host, of so many at most."""
        return priorities.mean_new(self._database, host, most)

    def outboxes(self) -> Mapping[str, Outbox]:
        """What waits for others, by receiver; one from which all has gone is there too."""
        numbers = self._status.outboxes
        if self._outboxes[0] is not numbers:  # a commit that changes something gives new ones
            self._outboxes = numbers, {to: each.waiting for to, each in numbers.items()}
        return self._outboxes[1]

    @property
    def waiting_bytes(self) -> int:
        """How much waits for others; cheap, since it is asked for before every fetch."""
        return sum(each.bytes_in - each.bytes_out for each in self._status.outboxes.values())

    def sent(self) -> dict[str, int]:
        """URLs that were ever put into the outbox of each receiver."""
        return {to: numbers.entries_in for to, numbers in self._status.outboxes.items()}

    def outgoing(self, to: str, after: int, max_bytes: int) -> list[tuple[int, bytes]]:
        """The pieces for a receiver beyond a number, in order, at least one if there is any."""
        numbers = self._status.outboxes.get(to, Numbers())
        return outgoing(to, after, max_bytes, numbers, self._database)

    def applied(self) -> dict[str, int]:
        """By sender: the number of its last piece that was taken in."""
        return dict(self._status.applied)

    def ledger(self) -> Ledger:
        """Where URLs came from and went to."""
        ledger = self._status.ledger
        return Ledger(*ledger[:4], *map(dict, ledger[4:]))

    @property
    def identity(self) -> str:
        """Says which store this is: 12 hexadecimal digits, for as long as there is the store."""
        return self._status.identity

    def next_of(self, host: str, count: int, *, now: float) -> list[Queued]:
        """Hand out the next queued URLs of a host, by band and then first come first served.

        They are in flight until a batch says that they are finished, and are not handed out again.
        """
        with self._memory:
            return self._queue.next_of(host, count, now)

    def give_back(self, keys: Sequence[str]) -> None:
        """Put URLs that were handed out, and not tried, back to where they were."""
        with self._memory:
            self._queue.give_back(keys)

    def due(self, *, now: float) -> list[str]:
        """The hosts that have retries which became due since this was last asked."""
        if not self._queue.has_due(now):
            return []  # and who asks so often does not wait until a batch is decided about
        with self._memory:
            return self._queue.due(now)

    @property
    def next_due(self) -> float:
        """The Unix time at which it is worth asking `due` again; infinite if no retry waits."""
        return self._queue.next_due

    def visits_due(
        self,
        table: Timetable,
        *,
        now: float,
        count: int,
        paced: int | None = None,
        is_wanted: Callable[[str], bool] = lambda _: True,
        is_allowed: Callable[[str], bool] = lambda _: True,
    ) -> list[Again]:
        """Hand out pages that are to be visited again; each once, until a batch settles it.

        At most `paced` of them are pages without a date.
        For each page `is_allowed` is asked about its key, and `is_wanted` about its host; if one says no, the
        page is due still, and others follow.
        """
        with self._memory:
            return self._lines.take(
                table, now, count, paced=paced, is_wanted=is_wanted, is_allowed=is_allowed
            )

    @property
    def visits_begun(self) -> int:
        """How many pages without a date were handed out to be visited, less those that were put back."""
        return self._lines.begun

    @property
    def has_barred_visits(self) -> bool:
        """Whether pages were due that were not allowed to be visited, when last looked at."""
        return self._lines.has_barred

    def release_visits(self) -> None:
        """Which pages are allowed to be visited has changed."""
        with self._memory:
            self._lines.release()

    def next_visit_at(self, table: Timetable, *, paced_from: float = -math.inf) -> float:
        """When the next page is to be visited again, one without a date not before a time; or infinity."""
        with self._memory:
            heads = self._lines.heads()
        dated = {grade: heads.pop(grade) for grade in (APPOINTED,) if grade in heads}
        return min(table.next_at(dated), max(table.next_at(heads), paced_from))

    def awaits_fetch(self, key: str) -> bool:
        """Whether a URL that was handed out is still queued; not if somebody else's row says more, say."""
        return key in self._queue.in_flight  # likewise

    def awaits_visit(self, key: str) -> bool:
        """Whether a page that was handed out is still to be visited again; not if it was queued, say."""
        return key in self._lines.out  # one look into a dictionary, which needs no lock

    def put_back_visits(self, keys: Iterable[str]) -> None:
        """Let pages that were handed out, and not visited, stand where they were."""
        with self._memory:
            self._lines.give_back(keys)

    def grades(self) -> Counter[int]:
        """How many pages stand in each line to be visited again, but that of dates."""
        return revisits.grades(self._database)

    def appointed(self, since: float) -> Iterator[str]:
        """Pages that are to be visited again at a date which is not before a time."""
        return revisits.appointed(self._database, since)

    def remembered(self, key: str) -> Remembered | None:
        """What is remembered of a page that is visited again."""
        return revisits.read(self._database, key)

    def all_remembered(self, keys: Sequence[str]) -> list[Remembered | None]:
        """What is remembered of some pages, in the order of the keys."""
        return revisits.read_many(self._database, keys)

    def memories(self) -> Iterator[tuple[str, Remembered]]:
        """What is remembered of all pages, by key, in order, each as it is when it is read."""
        return revisits.scan(self._database)

    @property
    def directory(self) -> Path:
        """Where everything is kept."""
        return self._directory

    @property
    def log_file(self) -> Path:
        """The log of the crawl."""
        return self._directory / _LOG_FILE

    def segments(self, kind: str) -> list[Path]:
        """The files of one kind of rows, in the order in which they were written."""
        return files(self._directory, kind)

    def waiting(self, kind: str) -> list[tuple[int, int]]:
        """What of one kind of rows is in no file yet: numbers of journal entries and their rows, in order."""
        return self._segments.waiting(kind)

    def journal(self, kind: str) -> Range:
        """The numbers of those entries: the first, and the one that the next will have."""
        return self._segments.range(kind)

    def packed(self, kind: str, number: int) -> bytes | None:
        """The packed rows of such an entry; None if it is in a file by now."""
        return self._segments.packed(kind, number)

    @property
    def visits(self) -> int:
        """Pages of which something is remembered, to visit them again."""
        return self._status.visits

    def host(self, host: str) -> HostCounts:
        """The counts of one host, as of the last commit."""
        return host_counts(host, self._database.get(HOSTS, host.encode()))

    def hosts(self, start: str = "", end: str | None = None) -> Iterator[HostCounts]:
        """The hosts whose keys lie in a range, with their counts, in order, each as it is when it is read."""
        first, last = start.partition(PATH)[0].encode(), None if end is None else end.encode()
        for packed_name, packed in self._database.scan(HOSTS, first, last):
            name = packed_name.decode()
            if name + AFTER > start and (end is None or name + PATH < end):
                yield host_counts(name, packed)

    def counts(self) -> Counts:
        """How many URLs are in which state."""
        return self._status.counts

    def counters(self) -> dict[str, int]:
        """The sums of all counters that batches had."""
        return dict(self._status.counters)

    def get_meta(self, name: str) -> bytes | None:
        """A named value; None if there is none."""
        return self._database.get(META, name.encode())

    def metas(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """The values whose names begin with a prefix, by the rest of their names, in order."""
        first = prefix.encode()
        for name, value in self._database.scan(META, first, first + b"\xff"):
            yield name[len(first) :].decode(), value

    def free_bytes(self) -> int:
        """How much room is left on the disk; raises StoreError where it does not say."""
        return self._room.free_bytes()

    def has_room(self) -> bool:
        """Whether there is room for anything but what the store itself has under way."""
        return self._room.is_enough()

    def statistics(self) -> StoreStatistics:
        """How much there is of everything."""
        return StoreStatistics(
            commits=self._status.commit,
            counts=self._status.counts,
            in_flight=len(self._queue.in_flight),
            hosts_in_memory=self._queue.hosts_in_memory,
            window=self._queue.window,
            journalled=self._segments.journalled(),
            segments=self._segments.written(),
            warc_files=self._status.archive.serial,
            warc_bytes=self._archived,
            log_bytes=self._status.log,
        )

    def close(self) -> None:
        """Bring everything to its files and let others have the directory; twice does no harm."""
        with suppress(StoreError):
            self.flush_segments(everything=True)
        with self._writing, self._memory:
            with suppress(StoreError):
                self._database.flush()
            self._archive.close()
            self._log.close()
            self._database.close()
            self._lock.release()

    def __enter__(self) -> Self:
        """The store itself, closed at the end."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        self.close()
