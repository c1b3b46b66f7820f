"""What a ranking does to the queue: the most wanted URLs of a host go before all others.

Of the URLs of a host that a batch ranks and that wait in the usual band, those with a P_new above the mean
go to the first band, in order. The others stay as they are, first come first served: which of them is next
matters less than that what is ranked high is fetched before the next ranking. A URL that changes its band
is in two pieces of the queue, and comes from that of the band which its row says.
"""

from collections import defaultdict
from collections.abc import Container
from typing import Final

from gcs.core.ranking import Priority
from gcs.store.database import ROWS
from gcs.store.drafting import Draft
from gcs.store.encoding import is_untried, pack_untried, unpack_origin
from gcs.store.records import FIRST, USUAL, VIAS, Batch, Found, State, host_of
from gcs.store.view import parents_of

MOST: Final = 1_000
"""URLs of a host that one batch lets go first."""


def promote(batch: Batch, settled: Container[str], draft: Draft) -> None:
    """Let the URLs that a ranking wants most be the next of their hosts."""
    if not batch.priorities:
        return
    in_flight = draft.queue.in_flight
    ranked = {
        each.key: each
        for each in batch.priorities
        if each.key not in settled and each.key not in in_flight and each.key not in draft.gone
    }
    values = draft.database.get_many(ROWS, [key.encode() for key in ranked])
    rows = {key: row for key, row in zip(ranked, values, strict=True) if is_untried(row)}
    waiting: defaultdict[str, list[Priority]] = defaultdict(list)
    for key, row in rows.items():
        if unpack_origin(row).band == USUAL:
            waiting[host_of(key)].append(ranked[key])
    wanted = {host: chosen for host, all_ in waiting.items() if (chosen := _wanted(all_))}
    draft.touch(wanted)
    draft.take_out({each.key: rows[each.key] for chosen in wanted.values() for each in chosen})
    origins = [unpack_origin(rows[each.key]).parent for chosen in wanted.values() for each in chosen]
    parents = parents_of(draft.database, origins)
    put, table = draft.writes.put, draft.writes.tables[ROWS]
    for host, chosen in wanted.items():
        change = draft.changes[host]
        for key, _, _ in chosen:
            if (taken := in_flight.get(key)) is not None:
                change.use(taken, draft.writes)
                draft.left.append(key)
            origin = unpack_origin(rows[key])._replace(band=FIRST)
            put(key.encode(), pack_untried(State.QUEUED, origin), table)
            found = Found(key, origin.depth, parents[origin.parent], VIAS[origin.via], FIRST)
            change.add(found, origin.parent)
            draft.arriving.append(key)
        draft.woken[host] = None


def _wanted(waiting: list[Priority]) -> list[Priority]:
    """Those above the mean, the largest first; equal ones by their keys."""
    mean = sum(each.new for each in waiting) / len(waiting)
    above = [each for each in waiting if each.new > mean]
    return sorted(above, key=lambda each: (-each.new, each.key))[:MOST]
