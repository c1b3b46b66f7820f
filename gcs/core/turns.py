"""Politeness among several gatherers: what they share, and how they keep their distance from each other.

Who owns a URL is not thereby permitted to ask its host. A *line* (see `gcs.core.politeness`) that several
gatherers may use has one turn, and only who has it asks there. It says how the line was used last.

Nobody compares clocks for the distance between two requests: who takes a turn from another waits for the
whole distance after it has got it, and the other's last request was sent before it gave the turn away. Clocks
count only for pauses that are longer, and there a difference of seconds does no harm.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from gcs.core.holdings import Holdings
from gcs.core.politeness import AT
from gcs.core.urls import AFTER, HOST, PATH, SCHEME, key

NOBODY: Final = ""
_REMEMBERED: Final = 65536


class LastUse(NamedTuple):
    """What a turn says of its line."""

    by: str
    """Who used it; NOBODY yet."""
    free_at: float
    """The Unix time until which nothing may be asked there."""
    distance_s: float
    """The least time between two requests."""


@lru_cache(maxsize=_REMEMBERED)
def name_range(name: str) -> tuple[str, str]:
    """The keys [from, to) of all URLs at a host name, with every scheme and port, but not of names below."""
    labels, _, _ = key(f"http://{name}/").partition(SCHEME)
    return labels + SCHEME, labels + HOST


def is_shared(line: str, holdings: Holdings) -> bool:
    """Whether others than the holder of these may use a line.

    A name is not shared while the whole of it is held here. An address is: any host may turn out to be there.
    """
    return line.startswith(AT) or not holdings.hold_all(*name_range(line))


def rest_s(last: LastUse, me: str, now: float, *, again: bool, delay_s: float) -> float:
    """How long to ask nothing after having taken a turn.

    Who used it last itself knows better. A turn that was taken before and came back by itself (`again`)
    does not say what was asked meanwhile.
    """
    if last.by == me and not again:
        return 0.0
    return max(delay_s, last.distance_s, last.free_at - now)


def doubtful_s(started_s: float, planned_s: float, lease_s: float, *, from_nothing: bool) -> float:
    """For how long somebody may still have a turn by a lease that the server has forgotten.

    Such a lease was given before the server was started, `started_s` ago, and nobody relies on it for longer
    than it lasts. One that began `from_nothing` has forgotten nothing if the first plan was made after that,
    `planned_s` ago: before, nobody takes turns.
    """
    if from_nothing and planned_s <= started_s:
        return 0.0
    return max(0.0, lease_s - started_s)


def overlaps(host: str, start: str, end: str | None) -> bool:
    """Whether a host has keys in a range."""
    return start < host + AFTER and (end is None or host + PATH < end)
