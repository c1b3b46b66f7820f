"""A ranking on a schedule: some gatherer is elected for it, ranks what it can read, and all are told.

It is what `gcs rank` does, and that command does it, as a child of the gatherer: with a memory of its own,
which `rank.memory` bounds, and giving way to all others. It ends with the gatherer. What is ranked are the
links in the directories that the elected one can read, see docs/graph.md.

Before a ranking begins its beginning is put up, by the clock of the server, which tokens of elections are. So
there is at most one in an interval, whoever dies meanwhile. Each gatherer keeps the newest that it has heard
of, should Redis lose it.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio

from gcs import board as boards
from gcs import children
from gcs.board import Board
from gcs.errors import ExitCode, GcsError
from gcs.gatherer import parts
from gcs.gatherer.node import Node
from gcs.gatherer.parts import Fleet
from gcs.rank.taking import RANKING
from gcs.store.errors import StoreError
from gcs.store.records import Batch
from gcs.store.view import View
from tuplespace import LeadershipLost, TupleSpaceError, election
from tuplespace.supervisor import spawn

RANKER: Final = "ranker"
RANKED: Final = "ranked"
"""Where a store has when a ranking was last begun."""
_LEASE_S: Final = 10.0
_LOOK_EVERY_S: Final = 60.0
_LEAST_S: Final = 0.5
_LOOK_S: Final = 0.2
_TOLD: Final = ("new", "old", "edges", "seconds", "delivered", "known")


class Ranker:
    """The part of a gatherer that ranks, when it is its turn."""

    def __init__(self, node: Node, board: Board, every_s: float) -> None:
        self._node, self._board, self._every_s = node, board, every_s

    async def run(self) -> None:
        """Rank when it is time, or see that somebody else does."""
        while True:
            wait_s = _LOOK_EVERY_S
            try:
                last_us = await self._last_us()
                wait_s = last_us / 1e6 + self._every_s - self._node.clock()
                if wait_s <= 0 and self._node.charter is not None:
                    await self._lead()
            except (TupleSpaceError, LeadershipLost) as error:
                self._node.log.warning("no ranking", why=str(error))
            await trio.sleep(min(max(wait_s, _LEAST_S), _LOOK_EVERY_S, self._every_s / 4))

    async def _last_us(self) -> int:
        """When a ranking was last begun, as far as is known; if none was, the first time this was asked."""
        node = self._node
        put_up = (await self._board.now()).get(boards.RANKED, (0, b""))[0]
        kept = [node.store.get_meta(name) for name in (RANKED, RANKING)]
        known = max(put_up, *(int(each) for each in kept if each), 0)
        if not known:
            known = round(node.clock() * 1e6)
        if kept[0] is None or int(kept[0]) < known:
            await node.crawl.commit(Batch(meta={RANKED: str(known).encode()}))
        return known

    async def _lead(self) -> None:
        """Be elected, and rank unless another one has begun with that meanwhile."""
        if not await self._is_chosen():
            return
        try:
            said = await self._ranked()
            self._node.rankings["delivered"] += 1
            self._node.log.info("ranked", **said)
        except (GcsError, OSError, ValueError) as error:
            self._node.rankings["failed"] += 1
            self._node.log.error("a ranking failed", why=str(error))  # noqa: TRY400 - it says all

    async def _is_chosen(self) -> bool:
        """Whether this one is to rank; nobody else does for an interval then, whatever comes of it."""
        async with election(self._board.space, RANKER, lease=_LEASE_S) as leadership:
            begun_us = leadership.token
            if begun_us - await self._last_us() < self._every_s * 1e6:
                return False
            await self._board.put_up(boards.RANKED, begun_us, fence=leadership.fence)
        await self._last_us()
        return True

    async def _ranked(self) -> dict[str, Any]:
        """Let a child rank, and give what it says; raises GcsError, OSError or ValueError."""
        node, here = self._node, self._node.store.directory
        stores, unread = await node.world.offload(self._within_reach)
        node.log.info("ranking", stores=len(stores), links_missing_of=unread)
        into = [word for store in stores for word in ("--into", str(store))]
        scratch, log = here / "ranking.scratch", here / "ranking.log"
        options = ["-o", str(here / "ranking"), "--scratch", str(scratch), "--give-way", "--json"]
        # One that was killed has left something.
        await node.world.offload(partial(shutil.rmtree, scratch, ignore_errors=True))
        scratch.mkdir()
        log.unlink(missing_ok=True)
        starting = partial(
            spawn,
            [*children.PROGRAM, "rank", *into, *options],
            lock=here / "ranking.lock",
            log=log,
            cwd=Path.cwd(),
            environment=children.environment(node.config, os.environ),
            umask=-1,
        )
        process = await trio.to_thread.run_sync(starting)
        if process is None:
            raise StoreError("one that was begun before has not ended.")
        try:
            while (code := process.exit_code) is None:  # noqa: ASYNC110 - no event tells of the end of a process
                await trio.sleep(_LOOK_S)
        finally:
            process.kill()
        await node.world.offload(partial(shutil.rmtree, scratch, ignore_errors=True))
        said = log.read_text(encoding="utf-8", errors="replace").strip()
        if code != ExitCode.OK:
            raise StoreError(said.rpartition("\n")[2] or f"it ended with exit code {code}.")
        facts = json.loads(said[said.index("{") :])
        return {name: facts[name] for name in _TOLD} | {"links_missing_of": unread}

    def _within_reach(self) -> tuple[list[Path], list[str]]:
        """The stores that can be read here, and the names of gatherers whose links are in none of them."""
        here = self._node.store.directory
        # Gatherers of `gcs crawl -n` are beside each other.
        beside = [here.parent] if here.name.isdigit() and Fleet.of(here.parent) is not None else [here]
        named = [Path(each) for each in self._node.config.rank.directories] or beside
        stores: dict[Path, str] = {here: self._node.id}
        for directory in named:
            with suppress(GcsError):
                for store in parts.parts(directory):
                    with suppress(GcsError), View(store) as view:
                        stores[store] = view.identity
        members = self._node.charter.members if self._node.charter else {}
        read = set(stores.values())
        unread = sorted(name for each, name in members.items() if each not in read)
        # One directory may have two names.
        once = {identity: store for store, identity in stores.items()}
        return list(once.values()), unread
