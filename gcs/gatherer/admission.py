"""Which of the URLs that pages name belong to the crawl, and how soon they are fetched.

A URL is judged twice: when a page names it, and again when its turn has come, for by then its part of a site
may have turned out to be a trap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gcs.config import Config
from gcs.core.failures import Cause
from gcs.core.rulings import Rulings
from gcs.core.scope import Scope, Verdict
from gcs.core.traps import Fingerprint, Novelty, Standing, fingerprint, trap_in
from gcs.core.urls import PATH, QUERY, is_of_source
from gcs.errors import ConfigError
from gcs.gatherer.estimates import Estimates
from gcs.gatherer.links import Target
from gcs.store.records import FIRST, LATER, USUAL, host_of

_IN: Final = Verdict(accepted=True, rule="no rule is against it")


class Admission:
    """Scope, kinds of files, depth and traps."""

    def __init__(
        self,
        config: Config,
        *,
        year: int,
        novelty: Novelty | None = None,
        rulings: Callable[[], Rulings] = Rulings,
    ) -> None:
        """`year` is the present one, `rulings` what is ruled now; raises ConfigError for an unusable rule."""
        crawl = config.crawl
        try:
            self._scope = Scope.compile(crawl.scope, max_depth=crawl.max_depth)
        except ValueError as error:
            raise ConfigError(f"crawl.scope: {error}") from error
        self._open = not crawl.scope and crawl.max_depth is None
        self._skip = frozenset(crawl.skip)
        self._year = year if crawl.traps else None
        self._has_sources = config.sources.any
        self._rulings = rulings
        self.novelty = novelty or Novelty()
        self.estimates: Estimates | None = None
        """What fresh links are taken for, to be set by whoever knows rankings."""

    def decide(self, target: Target, depth: int) -> Verdict:
        """Whether a URL belongs to the crawl, and which rule says so."""
        key = target.key
        ending = key[key.rfind(".") + 1 :].lower()
        if ending in self._skip and QUERY not in key:
            return Verdict(accepted=False, rule=f"crawl.skip has {ending}", cause=Cause.SCOPE)
        if not self._open:
            verdict = self._scope.decide(key, target.url, target.host, depth)
            if not verdict.accepted:
                return verdict
        if self._year is not None and not self._is_real(key) and (trap := trap_in(target.url, self._year)):
            return Verdict(accepted=False, rule=f"crawl.traps: {trap}", cause=Cause.TRAP)
        return self.second_thoughts(key) or _IN

    def second_thoughts(self, key: str) -> Verdict | None:
        """The verdict on a URL that was barred, or whose part of its site is a trap; None for all others."""
        rulings = self._rulings()
        if rulings.barred and rulings.is_barred(key):
            return Verdict(accepted=False, rule="an operator has blocked it", cause=Cause.BLOCKED)
        if self._year is None or self._is_real(key):
            return None
        standing, reason = self.novelty.judge(key)
        if standing is Standing.DROPPED:
            return Verdict(accepted=False, rule=f"crawl.traps: {reason}", cause=Cause.TRAP)
        return None

    def _is_real(self, key: str) -> bool:
        """Whether something is no web page: nobody makes up files, articles or rows to trap a crawler."""
        return self._has_sources and is_of_source(host_of(key))

    def bars(self, host: str) -> bool:
        """Whether operators have ruled that a host is not to be asked for anything, not even robots.txt."""
        return self._rulings().is_barred(host + PATH)

    def rests(self, host: str, now: float) -> bool:
        """Whether they have ruled that it is to be left alone for now."""
        return self._rulings().rests(host + PATH, now)

    def band(self, key: str, estimate: float | None = None) -> int:
        """The priority band of a URL that was let in; `estimate` is what it is taken for, if anything."""
        if (
            self._year is not None
            and not self._is_real(key)
            and self.novelty.judge(key).standing is not Standing.OPEN
        ):
            return LATER
        if estimate is not None and self.estimates is not None and self.estimates.is_wanted(key, estimate):
            return FIRST
        return USUAL

    def saw(self, key: str, path: str, body: bytes, known: Fingerprint | None = None) -> None:
        """A page was fetched; of one that was read elsewhere the fingerprint is known."""
        if self._year is not None and not self._is_real(key):
            self.novelty.seen(key, known or fingerprint(body, path))
