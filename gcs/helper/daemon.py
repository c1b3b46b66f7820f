"""`gcs helper`: a machine that helps for as long as its owner lets it, and keeps nothing.

It works while the warden says so. When it must stop, what is under way is dropped, what is held is given back
at once, and it waits. The cluster's private networks mean nothing here: what may be asked is decided by this
machine's own configuration.
"""

from __future__ import annotations

import math
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import structlog
import trio

import tuplespace
from gcs import endpoint
from gcs.config import Config
from gcs.core.consent import Network, Terms
from gcs.errors import ConfigError, ExitCode, UsageError
from gcs.fetch.outcome import Failure, Origin, Outcome, Reason
from gcs.fetch.transport import Transport
from gcs.helper import limits, portal
from gcs.helper.desks import PRESENT_S, Desk, Presence
from gcs.helper.invitation import SUFFIX, Invitation
from gcs.helper.limits import Bandwidth, Cpu, Room
from gcs.helper.meters import METERS, Helping
from gcs.helper.modesty import be_modest
from gcs.helper.pause import Control
from gcs.helper.surroundings import Desktop, Senses
from gcs.helper.warden import Warden
from gcs.helper.worker import Badge, Work, Worker
from gcs.metrics import exposition
from gcs.notify import Notifier
from gcs.process import Process
from gcs.settings import size
from gcs.summary import plugins
from gcs.summary.plugins import Plugins
from tuplespace import AccessDenied, TupleSpaceError, Unavailable

MOST_SLOTS: Final = 16
"""Hosts that are asked at once, unless the owner allows for more."""
REFUSED_S: Final = 180.0
"""After so long in which the crawl's server has let it in not once, it ends: nobody waits for it there."""
_SAY_EVERY_S: Final = PRESENT_S / 3
_LEAVE_S: Final = 2.0
_HEAD_BYTES: Final = 32 << 10
"""Of an answer that a helper gives back."""
_NETWORK: Final = frozenset({Reason.DNS, Reason.CONNECT, Reason.TIMEOUT, Reason.TLS, Reason.PROXY})
"""Failures that may be the network's own."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What the owner offers."""

    terms: Terms
    slots: int
    """Hosts that are asked at once."""
    control: Path | None = None
    """Where it listens to its owner; None for the usual place."""


def run(config: Config, invitation: Invitation, offer: Offer) -> ExitCode:
    """Help until told to stop; raises UsageError if the owner's terms cannot be kept."""
    _check_memory(offer.terms.max_memory_bytes, limits.memory_bytes())
    notifier = Notifier.from_environment(os.environ)
    structlog.get_logger().info("modest", how=be_modest().words)
    config = _configured(config, invitation)
    return trio.run(_run, config, invitation, offer, notifier)


def _check_memory(max_bytes: int | None, used_bytes: int | None) -> None:
    if max_bytes is not None and used_bytes and limits.room(used_bytes, max_bytes) is not Room.TAKE:
        least = math.ceil(used_bytes / limits.FULL / (1 << 20))
        raise UsageError(
            f"--max-memory {size(max_bytes)} leaves no room for work: the helper itself uses "
            f"{used_bytes >> 20} MiB, and takes work up to four fifths of the limit. Give it more than "
            f"{least} MiB."
        )


def _configured(config: Config, invitation: Invitation) -> Config:
    """This machine's configuration, with the names and limits of the crawl."""
    crawl = replace(config.crawl, name=invitation.crawl)
    space = replace(config.space, max_tuple_bytes=invitation.max_tuple_bytes)
    return replace(config, crawl=crawl, space=space)


async def _run(config: Config, invitation: Invitation, offer: Offer, notifier: Notifier) -> ExitCode:
    async with (
        endpoint.opened(config.metrics.listen) as monitored,
        _connected(config, invitation) as client,
    ):
        desk = Desk(client, config, invitation.desk)
        helper = Helper(config, invitation, offer, desk, notifier)
        process = Process("helper", invitation.name, invitation.crawl, trouble=str)
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(helper.run)
                nursery.start_soon(monitored.serve, process, helper.measured)
                nursery.start_soon(_leave_when, helper, nursery.cancel_scope)
                async for _ in signals:
                    break
                notifier.stopping()
                nursery.cancel_scope.cancel()
    return helper.ending


