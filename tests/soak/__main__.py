"""The command: which acts, how much of each, and the exit code."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial

import click

from gcs.simulate.cluster.command import Time
from tests.soak import Failed, Skipped
from tests.soak.cancels import cancel_takes
from tests.soak.crawl import kill_crawl
from tests.soak.failover import fail_over
from tests.soak.files import gather_files
from tests.soak.fulldisk import fill_disk
from tests.soak.gatherers import disasters
from tests.soak.helpers import helped
from tests.soak.network import disturb
from tests.soak.partition import be_apart, part
from tests.soak.profiles import deliver_through_disasters
from tests.soak.progress import Progress
from tests.soak.server import kill_servers
from tests.soak.simulation import simulate
from tests.soak.standstill import be_thought_lost, stand_still
from tests.soak.workers import kill_workers

# In this order: the first one forks, which is best done before there have been any threads.
HOSTS = 100
ACTS = (
    "workers",
    "server",
    "cancels",
    "crawl",
    "gatherers",
    "loss",
    "standstill",
    "returned",
    "network",
    "partition",
    "apart",
    "full",
    "failover",
    "helpers",
    "profiles",
    "files",
    "simulation",
)


@click.command()
@click.option("--act", "acts", multiple=True, type=click.Choice(ACTS), help="Only this one; may be repeated.")
@click.option("--tuples", type=click.IntRange(100), default=1_000_000, show_default=True)
@click.option("--workers", type=click.IntRange(1), default=8, show_default=True)
@click.option("--kills", type=click.IntRange(0), default=1000, show_default=True, help="Of workers.")
@click.option("--server-kills", type=click.IntRange(1), default=50, show_default=True)
@click.option("--cancels", type=click.IntRange(1), default=2000, show_default=True)
@click.option("--crawl-kills", type=click.IntRange(2), default=20, show_default=True)
@click.option("--pages", type=click.IntRange(1000), default=20_000, show_default=True, help="For gatherers.")
@click.option("--files", type=click.IntRange(500), default=100_000, show_default=True)
@click.option("--runs", type=click.IntRange(1), default=500, show_default=True, help="Of simulations.")
@click.option("--for", "for_s", type=Time(), help="Simulate for so long instead, such as 2h.")
@click.option("--seed", type=int, help="For every random decision; drawn when not given.")
@click.option("--server", type=click.Choice(["valkey", "redis"]), default="valkey", show_default=True)
def main(
    *,
    acts: Sequence[str],
    tuples: int,
    workers: int,
    kills: int,
    server_kills: int,
    cancels: int,
    crawl_kills: int,
    pages: int,
    files: int,
    runs: int,
    for_s: float | None,
    seed: int | None,
    server: str,
) -> None:
    """Kill workers, servers and crawls for a long time, and account for every tuple and page."""
    seed = random.randrange(1 << 32) if seed is None else seed
    click.echo(f"soak: seed {seed}, server {server}; SIGKILL does not test power loss")

    def chance(act: str) -> random.Random:
        return random.Random(f"{seed} {act}")

    run: dict[str, Callable[[Progress], str]] = {
        "workers": partial(kill_workers, server, tuples, workers, kills, chance("workers")),
        "server": partial(kill_servers, server, server_kills, chance("server")),
        "cancels": partial(cancel_takes, server, cancels, chance("cancels")),
        "crawl": partial(kill_crawl, crawl_kills, chance("crawl")),
        "gatherers": partial(disasters, pages, HOSTS, chance("gatherers")),
        "loss": partial(disasters, pages, HOSTS, chance("loss"), lose_one=True),
        "standstill": partial(stand_still, pages, HOSTS, chance("standstill"), for_s=40, times=3),
        "returned": partial(be_thought_lost, pages, HOSTS, chance("returned"), forget_after_s=10),
        "network": partial(disturb, pages, HOSTS, chance("network"), for_s=60),
        "partition": partial(part, pages, HOSTS, chance("partition"), times=3),
        "apart": partial(be_apart, pages, HOSTS, chance("apart"), forget_after_s=10),
        "full": partial(fill_disk, pages, HOSTS, chance("full"), times=3),
        "failover": partial(fail_over, pages, HOSTS, chance("failover"), times=3),
        "helpers": partial(helped, pages, HOSTS, chance("helpers")),
        "profiles": partial(deliver_through_disasters, pages, 50, chance("profiles")),
        "files": partial(gather_files, files, 10, chance("files")),
        "simulation": partial(simulate, runs, for_s, chance("simulation")),
    }
    failed = [act for act in ACTS if act in (acts or ACTS) and not perform(act, run[act])]
    sys.exit(1 if failed else 0)


def perform(act: str, run: Callable[[Progress], str]) -> bool:
    """Run an act and print its verdict; True unless it failed."""
    started = time.monotonic()
    verdict, word = "", "PASS"
    with closing(Progress(every_s=5.0)) as progress:
        try:
            verdict = run(progress)
        except* Failed as failures:
            verdict, word = "; ".join(_sentences(failures)), "FAIL"
        except* Skipped as reasons:
            verdict, word = "; ".join(_sentences(reasons)), "SKIP"
        took_s = time.monotonic() - started
        progress.say(f"{act}: {word} in {took_s:.1f} s: {verdict}")
    return word != "FAIL"


def _sentences(failures: ExceptionGroup[Exception]) -> list[str]:
    """What failed, or could not be, out of nested groups."""
    found: list[str] = []
    for each in failures.exceptions:
        found += _sentences(each) if isinstance(each, ExceptionGroup) else [str(each)]
    return found


if __name__ == "__main__":
    main()
