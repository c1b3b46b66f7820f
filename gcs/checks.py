"""`gcs check`: what GCS would make of a URL, without crawling: its form, the scope, the host's robots.txt."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime

import trio

from gcs.config import Config
from gcs.core.robots import Rules, Standing
from gcs.core.urls import surt
from gcs.domains import registered_domain
from gcs.errors import UsageError
from gcs.fetch.outcome import Failure, Origin
from gcs.fetch.robots import RobotsCache
from gcs.fetch.transport import Transport
from gcs.gatherer.admission import Admission
from gcs.gatherer.seeds import target_of
from gcs.sources.chosen import reach_of


def url(config: Config, text: str) -> Mapping[str, object]:
    """Its canonical form, its place in the URL tree, and whose it is."""
    target = target_of(config, text)
    origin, path = Origin.split(target.url)
    reach = reach_of(config.sources)
    source = {} if target.url.startswith("http") else {"is_allowed": reach.has(target.url)}
    return {
        "url": target.url,
        "surt": surt(target.url),
        "host": origin.host,
        "port": origin.port,
        "path": path,
        "domain": registered_domain(origin.host),
        **source,
    }


def scope(config: Config, text: str, *, depth: int = 0) -> Mapping[str, object]:
    """Whether it belongs to the crawl, and which rule decides."""
    target = target_of(config, text)
    verdict = Admission(config, year=datetime.now(UTC).year).decide(target, depth)
    return {"url": target.url, "depth": depth, "in_scope": verdict.accepted, "rule": verdict.rule}


def robots(config: Config, text: str) -> Mapping[str, object]:
    """What the host's robots.txt says about it now; asks the host."""
    target = target_of(config, text)
    if not target.url.startswith("http"):
        raise UsageError(f"{text} is on no web server: only those have a robots.txt.")
    rules, failure = trio.run(_rules, config, Origin.split(target.url)[0])
    return {
        "url": target.url,
        "robots": rules.standing.value if failure is None else f"{rules.standing.value}: {failure.detail}",
        "allowed": rules.allowed(Origin.split(target.url)[1]) and rules.standing is not Standing.UNREACHABLE,
        "crawl_delay": rules.crawl_delay_s,
        "sitemaps": list(rules.sitemaps),
        "holds_for": f"{max(0.0, rules.until - time.time()):.0f}s",
    }


async def _rules(config: Config, origin: Origin) -> tuple[Rules, Failure | None]:
    async with Transport(config.fetch) as transport:
        cache = RobotsCache(transport, transport.agent)
        inquiry = cache.begin(origin)
        assert inquiry is not None
        while (rules := cache.heed(inquiry, await cache.fetch(inquiry))) is None:
            pass
        return rules, cache.failure(origin)