async def _leave_when(helper: Helper, scope: trio.CancelScope) -> None:
    await helper.has_to_leave.wait()
    scope.cancel()


@asynccontextmanager
async def _connected(config: Config, invitation: Invitation) -> AsyncIterator[tuplespace.Client]:
    with _authority(invitation.tls_ca) as tls_ca:
        async with tuplespace.connect(
            invitation.url,
            username=invitation.username or None,
            password=invitation.password or None,
            tls_ca=tls_ca,
            timeout=config.redis.timeout_s,
        ) as client:
            yield client


@contextmanager
def _authority(pem: str) -> Iterator[str | None]:
    """A file with a certificate, for as long as it is needed."""
    if not pem:
        yield None
        return
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(pem)
        file.flush()
        yield file.name


class Helper:
    """One machine that helps."""

    def __init__(
        self, config: Config, invitation: Invitation, offer: Offer, desk: Desk, notifier: Notifier
    ) -> None:
        self._config, self._invitation, self._offer, self._desk = config, invitation, offer, desk
        self._notifier = notifier
        self._badge = Badge(
            invitation.name, bytes.fromhex(invitation.key), bytes.fromhex(invitation.bundles_key)
        )
        terms = offer.terms
        self._line = Bandwidth(terms.max_bandwidth_bytes) if terms.max_bandwidth_bytes else None
        self._cpu = Cpu(terms.max_cpu_percent) if terms.max_cpu_percent else None
        self._warden: Warden | None = None
        self._work = Work()
        self._agent = config.fetch.agent
        self._log = structlog.get_logger().bind(helper=invitation.name)
        self.has_to_leave = trio.Event()
        self.ending = ExitCode.OK
        """How the process ends."""
        self._said = ""
        self._is_within_reach = False
        self._refused_since: float | None = None

    @property
    def warden(self) -> Warden:
        """Who says whether it may work."""
        assert self._warden is not None
        return self._warden

    async def _mind_memory(self) -> None:
        await self.warden.wait_until_must_leave()
        self._leave_with(ExitCode.LIMIT, "it needs more memory than was agreed to")

    def _leave_with(self, ending: ExitCode, why: str) -> None:
        self.ending = ending
        self._log.warning("leaving", why=why)
        self.has_to_leave.set()

    async def run(self) -> None:
        """Help whenever it may, until cancelled."""
        canary, readers = self._invitation.canary, plugins.load(self._log)
        async with Transport(portal.settings(self._config.fetch), throttle=self._line) as looking:
            check = partial(portal.check, looking, canary) if canary else _is_clear
            self._warden = warden = Warden(self._offer.terms, Senses(Desktop().sources).look, check)
            try:
                async with trio.open_nursery() as nursery:
                    await nursery.start(Control(warden, self._offer.control).serve)
                    nursery.start_soon(warden.run)
                    nursery.start_soon(self._mind_memory)
                    nursery.start_soon(self._say)
                    nursery.start_soon(self._report)
                    while True:
                        await warden.wait_until_may_work()
                        await self._work_as(self._agent, readers)
            finally:
                with trio.move_on_after(_LEAVE_S, shield=True):
                    await self._leave()

    async def _work_as(self, agent: str, readers: Plugins) -> None:
        """Work under a name until it may not, or the crawl has another name."""
        fetch = replace(
            self._config.fetch, agent=agent, concurrency=self._offer.slots, max_header_bytes=_HEAD_BYTES
        )
        async with Transport(fetch, throttle=self._line) as transport:
            worker = Worker(
                transport,
                self._desk.urls,
                lambda _: self._desk.summaries,
                self._badge,
                slots=self._offer.slots,
                plugins=readers,
                may_take=self.warden.wait_until_may_work,
                ready=self._ready,
                on_page=self._noted,
                vouch=self.warden.vouch if self._invitation.canary else None,
                moved=self._line.use if self._line else None,
                work=self._work,
            )
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_stop_when, self.warden, worker)
                nursery.start_soon(_rest_when, self.warden, worker)
                await worker.run()
                nursery.cancel_scope.cancel()
            self._agent = worker.other_agent or agent

    async def _ready(self) -> None:
        """Wait until the owner's limits leave room for another request."""
        if self._cpu is not None:
            await trio.sleep(self._cpu.rest_s())

    def _noted(self, _: Origin, outcome: Outcome) -> None:
        if isinstance(outcome, Failure):
            if outcome.reason in _NETWORK:
                self.warden.failed()
        else:
            self.warden.succeeded()

    async def _say(self) -> None:
        """Tell the gatherers from time to time, and at once when it changes, and the log what has changed."""
        told = False
        while True:
            sentence, slots = self.warden.sentence, self._slots()
            if sentence != self._said:
                self._said = sentence
                self._log.info("helps" if slots else "waits", why=sentence)
            try:
                await self._desk.say(Presence(self._invitation.name, slots, self._work.pages, sentence))
                told, self._is_within_reach = False, True
                self._note_refusal(None)
            except TupleSpaceError as error:
                if not told:
                    self._log.warning("the site's server cannot be used", why=str(error))
                told, self._is_within_reach = True, False
                self._note_refusal(error)
            with trio.move_on_after(_SAY_EVERY_S):
                if slots:
                    await self.warden.wait_until_may_not_work()
                else:
                    await self.warden.wait_until_may_work()

    def _note_refusal(self, error: TupleSpaceError | None) -> None:
        """Wait while the crawl's server refuses us, and end when it has done so for long.

        One that is away says nothing of that; one that lets us in, and can do nothing now, does.
        """
        is_refused = isinstance(error, AccessDenied)
        self.warden.refused(is_refused)
        now = trio.current_time()
        if not is_refused:
            self._refused_since = self._refused_since if isinstance(error, Unavailable) else None
        elif self._refused_since is None:
            self._refused_since = now
        elif now - self._refused_since >= REFUSED_S:
            why = "the crawl's server refuses this invitation; ask its operator for another one"
            self._leave_with(ExitCode.CONFIG, why)

    def _slots(self) -> int:
        """Hosts that it offers to ask at once now."""
        return self._offer.slots if self._warden is not None and self._warden.may_work else 0

    async def measured(self) -> str:
        """What it measures."""
        await trio.lowlevel.checkpoint()
        return exposition(METERS, Helping(self._work, self._slots(), self._is_within_reach))

    async def _report(self) -> None:
        """Tell the service manager that it runs and whether it works; one that hangs says nothing."""
        self._notifier.ready()
        while self._notifier.is_heard:
            doing = "helps" if self.warden.may_work else "waits"
            status = f"{doing}: {self.warden.sentence} {self._work.pages:,} pages"
            self._notifier.status(status, is_well=True)
            await trio.sleep(self._notifier.every_s)

    async def _leave(self) -> None:
        try:
            await self._desk.leave(self._invitation.name)
        except TupleSpaceError:
            return


async def _is_clear() -> Network:
    """There is no canary to look at."""
    await trio.lowlevel.checkpoint()
    return Network.CLEAR


async def _rest_when(warden: Warden, worker: Worker) -> None:
    """Have a worker take nothing more whenever it may not, though it need not stop."""
    while True:
        await warden.wait_until_may_not_work()
        worker.rest()
        await warden.wait_until_may_work()


async def _stop_when(warden: Warden, worker: Worker) -> None:
    await warden.wait_until_must_stop()
    worker.stop()


def invitation_path(given: Path | None) -> Path:
    """The file that was named, or systemd's, or the only one in this directory; raises ConfigError."""
    if given is not None:
        return given
    if credentials := os.environ.get("CREDENTIALS_DIRECTORY"):
        given = Path(credentials) / "invitation"
        if given.exists():
            return given
    found = sorted(Path().glob(f"*{SUFFIX}"))
    if not found:
        raise ConfigError(
            "Nobody has invited this machine yet: `gcs helper invite NAME`, run where the crawl is, makes a "
            "file; name it with --invitation."
        )
    if len(found) > 1:
        names = ", ".join(map(str, found))
        raise ConfigError(f"There are several invitations here ({names}); name one with --invitation.")
    return found[0]
