"""What comes back from those who were lent something: each answer is taken, or refused and counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import structlog

from gcs.config import Config
from gcs.gatherer.crawl import Crawl
from gcs.helper import desks
from gcs.helper.dealings import Account, Books, Probing
from gcs.helper.desks import AMONG_GATHERERS
from gcs.helper.loaned import Out
from gcs.helper.papers import Answer, Page, Refusal, Refused
from gcs.helper.scrutiny import Scrutiny, Told

KEPT_S: Final = 300.0
"""So long a host is not lent again of which a helper got no answer, or one that is no page."""
HELD_BYTES: Final = 64 << 20
"""What strangers say takes no more memory than this until it is checked."""
_LIES: Final = frozenset({Refusal.SEAL, Refusal.SIZE, Refusal.FORM, Refusal.UNTRUE, Refusal.STRANGER})
"""What nobody writes who follows the rules."""
_KEPT: Final = 100_000


class Intake:
    """Takes answers for one gatherer."""

    def __init__(
        self,
        crawl: Crawl,
        config: Callable[[], Config],
        me: str,
        books: Books,
        outs: Mapping[str, Out],
        scrutiny: Scrutiny,
        account: Account,
        *,
        epoch: Callable[[], int],
        is_blocked: Callable[[str], bool],
        end: Callable[[Out], None],
        probing: Probing | None,
    ) -> None:
        """`outs` are the loans that are out, by the ids of their bundles; `end` is told which have ended."""
        self._crawl, self._config, self._me, self._books, self._outs = crawl, config, me, books, outs
        self._scrutiny, self._account, self._epoch, self._end = scrutiny, account, epoch, end
        self._is_blocked, self._probing = is_blocked, probing
        self._kept: dict[str, float] = {}
        self._log = structlog.get_logger()

    def is_kept(self, host: str, now: float) -> bool:
        """Whether a host is not to be lent for now."""
        return self._kept.get(host, 0.0) > now

    def has_room(self) -> bool:
        """Whether there is room for much of what has to be checked."""
        return self._weight() < HELD_BYTES // 2

    def answered(self, desk: str, bundle: str, helper: str, data: bytes) -> bool:
        """Take an answer, or refuse it."""
        try:
            self._take(desk, bundle, helper, data)
        except Refused as refused:
            self.refused(desk, refused.why)
            return False
        except Exception:  # noqa: BLE001 - whatever somebody has written, others go on
            self._log.exception("an answer could not be read", desk=desk)
            self.refused(desk, Refusal.FORM)
            return False
        return True

    def refused(self, desk: str, why: Refusal) -> None:
        """Something came that is not taken, and counts against who has written it if that was no accident."""
        self._account.refused[why.name.lower()] += 1
        self._log.debug("an answer was refused", desk=desk, why=why.value)
        if why in _LIES and (record := self._books.record(desk)):
            self._scrutiny.lied(record)

    def _weight(self) -> int:
        """About how many bytes strangers have said that were not checked yet."""
        return self._scrutiny.weight + sum(out.weight for out in self._outs.values())

    def _take(self, desk: str, id_: str, helper: str, data: bytes) -> None:
        """Take an answer; raises Refused."""
        out = self._outs.get(id_)
        probe = desk == desks.of_gatherer(self._me)
        if out is None or out.desk != (desks.of_gatherer(helper) if probe else desk):
            raise Refused(Refusal.UNKNOWN)
        key = AMONG_GATHERERS if probe else self._books.helper_key(desk, helper)
        if key is None:
            raise Refused(Refusal.STRANGER)
        answer = Answer.opened(data, key, self._me, id_, helper)
        if (helper, answer.part) in out.answered:
            raise Refused(Refusal.REPEATED)
        out.answered.add((helper, answer.part))
        if out.stranger and self._weight() + sum(page.weight for page in answer.pages) > HELD_BYTES:
            out.is_cut_short = True
            if answer.last:  # before that it goes on asking, and nobody else may
                self._end(out)
            raise Refused(Refusal.ROOM)
        for page in answer.pages:
            self._take_back(out, page, helper, probe=probe)
        if answer.last or not out.loan.jobs:
            self._end(out)

    def _take_back(self, out: Out, page: Page, helper: str, *, probe: bool) -> None:
        """Take what is said of one page; raises Refused."""
        if page.number >= len(out.numbers):
            raise Refused(Refusal.UNTRUE)
        number = out.numbers[page.number]
        if number in out.recalled:
            self._account.refused[Refusal.BLOCKED.name.lower()] += 1
            return
        if number not in out.loan.jobs or number in out.told:
            raise Refused(Refusal.REPEATED)
        host = out.loan.turn.host
        if page.failure:
            self._keep(host)
            return
        response = page.response(out.bundle)
        if response.truncated == "length" and out.bundle.max_body_bytes < self._config().fetch.max_body_bytes:
            self._keep(host)
            return
        if out.bundle.epoch != self._epoch() and self._is_blocked(out.loan.jobs[number].queued.key):
            self._account.refused[Refusal.BLOCKED.name.lower()] += 1
            return
        self._account.returned += 1
        if out.stranger:
            out.told[number] = told = Told(page, response)
            if not told.is_useful:
                self._keep(host)
            return
        if probe and self._probing is not None:
            self._probing.tried(host, helper, response.total_s)
        self._crawl.loans.returned(
            out.loan, number, response, page.read, page.fingerprint, "" if probe else helper
        )

    def _keep(self, host: str) -> None:
        """Do not lend a host for a while."""
        now = self._crawl.now()
        if len(self._kept) >= _KEPT:
            self._kept = {each: until for each, until in self._kept.items() if until > now}
        self._kept[host] = now + KEPT_S
