"""A crawl by several gatherers to which something is done, and what comes of it.

The log of the web's server and the gatherers' ledgers decide. Whatever was done, every page that can be
reached and may be fetched was fetched, none that may not, and none twice without an excuse; the books
balance, no URL is in two stores, plans only got newer, nobody logged an error, and all ended by themselves.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from typing import Any, Final

from gcs.config import Config
from gcs.core.rulings import ALL
from gcs.gatherer.book import book_of
from gcs.gatherer.crawl import READ_AT_ONCE, UNREAD
from gcs.gatherer.handover import CLOCKS_DIFFER_S
from gcs.gatherer.writer import BATCH
from gcs.helper.lender import PROBES_AT_ONCE
from gcs.operate.ledger import add_up
from gcs.simulate.verdict import Verdict
from gcs.store.ranges import Which
from gcs.store.store import Store
from tests.crawling import Server
from tests.gatherers import Gatherers
from tests.scrapes import scrape
from tests.soak import Failed
from tests.soak.progress import Progress

CONCURRENCY: Final = 16
SETTINGS: Final = (f"fetch.concurrency={CONCURRENCY}", "log.format=json")
HELD: Final = CONCURRENCY + UNREAD + BATCH + READ_AT_ONCE
"""Pages that can be there when nothing is written: under way, unread, in a batch that is being filled."""
AGAIN: Final = HELD + BATCH + READ_AT_ONCE + PROBES_AT_ONCE
"""Pages that one kill may have fetched again: those, a batch that is being written, and what others try."""
_PATIENCE_S: Final = 120.0
_SLOWEST: Final = 20.0
"""Pages a second on the busiest machine."""
_MEANWHILE: Final = 0.1
"""The share of the web that may be fetched while a leader is waited for."""
_HANDED_OVER_S: Final = 5.0
"""So long a range may be on its way."""
_LOOK_EVERY_S: Final = 0.05
_ASK_EVERY_S: Final = 0.25


class Trial:
    """One such crawl, in this order: `at` some points something is done, `end`, `verdict`."""

    def __init__(self, group: Gatherers, served: Server, progress: Progress) -> None:
        self.group, self.served = group, served
        self._progress = progress
        self._pages = sum(host.size for host in served.web.hosts)
        self._timeout_s = _PATIENCE_S + self._pages / _SLOWEST
        self.kills = 0
        self.excused = 0
        """Pages that may have been fetched twice for what was done so far."""
        self._unanswered: dict[int, int] = {}
        """By process: URLs that it had lent to others, and that came back without an answer."""
        self._gone: list[tuple[Sequence[str], datetime]] = []
        """Those that were lost together, or thought lost, and since when."""
        self._halted: set[str] = set()
        self._asked_at = 0.0
        self._codes: dict[str, int] = {}
        self._detected_s = 0.0

    # What is done

    def start(self, name: str, *settings: str, within: Sequence[str] = ()) -> None:
        """Start a gatherer, or start it again; the web's server sees its name."""
        told = (f"fetch.agent={name}", f"metrics.listen={self._metrics(name)}")
        self.group.start(name, *told, *settings, within=within)

    def begin(self, *names: str) -> None:
        """Start some gatherers, and give them the seeds."""
        for name in names:
            self.start(name)
        self.group.seed(self.served.web.seeds)

    def _metrics(self, name: str) -> str:
        return f"unix:{self.group.place}/{name}.metrics"

    def at(self, share: float, what: str, act: Callable[[], object]) -> None:
        """Do something when so much of the web has been fetched."""
        wanted = share * self._pages
        self.until(lambda: self.fetched() >= wanted, f"{wanted:.0f} pages")
        self.show(what)
        act()

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for something, for as long as the whole trial may take."""
        deadline = time.monotonic() + self._timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise Failed(f"waited {self._timeout_s:.0f} s in vain for {what}: {self.group.members()}")
            self._look()

    def _look(self) -> None:
        """Let a moment pass, and see now and then what was lent in vain."""
        time.sleep(_LOOK_EVERY_S)
        if time.monotonic() < self._asked_at + _ASK_EVERY_S:
            return
        self._asked_at = time.monotonic()
        for name in self.group.processes.keys() - self._halted:
            with suppress(OSError, HTTPException):  # it has not begun, or is over
                seen = scrape(self._metrics(name))["gcs_unanswered_urls_total"]
                self._unanswered[self.group.pid(name)] = round(seen)

    def show(self, what: str) -> None:
        """Say what happens now."""
        self._progress.show(f"{self.fetched():,} requests: {what}", time.monotonic())

    def fetched(self) -> int:
        """Requests that the web's server has answered."""
        with self.served.log.open("rb") as log:
            return sum(1 for _ in log)

    def kill(self, name: str) -> None:
        """Kill a gatherer."""
        self.group.kill(name)
        self.kills += 1
        self.excused += AGAIN

    def restart(self, name: str) -> None:
        """Kill a gatherer, and start it again."""
        self.kill(name)
        time.sleep(1.0)
        self.start(name)

    def halt(self, name: str) -> None:
        """Let a gatherer stand still."""
        self.group.halt(name)
        self._halted.add(name)

    def go_on(self, name: str) -> None:
        """Let it go on."""
        self._halted.remove(name)
        self.group.go_on(name)

    def leading(self, timeout_s: float = 150) -> str:
        """Have a new plan made; whoever leads the round, as soon as it does. Raises TimeoutError.

        What somebody wished for who has led, and was killed, is found when its lease has ended. A crawl that
        would be over by then is paused meanwhile.
        """
        before = {name: len(self.said(name, "leads a round")) for name in self.group.processes}
        enough = self.fetched() + _MEANWHILE * self._pages
        self.group.ask(lambda board: board.ask_for_plan("operator", "soak"))
        deadline, is_paused = time.monotonic() + timeout_s, False
        try:
            while True:
                for name, count in before.items():
                    if len(self.said(name, "leads a round")) > count:
                        return name
                if time.monotonic() > deadline:
                    raise TimeoutError(f"waited {timeout_s:g} s in vain for a leader")
                if not is_paused and self.fetched() > enough:
                    is_paused = True
                    self.group.rule(lambda rulings, epoch: rulings.pause(ALL, epoch))
                self._look()
        finally:
            if is_paused:
                self.group.rule(lambda rulings, epoch: rulings.resume(ALL, epoch))

    # What comes of it

    def said(self, name: str, event: str = "") -> list[dict[str, Any]]:
        """What a gatherer has logged, or the lines about one event."""
        found = []
        for line in self.group.processes[name].log.read_text(errors="replace").splitlines():
            try:
                said = json.loads(line)
            except ValueError:  # no line of the log, or not whole yet
                continue
            if not event or said["event"] == event:
                found.append(said)
        return found

    def plans(self) -> list[dict[str, Any]]:
        """What was said of the plans that were published, the newest last."""
        said = [plan for name in self.group.processes for plan in self.said(name, "published a plan")]
        return sorted(said, key=lambda plan: int(plan["epoch"]))

    def until_missed(self, names: Sequence[str]) -> None:
        """Wait until these are thought lost: a plan is in force that is for the others only."""
        epoch, left = self.plans()[-1]["epoch"], len(self.group.processes) - len(names)
        self.until(
            lambda: any(plan["epoch"] > epoch and plan["members"] == left for plan in self.plans()),
            f"a plan without {' and '.join(names)}",
        )

    def excuse_loss(self, names: Sequence[str], gone_at: float) -> None:
        """Expect that what these have fetched, and handed over, so far is fetched again.

        They have done nothing any more since a Unix time, for all that others know.
        """
        facts = [self.group.members()[name].pulse.facts for name in names]
        self.excused += sum(int(each["done"]) + int(each["moved"]) + AGAIN for each in facts)
        self.excuse_gifts(names, gone_at)

    def excuse_gifts(self, names: Sequence[str], gone_at: float) -> None:
        """Expect it of what others fetched in what had just come from these, too: clocks may differ."""
        self._gone.append((names, datetime.fromtimestamp(gone_at, UTC)))

    def _just_after(self, names: Sequence[str], gone_at: datetime) -> int:
        """How much others had fetched just after something came from these, when they missed them."""
        gave = [at for name in names for at, plan in self._adopted(name) if plan["leaving"] and at <= gone_at]
        soon = timedelta(seconds=CLOCKS_DIFFER_S + _HANDED_OVER_S)
        count = 0
        for name in self.group.processes.keys() - set(names):
            missed = (at for at, plan in self._adopted(name) if at > gone_at and "lost" in plan["reason"])
            by = next(missed, datetime.max.replace(tzinfo=UTC))
            count += sum(
                any(begun <= at <= begun + soon for begun in gave) for at in self._fetches(name) if at <= by
            )
        return count

    def _adopted(self, name: str) -> Iterator[tuple[datetime, dict[str, Any]]]:
        """The plans that a gatherer has followed, and since when."""
        return (
            (datetime.fromisoformat(plan["timestamp"]), plan) for plan in self.said(name, "adopted a plan")
        )

    def _fetches(self, name: str) -> Iterator[datetime]:
        """When a gatherer has fetched what it did, as it has logged so far."""
        log = self.group.processes[name].directory / "crawl.log"
        whole = log.read_text().rpartition("\n")[0] if log.exists() else ""
        return (datetime.fromisoformat(line.split(" ", 1)[0]) for line in whole.splitlines())

    def end(self, *, but: Sequence[str] = ()) -> None:
        """Wait until all have ended by themselves; raises Failed when they do not."""
        quiet_at, count = time.monotonic(), -1
        deadline = time.monotonic() + self._timeout_s
        while True:
            running = [
                name
                for name, process in self.group.processes.items()
                if name not in but and process.child is not None and process.child.poll() is None
            ]
            fetched = self.fetched()
            if fetched != count:
                quiet_at, count = time.monotonic(), fetched
            if not running:
                break
            if time.monotonic() > deadline:
                raise Failed(f"it did not end: {self.group.members()}")
            self._look()
        self._detected_s = time.monotonic() - quiet_at
        self._codes = self.group.wait(1, but=but)

    def verdict(self, *problems: str) -> str:
        """What came of it, in a line; raises Failed for what is wrong, and for problems found elsewhere."""
        seen = self.served.judged()
        wrong = [*problems, *self._seen(seen), *self._unruly(), *self._audited()]
        if any(wrong):
            raise Failed(", ".join(filter(None, wrong)))
        return (
            f"{seen.pages:,} pages, coverage {seen.coverage:.4f}, "
            f"{seen.duplicates} fetched again (at most {self._may_be_again} may be), "
            f"{len(seen.forbidden)} forbidden, balanced, ended {self._detected_s:.1f} s after the last page"
        )

    @property
    def _may_be_again(self) -> int:
        just_after = sum(self._just_after(names, gone_at) for names, gone_at in self._gone)
        return self.excused + sum(self._unanswered.values()) + just_after

    def _seen(self, seen: Verdict) -> Iterator[str]:
        """What the server of the web has to complain of."""
        if seen.missing:
            yield f"{len(seen.missing)} pages missing, such as {sorted(seen.missing)[:3]}"
        if seen.duplicates > self._may_be_again:
            yield f"{seen.duplicates} pages fetched again, of {self._may_be_again} that may be"
        if seen.forbidden:
            yield f"{len(seen.forbidden)} forbidden pages"
        if any(self._codes.values()):
            yield f"exit codes {self._codes}"

    def _unruly(self) -> Iterator[str]:
        """What the gatherers have logged that should not be."""
        published = Counter[int](plan["epoch"] for plan in self.plans())
        for name in self.group.processes:
            epochs = [said["epoch"] for said in self.said(name, "adopted a plan")]
            if epochs != sorted(set(epochs)):
                yield f"{name} went back to an older plan: {epochs}"
            errors = [said for said in self.said(name) if said["level"] in ("error", "critical")]
            if errors:
                yield f"{name} logged {len(errors)} errors, such as {errors[0]}"
        twice = [epoch for epoch, count in published.items() if count > 1]
        if twice:
            yield f"two leaders published plans of the same epoch: {twice}"

    def _audited(self) -> Iterator[str]:
        """What is wrong with the books of all gatherers together, and with what their stores have."""
        books, keys = dict[str, dict[str, Any]](), Counter[str]()
        for process in self.group.processes.values():
            if not process.directory.exists():
                continue
            with Store.open(process.directory, Config().store, resume=True) as store:
                books[store.identity] = book_of(store) | {"reasons": {}}
                keys.update(store.keys("", None, 10**9, Which.HELD)[0])
        audit = add_up(books)
        yield from (f"{side.missing} URLs missing at {side.gatherer}" for side in audit.sides if side.missing)
        yield from (f"{pair.missing} URLs missing between {pair}" for pair in audit.pairs if pair.missing)
        yield f"{audit.totals['queued']} URLs are still queued" if audit.totals["queued"] else ""
        twice = [key for key, count in keys.items() if count > 1]
        yield f"{len(twice)} URLs are in two stores, such as {twice[:3]}" if twice else ""
