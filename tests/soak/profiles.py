"""The act `profiles`: matches go to a receiver that fails at random, while gatherers are killed at random."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests import treeweb
from tests.crawling import gcs_here
from tests.gatherers import gatherers
from tests.receivers import hook
from tests.servers import redis_server, until
from tests.soak import Failed
from tests.soak.progress import Progress
from tests.treeweb import TreeWeb


def deliver_through_disasters(
    pages: int, kills: int, rng: random.Random, progress: Progress, *, failing: float = 0.3
) -> str:
    """The whole run; says what came of it or raises Failed. `failing` is the share of failed requests."""
    settings = ["member.leave_when_finished=false", "fetch.concurrency=4", "member.heartbeat=0.2s"]
    with (
        tempfile.TemporaryDirectory() as directory,
        redis_server("valkey") as redis,
        hook(failing=failing, seed=rng.randrange(1000)) as receiver,
        treeweb.serve(Path(directory) / "hosts", pages=pages, hosts=10, write=_page) as web,
        gatherers(redis, web, Path(directory) / "g", settings) as group,
    ):
        at = ("-s", f"redis.url={redis.url}")
        for name, query in (("thirds", "third -fifth"), ("fifths", '"every fifth" title:page')):
            added = gcs_here("profile", "add", name, query, "--to", "webhook", receiver.url, *at)
            assert added.exit_code == 0, added.stderr
        for name in ("one", "two"):
            group.start(name)
        group.until(lambda members: len(members) == 2, "two members")
        group.seed([web.url(0)])
        for number in range(kills):
            share = (number + 1) / (kills + 1)
            _until(partial(_reached, web, pages * share), "some pages")
            name = rng.choice(("one", "two"))
            progress.say(f"{name} is killed and started again at {share:.0%}")
            group.kill(name)
            group.start(name)
        wanted = {("thirds", web.url(n)) for n in range(0, pages, 3) if n % 5}
        wanted |= {("fifths", web.url(n)) for n in range(0, pages, 5)}

        def got() -> set[tuple[str, str]]:
            return {(each["profile"], each["url"]) for each in list(receiver.got)}

        _until(lambda: got() >= wanted, "all matches")
        listed = json.loads(gcs_here("profile", "list", "--json", *at).stdout)["profiles"]
    if got() != wanted:
        raise Failed(f"delivered though nothing matches: {sorted(got() - wanted)[:5]}")
    if waiting := {each["profile"]: each["waiting"] for each in listed if each["waiting"]}:
        raise Failed(f"all was delivered, and still waits: {waiting}")
    return f"{len(receiver.got)} deliveries of {len(receiver.ids)} ids, {receiver.refused} refused"


def _page(page: int, links: str) -> bytes:
    words = [word for every, word in ((3, "a third"), (5, "every fifth")) if page % every == 0]
    return f"<html lang=en><title>Page {page}</title><p>This is {' '.join(words)} one.<p>{links}".encode()


def _reached(web: TreeWeb, count: float) -> bool:
    return len(set(web.fetched)) > count


def _until(condition: Callable[[], object], what: str) -> None:
    try:
        until(condition, what, timeout_s=600)
    except TimeoutError as error:
        raise Failed(str(error)) from error
