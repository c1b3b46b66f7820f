"""The demonstration: a synthetic web on loopback, crawled to its end, and judged by what its servers saw.

The web runs in a process of its own and has what the real one has: hosts of very different sizes, many
languages and charsets, redirects, errors, slow hosts, robots rules, sitemaps, traps. The crawl is the
ordinary one. In the end the servers' log is compared with what a perfect, polite crawler would ask for.
"""

from __future__ import annotations

import html
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from ipaddress import ip_network
from pathlib import Path
from typing import Final

import click

from gcs.config import Config
from gcs.errors import ExitCode, GcsError, UsageError
from gcs.gatherer import fleet, parts, session
from gcs.gatherer.tally import Tally, most
from gcs.simulate.verdict import Verdict, judge
from gcs.simulate.web import Web

DELAY_S: Final = 0.01
MAX_DELAY_S: Final = 0.5
MAX_WAIT_S: Final = 2.0
GATHERERS: Final = 3
COOLDOWN_S: Final = 5.0
_ROWS: Final = 25


class DemoFailed(GcsError):
    """The crawl did not find everything, or asked for what it should not."""

    exit_code = ExitCode.LIMIT


@dataclass(frozen=True, slots=True)
class Served:
    """The web of the demonstration, while it is served."""

    web: Web
    hosts: Path
    log: Path


def run(
    config: Config, *, hosts: int, pages: int, seed: int, into: Path | None, monitor: bool, stay: bool
) -> int:
    """Crawl a synthetic web and judge the crawl; raises DemoFailed if it was not perfect.

    With its `monitor`, the web page, several gatherers crawl together; without, one alone.
    """
    directory = into or Path(tempfile.mkdtemp(prefix="gcs-demo-"))
    if directory.exists() and any(directory.iterdir()):
        raise UsageError(f"{directory} is not empty; choose another directory with --into.")
    directory.mkdir(parents=True, exist_ok=True)
    with _served(directory / "web", hosts, pages, seed) as served:
        click.echo(
            f"A web of {hosts} hosts and {pages:,} pages is served on loopback; crawling it.", err=True
        )
        request = session.Request(served.web.seeds, directory / "crawl", monitor=monitor, stay=stay)
        configured = _configured(config, served)
        if monitor:
            ended = fleet.crawl(_served_anywhere(configured), request, GATHERERS)
        else:
            ended = session.crawl(configured, request)
    if ended is not ExitCode.OK:
        return ended
    verdict = judge(served.log, served.web)
    tally = Tally()
    tally.merge(*map(session.tally_of, parts.parts(directory / "crawl")))
    report = directory / "report.html"
    report.write_text(_page(verdict, tally, served.web), encoding="utf-8")
    for line in _lines(verdict):
        click.echo(line)
    click.echo(f"Look at {report}, and at what was kept in {directory / 'crawl'}.")
    if verdict.missing or verdict.duplicates or verdict.forbidden or verdict.hidden:
        raise DemoFailed("The crawl was not perfect: see above what the servers saw.")
    return ExitCode.OK


def _configured(config: Config, served: Served) -> Config:
    """The ordinary crawl, but for hosts that are all on this machine and need little rest."""
    fetch = replace(
        config.fetch,
        allow=(*config.fetch.allow, ip_network("127.0.0.0/8")),
        hosts=served.hosts,
        delay_s=DELAY_S,
        delay_factor=1.0,
        max_delay_s=MAX_DELAY_S,
        max_wait_s=MAX_WAIT_S,
    )
    return replace(config, fetch=fetch)


def _served_anywhere(config: Config) -> Config:
    """The same, with the page at a port that is free, and gatherers that share the web out early."""
    return replace(
        config,
        monitor=replace(config.monitor, listen="127.0.0.1:0"),
        rebalance=replace(config.rebalance, cooldown_s=COOLDOWN_S),
    )


@contextmanager
def _served(into: Path, hosts: int, pages: int, seed: int) -> Iterator[Served]:
    arguments = ["--seed", seed, "--hosts", hosts, "--pages", pages, "--port", 0, "--abroad", "--into", into]
    command = [sys.executable, "-m", "gcs.simulate.webserver", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            said = json.loads(server.stdout.readline())
            web = Web(seed, hosts, pages, port=said["port"], abroad=True)
            yield Served(web, Path(said["hosts"]), Path(said["log"]))
        finally:
            server.terminate()


def _lines(verdict: Verdict) -> Iterator[str]:
    """What the servers saw, in words."""
    yield (
        f"The servers saw {verdict.requests:,} requests: {verdict.pages:,} of "
        f"{verdict.pages + len(verdict.missing):,} pages (coverage {verdict.coverage:.4f}), "
        f"{verdict.duplicates} fetched twice, {len(verdict.forbidden)} that robots.txt forbids."
    )
    if verdict.trapped:
        spent = sum(verdict.trapped.values())
        yield f"{len(verdict.trapped)} endless parts were left after {spent:,} pages."
    closest = min(verdict.closest_s.values(), default=0.0)
    yield f"No host was asked twice within {closest * 1000:.1f} ms; the delay was {DELAY_S * 1000:.0f} ms."


def _page(verdict: Verdict, tally: Tally, web: Web) -> str:
    """The report."""
    tables: Mapping[str, Mapping[str, int]] = {
        "Status": {str(status): count for status, count in tally.statuses.items()},
        "Media type": tally.types.counts,
        "Language": tally.languages,
        "Host": tally.hosts.counts,
        "Not fetched, and why": tally.reasons,
    }
    shown = "".join(_table(title, table) for title, table in tables.items() if table)
    sentences = "".join(f"<p>{html.escape(line)}</p>" for line in _lines(verdict))
    return (
        "<!DOCTYPE html><html lang=en><meta charset=utf-8><title>A crawl by GCS</title><style>"
        "body{font:16px/1.5 sans-serif;margin:2em auto;max-width:70em;padding:0 1em}"
        "div{display:flex;flex-wrap:wrap;gap:2em}table{border-collapse:collapse}"
        "th,td{padding:.2em .8em;border-bottom:1px solid #ccc;text-align:left}"
        "td+td{text-align:right;font-variant-numeric:tabular-nums}</style>"
        f"<h1>A crawl of {len(web.hosts)} hosts</h1>{sentences}<div>{shown}</div></html>\n"
    )


def _table(title: str, counts: Mapping[str, int]) -> str:
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{count:,}</td></tr>"
        for name, count in most(dict(counts), _ROWS)
    )
    return f"<table><tr><th>{html.escape(title)}</th><th></th></tr>{rows}</table>"
