"""The act `profiles`: matches go to a receiver that fails at random, while gatherers are killed at random.

Each page says of which kind it is, and for half of the kinds there is a profile. After a failure a profile
rests for a second or more, so of each only some hundred matches are wanted, and of many at once.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from gcs.profiles.courier import AT_ONCE
from tests import treeweb
from tests.crawling import gcs_here
from tests.gatherers import gatherers
from tests.receivers import Hook, hook
from tests.servers import redis_server
from tests.soak import Failed
from tests.soak.progress import Progress
from tests.treeweb import TreeWeb

PAGES_OF_A_KIND: Final = 200
_LOOK_EVERY_S: Final = 0.1
_TIMEOUT_S: Final = 600.0
_SLOWEST: Final = 10.0
"""Pages a second, from the first to the last delivery, on the busiest machine."""
Given = tuple[str, str]
"""A profile, and the URL of a page that is delivered for it."""


def deliver_through_disasters(
    pages: int, kills: int, rng: random.Random, progress: Progress, *, failing: float = 0.3
) -> str:
    """The whole run; says what came of it or raises Failed. `failing` is the share of failed requests."""
    settings = ["member.leave_when_finished=false", "fetch.concurrency=4", "member.heartbeat=0.2s"]
    profiles = max(2, pages // PAGES_OF_A_KIND // 2)
    kinds = 2 * profiles
    until = partial(_until, timeout_s=_TIMEOUT_S + pages / _SLOWEST)
    with (
        tempfile.TemporaryDirectory() as directory,
        redis_server("valkey") as redis,
        hook(failing=failing, seed=rng.randrange(1000)) as receiver,
        treeweb.serve(
            Path(directory) / "hosts", pages=pages, hosts=10, write=partial(_page, kinds=kinds)
        ) as web,
        gatherers(redis, web, Path(directory) / "g", settings) as group,
    ):
        at = ("-s", f"redis.url={redis.url}")
        for kind in range(profiles):
            query = f'"of kind{kind}" title:page' if kind % 2 else f"kind{kind} -fifth"
            added = gcs_here("profile", "add", f"p{kind}", query, "--to", "webhook", receiver.url, *at)
            assert added.exit_code == 0, added.stderr
        for name in ("one", "two"):
            group.start(name)
        group.until(lambda members: len(members) == 2, "two members")
        group.seed([web.url(0)])
        for number in range(kills):
            share = (number + 1) / (kills + 1)
            until(partial(_reached, web, pages * share), "some pages")
            name = rng.choice(("one", "two"))
            progress.say(f"{name} is killed and started again at {share:.0%}")
            group.kill(name)
            group.start(name)
        wanted = {
            (f"p{page % kinds}", web.url(page))
            for page in range(pages)
            if page % kinds < profiles and (page % kinds % 2 or page % 5)
        }

        def all_are_there() -> bool:
            there = {_given(each) for each in list(receiver.got)}
            progress.show(f"{len(there)} of {len(wanted)} matches are delivered", time.monotonic())
            return there >= wanted

        def nothing_waits() -> bool:
            listed = json.loads(gcs_here("profile", "list", "--json", *at).stdout)["profiles"]
            return not any(each["waiting"] for each in listed)

        until(all_are_there, "all matches")
        # What the receiver has, but has not said so, comes again after a rest.
        until(nothing_waits, "nothing to wait for its delivery")
    _judge(receiver, wanted, Counter(web.url(page) for page in web.fetched), kills)
    repeated = len(receiver.got) - len(receiver.ids)
    return (
        f"{len(wanted)} matches of {profiles} profiles under {len(receiver.ids)} ids, {repeated} of them"
        f" again; {receiver.refused} refused, {receiver.untold} of these after they were taken"
    )


def _judge(receiver: Hook, wanted: set[Given], fetched: Mapping[str, int], kills: int) -> None:
    """Raise Failed unless each match has an id of its own, and came again only for a reason."""
    by_id: dict[str, Given] = {}
    ids: defaultdict[Given, set[str]] = defaultdict(set)
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for each in receiver.got:
        given = _given(each)
        if by_id.setdefault(each["id"], given) != given:
            raise Failed(f"{each['id']} is the id of two matches: {given}, {by_id[each['id']]}")
        if each["id"] not in ids[given]:
            source, _, number = each["id"].rpartition("-")
            numbers[source].append(int(number))
        ids[given].add(each["id"])
    if ids.keys() != wanted:
        raise Failed(f"delivered though nothing matches: {sorted(ids.keys() - wanted)[:5]}")
    if often := [given for given, some in ids.items() if len(some) > fetched[given[1]]]:
        raise Failed(f"more ids than the page was fetched: {sorted(often)[:5]}")
    if disordered := [source for source, some in numbers.items() if some != sorted(some)]:
        raise Failed(f"not in the order of the pages: {sorted(disordered)[:5]}")
    repeated = len(receiver.got) - len(by_id)
    if repeated > receiver.untold + kills * AT_ONCE:
        raise Failed(f"{repeated} deliveries again, {receiver.untold} untold and {kills} kills")


def _given(delivery: Mapping[str, Any]) -> Given:
    return delivery["profile"], delivery["url"]


def _page(page: int, links: str, *, kinds: int) -> bytes:
    fifth = "" if page % 5 else ", and every fifth"
    return (
        f"<html lang=en><title>Page {page}</title><p>This is one of kind{page % kinds}{fifth}.<p>{links}"
    ).encode()


def _reached(web: TreeWeb, count: float) -> bool:
    return len(set(web.fetched)) > count


def _until(condition: Callable[[], object], what: str, *, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(f"waited {timeout_s:g} s in vain for {what}")
        time.sleep(_LOOK_EVERY_S)
