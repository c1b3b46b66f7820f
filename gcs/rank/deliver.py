"""Priorities on their way to the gatherers that own their URLs.

Gatherers that run get orders over the tuple space, each with some rows, of which two are under way to one
gatherer at most; each is answered when it is on disk, so Redis has little of them at a time. Where none runs,
the same batches go into the stores. Who gets rows of URLs that it does not have leaves them out, and says how
many it knew: the others lie outside of what is crawled, or have changed hands, and the next ranking finds
their owners. A batch may come twice; what an older ranking says never replaces what a newer one has said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import trio

from gcs import board as boards
from gcs.board import Board
from gcs.config import Config
from gcs.core.ranking import Priority
from gcs.core.urls import key
from gcs.errors import ExitCode, UsageError
from gcs.operate.asking import Answers, Tell, order, require_living
from gcs.operate.looking import Looker, View
from gcs.rank import taking
from gcs.store.store import Store

_ROWS: Final = 2_000
_KEY_BYTES: Final = 256 << 10
"""Of one batch: keys are short, but nothing says so."""
_UNDER_WAY: Final = 2
_TRIES: Final = 3
_WITHIN_S: Final = 60.0


async def have_filed(config: Config) -> None:
    """Let gatherers that run write into files what has come together; who does not answer is left alone."""
    async with boards.opened(config) as board:
        view = await Looker(board, config).look_twice()
        await order(board, view, taking.FILE, {}, within_s=_WITHIN_S)


def read(files: Sequence[Path]) -> Iterator[Priority]:
    """What owners are to be told, in the order of the files."""
    for file in files:
        for batch in pq.ParquetFile(file).iter_batches(_ROWS):
            urls, new, old = (column.to_pylist() for column in batch.columns)
            yield from map(Priority, map(key, urls), new, old)


def batches(rows: Iterator[Priority]) -> Iterator[list[Priority]]:
    """Rows in batches of a bounded size."""
    batch, size = list[Priority](), 0
    for each in rows:
        batch.append(each)
        size += len(each.key.encode())
        if len(batch) >= _ROWS or size >= _KEY_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def into_stores(stores: Sequence[Path], config: Config, files: Sequence[Path], ranking: int) -> Delivered:
    """Give the rows to stores that no gatherer has open; raises StoreError."""
    delivered = Delivered()
    for number, place in enumerate(stores):
        with Store.open(place, config.store, resume=True, name=config.crawl.name) as store:
            for rows in batches(read(files)):
                batch = taking.batch_of(rows, ranking, store.get_meta(taking.RANKING))
                if batch is None:
                    raise UsageError(f"{place} has the priorities of a newer ranking.")
                delivered.known += len(store.commit(batch).ranked)
                delivered.rows += 0 if number else len(rows)
    return delivered


@dataclass(slots=True)
class Delivered:
    """What came of a delivery."""

    rows: int = 0
    """Those that all got who should."""
    known: int = 0
    """Those of them whose URLs somebody knows, and holds."""
    failed: dict[str, str] = field(default_factory=dict)
    """Names of gatherers that have not taken all of theirs, and why."""

    @property
    def code(self) -> ExitCode:
        """Whether all have taken theirs."""
        return ExitCode.REDIS if self.failed else ExitCode.OK


async def to_gatherers(
    board: Board, config: Config, *, files: Sequence[Path], ranking: int, tell: Tell
) -> Delivered:
    """Send every row to the gatherer that owns its URL; raises UsageError when none is there."""
    view = await Looker(board, config).look_twice()
    require_living(view)
    if view.charter is None:
        raise UsageError("the gatherers have no plan yet; rank again when they crawl.")
    line = _Lines(board, view, ranking, tell)
    async with trio.open_nursery() as nursery:
        for owner in view.charter.members:
            line.open(owner, nursery)
        await line.feed(read(files))
    return line.delivered


class _Lines:
    """A line of batches to each owner."""

    def __init__(self, board: Board, view: View, ranking: int, tell: Tell) -> None:
        self._board, self._view, self._ranking, self._tell = board, view, ranking, tell
        self._sends: dict[str, trio.MemorySendChannel[list[Priority]]] = {}
        self._number = 0
        self.delivered = Delivered()

    def open(self, owner: str, nursery: trio.Nursery) -> None:
        send, receive = trio.open_memory_channel[list[Priority]](_UNDER_WAY)
        self._sends[owner] = send
        for _ in range(_UNDER_WAY):
            nursery.start_soon(self._drain, owner, receive.clone())
        receive.close()

    async def feed(self, rows: Iterator[Priority]) -> None:
        """Sort rows by owner, and let them go."""
        assert self._view.charter is not None
        owner_of = self._view.charter.owners.owner
        for batch in batches(rows):
            shares: dict[str, list[Priority]] = {}
            for each in batch:
                shares.setdefault(owner_of(each.key), []).append(each)
            for owner, share in shares.items():
                if owner in self._sends:
                    await self._sends[owner].send(share)
        for send in self._sends.values():
            send.close()

    async def _drain(self, owner: str, receive: trio.MemoryReceiveChannel[list[Priority]]) -> None:
        name = self._view.name(owner)
        async with receive:
            async for rows in receive:
                if name in self.delivered.failed:
                    continue
                self._number += 1
                known, why = await self._send(owner, rows, self._number)
                if why:
                    self.delivered.failed[name] = why
                else:
                    self.delivered.rows += len(rows)
                    self.delivered.known += known
                    self._tell(f"{self.delivered.rows:,} priorities are with their owners")

    async def _send(self, owner: str, rows: list[Priority], number: int) -> tuple[int, str]:
        """Send a batch until it is answered; how many of it were known, and why it was not taken, if so."""
        said = taking.said(rows, self._ranking, number)
        answers = Answers({})
        for _ in range(_TRIES):
            answers = await order(self._board, self._view, taking.ORDER, said, within_s=_WITHIN_S, to=[owner])
            if not answers.silent:
                break
        known = sum(int(each.get("known", 0)) for each in answers.given.values())
        return known, next(iter(answers.failed.values()), "it has not answered" if answers.silent else "")
