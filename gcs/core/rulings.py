"""What operators have ruled while the crawl runs: who pauses, which parts of the web are blocked, settings.

Rulings are one value with an epoch. A newer one replaces an older one as a whole, so that all gatherers agree
whatever they have missed. A part of the web is a prefix of keys: a host with all its schemes and ports, or
what lies below a URL. A part that is blocked for a while *rests*: its URLs wait. One that is blocked for good
is *barred*: its URLs are dropped when their turn comes. Rulings say too which helpers were invited, and what
they seal their answers with. Settings are texts here: gatherers know what they mean (`gcs.gatherer.reload`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeVar

import msgpack

from gcs.core.holdings import Extent
from gcs.core.urls import PATH, part

T = TypeVar("T")

ALL: Final = "*"
"""Stands for all gatherers."""
FOR_GOOD: Final = 0.0


class Invited(NamedTuple):
    """A helper: where it helps, and the key that it shares with the gatherers."""

    site: str
    key: bytes


@dataclass(frozen=True, slots=True)
class Rulings:
    """Everything that is ruled at a time."""

    epoch: int = 0
    paused: frozenset[str] = frozenset()
    """Names of gatherers, or ALL."""
    resting: Mapping[str, float] = field(default_factory=dict)
    """Prefixes whose URLs wait, until a Unix time; for good: until an operator says otherwise."""
    barred: frozenset[str] = frozenset()
    """Prefixes whose URLs are dropped."""
    sites: Mapping[str, bytes] = field(default_factory=dict)
    """The sites of helpers, and the key that seals what lies in each one's URLTS."""
    helpers: Mapping[str, Invited] = field(default_factory=dict)
    """Who was invited, by name."""
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By gatherer, or ALL: settings and their values, as the command line has them."""
    leaving: Mapping[str, str] = field(default_factory=dict)
    """Helpers that were revoked and whose users servers may still know, and the site of each."""
    delays: Mapping[str, float] = field(default_factory=dict)
    """Prefixes of hosts that are asked less often: the least seconds between two requests."""
    paused_by: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    """Of those that are paused: which operator did that, and when, if that was said."""

    def is_paused(self, gatherer: str) -> bool:
        """Whether a gatherer begins no fetches."""
        return ALL in self.paused or gatherer in self.paused

    def rests(self, key: str, now: float) -> bool:
        """Whether a URL has to wait."""
        return any(
            _lies_in(key, prefix) and (until == FOR_GOOD or now < until)
            for prefix, until in self.resting.items()
        )

    def is_barred(self, key: str) -> bool:
        """Whether a URL is not to be fetched at all."""
        return any(_lies_in(key, prefix) for prefix in self.barred)

    def extent(self, host: str, now: float) -> Extent:
        """How much of a host need not wait."""
        if not self.resting:
            return Extent.ALL
        if self.rests(host + PATH, now):
            return Extent.NONE
        inside = (prefix for prefix in self.resting if prefix.startswith(host + PATH))
        return Extent.SOME if any(self.rests(prefix, now) for prefix in inside) else Extent.ALL

    def ended(self, since: float, now: float) -> list[tuple[str, str]]:
        """The ranges of keys whose rest ended between two times."""
        return [part(prefix) for prefix, until in self.resting.items() if since < until <= now]

    def in_force(self, now: float) -> Rulings:
        """The same, without the rests that have ended."""
        resting = {each: until for each, until in self.resting.items() if until == FOR_GOOD or now < until}
        return replace(self, resting=resting)

    # Changes

    def pause(self, who: str, epoch: int, *, by: str = "", at: float = 0.0) -> Rulings:
        """A gatherer, or ALL, begins no more fetches; whoever paused it first is remembered."""
        noted = self.paused_by if who in self.paused or not by else {**self.paused_by, who: (by, at)}
        return replace(self, epoch=epoch, paused=self.paused | {who}, paused_by=noted)

    def resume(self, who: str, epoch: int) -> Rulings:
        """It begins them again; ALL includes those that were paused one by one."""
        paused = frozenset[str]() if who == ALL else self.paused - {who}
        noted = {each: by for each, by in self.paused_by.items() if each in paused}
        return replace(self, epoch=epoch, paused=paused, paused_by=noted)

    def rest(self, prefix: str, until: float, epoch: int) -> Rulings:
        """URLs with a prefix wait."""
        return replace(self, epoch=epoch, resting={**self.resting, prefix: until})

    def delay(self, prefix: str, seconds: float | None, epoch: int) -> Rulings:
        """A host is asked at most every so many seconds; None leaves that to the configuration."""
        delays = {each: delay_s for each, delay_s in self.delays.items() if each != prefix}
        return replace(self, epoch=epoch, delays=delays if seconds is None else {**delays, prefix: seconds})

    def bar(self, prefix: str, epoch: int) -> Rulings:
        """URLs with a prefix are dropped."""
        return replace(self, epoch=epoch, barred=self.barred | {prefix})

    def lift(self, prefix: str, epoch: int) -> Rulings:
        """URLs with a prefix are fetched again."""
        resting = {each: until for each, until in self.resting.items() if each != prefix}
        return replace(self, epoch=epoch, resting=resting, barred=self.barred - {prefix})

    def invite(self, helper: str, invited: Invited, site_key: bytes, epoch: int) -> Rulings:
        """A helper may help; the site's key is made with its first one."""
        sites, leaving = {invited.site: site_key, **self.sites}, _without(self.leaving, helper)
        helpers = {**self.helpers, helper: invited}
        return replace(self, epoch=epoch, sites=sites, helpers=helpers, leaving=leaving)

    def revoke(self, helper: str, epoch: int) -> Rulings:
        """A helper may not help any more; it is leaving until its user is gone."""
        leaving = {**self.leaving, helper: self.helpers[helper].site}
        return replace(self, epoch=epoch, helpers=_without(self.helpers, helper), leaving=leaving)

    def left(self, helper: str, epoch: int) -> Rulings:
        """The user of a helper that was revoked is gone."""
        return replace(self, epoch=epoch, leaving=_without(self.leaving, helper))

    def set(self, who: str, values: Mapping[str, str], epoch: int) -> Rulings:
        """Settings have other values at a gatherer, or at ALL."""
        settings = {**self.settings, who: {**self.settings.get(who, {}), **values}}
        return replace(self, epoch=epoch, settings=settings)

    def unset(self, who: str, names: Iterable[str], epoch: int) -> Rulings:
        """Settings have the values again that they would have without this."""
        gone = set(names)
        kept = {name: value for name, value in self.settings.get(who, {}).items() if name not in gone}
        settings = {each: values for each, values in {**self.settings, who: kept}.items() if values}
        return replace(self, epoch=epoch, settings=settings)

    # In and out

    def to_bytes(self) -> bytes:
        """As they are put up and kept."""
        packed: bytes = msgpack.packb(
            [
                self.epoch,
                sorted(self.paused),
                dict(self.resting),
                sorted(self.barred),
                dict(self.sites),
                dict(self.helpers),
                {who: dict(values) for who, values in self.settings.items()},
                dict(self.leaving),
                dict(self.delays),
                dict(self.paused_by),
            ]
        )
        return packed

    @classmethod
    def from_bytes(cls, data: bytes) -> Rulings:
        """What `to_bytes` gave, here or in another version; none for no bytes."""
        if not data:
            return cls()
        said: Any = msgpack.unpackb(data)
        epoch, paused, resting, barred, sites, helpers, *more = said
        invited = {name: Invited(*each) for name, each in helpers.items()}
        settings, leaving, delays, paused_by = [*more[:4], {}, {}, {}, {}][:4]
        return cls(
            epoch,
            frozenset(paused),
            dict(resting),
            frozenset(barred),
            dict(sites),
            invited,
            settings,
            leaving,
            dict(delays),
            {who: (str(by), float(at)) for who, (by, at) in paused_by.items()},
        )


def _without(these: Mapping[str, T], name: str) -> dict[str, T]:
    return {each: value for each, value in these.items() if each != name}


def _lies_in(key: str, prefix: str) -> bool:
    low, high = part(prefix)
    return low <= key < high
