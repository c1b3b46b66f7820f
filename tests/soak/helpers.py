"""The act `helpers`: two gatherers and three helpers that come, go and are killed all the time."""

from __future__ import annotations

import random
import signal
import tempfile
import time
from pathlib import Path
from typing import Final

from gcs.helper.worker import ANSWER_EVERY_S
from gcs.operate import ledger
from tests.crawling import server
from tests.gatherers import gatherers
from tests.servers import redis_server
from tests.soak import Failed
from tests.soak.progress import Progress

SITE: Final = "helpers.sites=office"
SLOTS: Final = 4
LATENCY_S: Final = 0.01
AGAIN: Final = SLOTS * round(ANSWER_EVERY_S / LATENCY_S + 2)
"""Pages that a killed helper may have fetched and not answered yet, and that are therefore fetched again. One
that leaves answers what it has fetched; the requests under way, one for each slot, it drops."""


def helped(pages: int, hosts: int, chance: random.Random, progress: Progress) -> str:
    """The whole run; gives the verdict or raises Failed."""
    few = [f"fetch.concurrency={SLOTS}", "fetch.per_host=2"]
    settings = [SITE, *few, "member.leave_when_finished=false"]
    with tempfile.TemporaryDirectory() as place:
        web = server(
            Path(place, "web"), chance.randrange(1000), hosts=hosts, pages=pages, latency_ms=LATENCY_S * 1000
        )
        with (
            web as served,
            redis_server() as node,
            gatherers(node, served, Path(place, "g"), settings) as group,
        ):
            names = ["h0", "h1", "h2"]
            files = {name: group.invite(name) for name in names}
            for name in names:
                group.help(name, files[name], settings=few)
            group.start("one")
            group.start("two")
            group.until(lambda members: {"one", "two"} <= members.keys(), "both")
            group.seed(served.web.seeds)
            killed = left = 0
            while not all(each.pulse.standing == "finished" for each in group.members().values()):
                time.sleep(chance.uniform(0.5, 2.0))
                name = chance.choice(names)
                child = group.processes[name].child
                assert child is not None
                if child.poll() is not None:
                    group.help(name, files[name], settings=few)
                elif chance.random() < 0.6:
                    group.kill(name)
                    killed += 1
                else:
                    child.send_signal(signal.SIGTERM)
                    if child.wait(60) not in (0, -signal.SIGTERM):  # the latter before it has begun
                        raise Failed(f"a helper that was asked to end gave {child.returncode}")
                    left += 1
                done = sum(int(each.pulse.facts["pages"]) for each in group.members().values())
                progress.show(f"helpers: {done:,} pages, {killed} killed, {left} left", time.monotonic())
            by_helpers = sum(int(each.pulse.facts["helped"]) for each in group.members().values())
            account = group.ask(lambda board: ledger.audit(board, group.config))
            seen = served.judged()
    allowed = killed * AGAIN + left * SLOTS
    said = (
        f"{by_helpers:,} of {seen.pages:,} pages by helpers, {killed} killed and {left} left meanwhile, "
        f"coverage {seen.coverage:.4f}, {seen.duplicates} fetched again of {allowed} allowed, "
        f"{len(seen.forbidden)} forbidden, {'balanced' if account.code == 0 else 'not balanced'}"
    )
    wrong = seen.coverage < 1.0 or seen.forbidden or account.code or seen.duplicates > allowed
    if wrong or not by_helpers:
        raise Failed(said)
    return said
