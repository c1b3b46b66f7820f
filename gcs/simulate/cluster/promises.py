"""Whether the promises were kept, seen from the end of a run: what the web's servers saw decides.

The rule about second requests: what was answered for good is asked for again only

- if it was under way when its gatherer was killed: off the queue, and its outcome not in a synced batch;
- if it was lent and did not come back, or what came back was not believed, or was checked here;
- if its outcome was on a disk that was lost for good, or was thought to be, or had come from there;

each as often as that happened to it, and never otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import inf

from gcs.core.urls import NO_CLEANING, key
from gcs.operate.ledger import add_up
from gcs.simulate.cluster.fetching import Server
from gcs.simulate.cluster.lies import is_lie
from gcs.simulate.cluster.machines import DRIFT, GathererMachine
from gcs.simulate.survey import Survey
from gcs.simulate.verdict import judge
from gcs.simulate.web import Web
from gcs.store.records import State

_SHOWN = 3


def broken(
    server: Server,
    gatherers: Sequence[GathererMachine],
    excuses: Mapping[str, int],
    believed: Collection[str],
    delay_s: float,
    *,
    is_snapshot: bool,
    is_standing: bool,
) -> list[str]:
    """The promises that were not kept, in sentences; `believed` are keys of pages that liars tell of.

    Second requests are judged if it `is_snapshot`. One that `is_standing` was stopped, and had not ended.
    """
    verdict = judge(server.log, server.web, sitemaps=False)
    found = []
    missing = verdict.missing
    if missing and believed:
        missing &= _within_reach(server.web, believed)
    if missing:
        found.append(
            f"coverage {verdict.coverage:.4f}: {len(missing)} pages are missing, "
            f"such as {sorted(missing)[:2]}"
        )
    if verdict.forbidden:
        found.append(f"forbidden pages were fetched: {sorted(verdict.forbidden)[:2]}")
    if verdict.hidden:
        found.append(f"pages were fetched to which no link leads that may be followed: {verdict.hidden}")
    if is_snapshot:
        found += _repeated(verdict.repeated, excuses, server)
    found += _hurried(server, delay_s)
    found += _unheeded(server, excuses)
    found += _unbalanced(gatherers, is_standing=is_standing)
    return found


def _within_reach(web: Web, believed: Collection[str]) -> frozenset[str]:
    """The pages to which one comes without those of which lies are believed."""
    unread = frozenset(url for url in web.reachable(sitemaps=False) if key(url) in believed)
    return Survey(web, NO_CLEANING, unread=unread).made(sitemaps=False).pages


def kept_lies(gatherers: Sequence[GathererMachine], believed: Collection[str]) -> list[str]:
    """Pages of which a lie is kept though it is known who has told it."""
    kept = []
    for machine in gatherers:
        if machine.starts and not machine.is_lost:
            with machine.opened() as store:
                kept += [
                    key
                    for key, row in store.scan("", None)
                    if row.state is State.DONE and is_lie(row.digest) and key not in believed
                ]
    return [f"of {len(kept)} pages lies are kept that are known to be some: {kept[:2]}"] if kept else []


def _repeated(repeated: Mapping[str, int], excuses: Mapping[str, int], server: Server) -> list[str]:
    found = []
    for url, times in sorted(repeated.items()):
        excused = excuses.get(key(url), 0)
        if times > excused:
            asked = [
                f"{each.start:.3f} {each.agent}"
                for each in server.log
                if server.web.url(each.host, each.target) == url
            ]
            found.append(f"{url} was asked for again {times} times, and {excused} are excused: {asked}")
    return found[:_SHOWN]


def _hurried(server: Server, delay_s: float) -> list[str]:
    """Requests that came too soon after another one of the same host, or of an address that it has.

    What comes late, from a machine that stood still, may be too close to requests of others, which know
    nothing of it, but not to one of that machine.
    """
    if not delay_s:
        return []
    # By a clock that is too fast a delay is over too early.
    least_s = delay_s * (1 - 2 * DRIFT)
    last: dict[str, float] = {}
    own: dict[tuple[str, str], float] = {}
    found = []
    for request in sorted(server.log, key=lambda each: each.start):
        is_late = request in server.late
        for line in (request.host, *server.addresses.get(request.host, ())):
            before = own.get((line, request.agent), -inf)
            if not is_late:
                before, last[line] = max(before, last.get(line, -inf)), request.start
            own[line, request.agent] = request.start
            if request.start - before < least_s:
                found.append(
                    f"{line} was asked {request.start - before:.3f} s after the last time, at "
                    f"{request.start:.3f} by {request.agent}"
                )
    return found[:_SHOWN]


def _unheeded(server: Server, excuses: Mapping[str, int]) -> list[str]:
    """What was asked for again before the host wanted it to be."""
    found = []
    for host, target, since, until in server.rests:
        if excuses.get(key(server.web.url(host, target)), 0):
            continue
        early = [
            each
            for each in server.log
            if (each.host, each.target) == (host, target)
            and since < each.start < until - (until - since) * 2 * DRIFT
            and each not in server.late
        ]
        if early:
            found.append(f"{host}{target} was asked for at {early[0].start:.3f}, and not before {until:.3f}")
    return found[:_SHOWN]


def _unbalanced(gatherers: Sequence[GathererMachine], *, is_standing: bool) -> list[str]:
    """Ledgers that do not balance; when a disk was lost, what was passed to it and from it cannot.

    Who was stopped in the middle of something may not have heard yet that another one has what it sent.
    """
    books = {}
    for machine in gatherers:
        if not machine.is_lost and machine.starts:
            identity, book = machine.book()
            books[identity] = book | {"reasons": {}}
    audit = add_up(books)
    if any(side.missing for side in audit.sides):
        return [f"a ledger does not balance: {audit.sides}"]
    if any(each.is_lost for each in gatherers) or audit.is_balanced:
        return []
    if is_standing and not any(pair.missing > 0 for pair in audit.pairs):
        return []
    return [f"the ledgers do not balance: {audit}"]
