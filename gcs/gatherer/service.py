"""A gatherer as a service: what its manager is told, and what it is told by signals.

The watchdog is fed while scheduler, store and exchange answer. An event loop that hangs says nothing at all.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Callable
from typing import Final

import trio

from gcs.config import Config
from gcs.core import vitals
from gcs.core.dates import for_people
from gcs.core.vitals import UNWATCHED_S
from gcs.errors import GcsError
from gcs.gatherer.exchange import Exchange
from gcs.gatherer.membership import CAUGHT_UP, Membership
from gcs.gatherer.node import Node
from gcs.gatherer.reload import reloaded
from gcs.notify import Notifier

_SPARE_S: Final = 10.0
"""What was fetched last has to be written, and the store closed."""


class Service:
    """One gatherer, between its manager and its crawl."""

    def __init__(
        self,
        node: Node,
        membership: Membership,
        exchange: Exchange,
        notifier: Notifier,
        read_config: Callable[[], Config],
    ) -> None:
        """`read_config` reads the configuration again, and raises GcsError when it cannot be used."""
        self._node, self._membership, self._notifier = node, membership, notifier
        self._read_config = read_config
        self._signs = {**node.crawl.signs, "exchange": exchange.sign}
        self._pages, self._told_at = node.crawl.pages, trio.current_time()

    # To the manager

    async def report(self) -> None:
        """Say that it runs, and how it is, again and again."""
        notifier = self._notifier
        if not notifier.is_heard:
            return
        notifier.ready()
        while True:
            trouble = self.trouble()
            notifier.status(trouble or self.status(), is_well=not trouble)
            await trio.sleep(notifier.every_s)

    def trouble(self) -> str:
        """Which of its parts do not answer; "" while it is well."""
        return vitals.trouble(self._signs, trio.current_time(), self._notifier.watchdog_s or UNWATCHED_S)

    def status(self) -> str:
        """How it is, in a line; the rate is that since this was last asked."""
        node, crawl, now = self._node, self._node.crawl, trio.current_time()
        for_s, pages = now - self._told_at, crawl.pages - self._pages
        self._told_at, self._pages = now, crawl.pages
        doing = "stopping" if crawl.interrupted else self._membership.standing()
        if doing == CAUGHT_UP and not math.isinf(at := crawl.next_visit_at):
            doing += f", next page due at {for_people(at)}"
        if crawl.writer.waits_for_room:
            doing += ", waiting for room on the disk"
        rate = pages / for_s if for_s > 0 else 0.0
        return f"{doing}: {rate:.1f} pages/s, {node.store.counts().queued:,} queued, plan {node.epoch}"

    def stopping(self) -> None:
        """Say that it ends; what is under way may take as long as a page may take."""
        fetch = self._node.config.fetch
        self._notifier.stopping(within_s=fetch.connect_timeout_s + fetch.timeout_s + _SPARE_S)

    # By signals

    async def obey(self, scope: trio.CancelScope) -> None:
        """SIGHUP reads the configuration again; SIGTERM or SIGINT lets it end, a second one at once."""
        crawl = self._node.crawl
        with trio.open_signal_receiver(signal.SIGHUP, signal.SIGINT, signal.SIGTERM) as signals:
            async for number in signals:
                if number == signal.SIGHUP:
                    await self.reload()
                elif crawl.interrupted:
                    scope.cancel()
                    return
                else:
                    self.stopping()
                    crawl.stop()

    async def reload(self) -> None:
        """Read the configuration again; what can be changed now takes effect, and one line says what."""
        node = self._node
        self._notifier.reloading()
        try:
            wanted = await trio.to_thread.run_sync(self._read_config)
        except GcsError as error:
            node.log.error("the configuration was refused; the one before stays in force", why=str(error))  # noqa: TRY400 - it is the operator's error
        else:
            outcome = reloaded(node.given, wanted)
            node.reconfigure(outcome.config)
            node.log.info("read the configuration again", changed=_listed(outcome.changed))
            if outcome.after_restart:
                node.log.warning("a restart is needed", settings=_listed(outcome.after_restart))
        self._notifier.ready()


def _listed(names: tuple[str, ...]) -> str:
    return " ".join(names) or "nothing"
