"""What a gatherer can tell of one URL, for `gcs why`: where it stands, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from gcs.core import failures
from gcs.core.robots import Rules, Standing
from gcs.core.urls import url
from gcs.fetch.outcome import Origin
from gcs.gatherer.admission import Admission
from gcs.gatherer.links import Target
from gcs.gatherer.next_visit import told
from gcs.gatherer.node import Node
from gcs.store.records import Row, State, host_of


def known(row: Row) -> dict[str, Any]:
    """A row, in words."""
    said: dict[str, Any] = {
        "state": row.state.name.lower(),
        "status": row.status or None,
        "reason": _because(row),
        "attempts": row.attempts,
        "last_tried": moment(row.at) if row.at else None,
        "via": row.via,
        "depth": row.depth,
        "named_by": url(row.parent) if row.parent else None,
    }
    if row.state is State.QUEUED and row.attempts:
        said["reason"] = f"{said['reason']}; it will be tried again"
    return said


def _because(row: Row) -> str | None:
    """The reason in words, where there are some."""
    if row.reason in failures.POLICIES:
        return failures.because(row.reason)
    if row.reason.isdigit():
        return failures.because(int(row.reason))
    return row.reason or None


def moment(at: float) -> str:
    """A Unix time for people and programs."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def tell(node: Node, admission: Admission, address: str) -> dict[str, Any]:
    """All that this gatherer knows of a URL."""
    target, now = Target(address), node.clock()
    key, crawl = target.key, node.crawl
    host = host_of(key)
    row = node.store.get(key)
    origin, path = Origin.split(address)
    rulings = node.rulings
    outlook = crawl.bench.outlook(host, now)
    courses = crawl.revisiting.courses if crawl.revisiting is not None else None
    return {
        "row": known(row) if row else None,
        "order": row.state.value if row else -1,
        "retry_s": max(0.0, row.retry_at - now) if row and row.retry_at else 0.0,
        "range": node.holdings.standing(key).value,
        "under_way": key in crawl.under_way,
        "lent_to": crawl.loans.lent_to(key),
        "scope": admission.decide(target, row.depth if row else 0).rule,
        "robots": _robots(crawl.inquiries.rules_of(origin), path, now),
        "host_queued": node.store.host(host).queued,
        "aside_s": max(0.0, crawl.frontier.aside_until(host) - now),
        "paused": rulings.is_paused(node.name),
        "rests": rulings.rests(key, now),
        "barred": rulings.is_barred(key),
        "revisit": told(node.config.revisit, key, node.store.remembered(key), courses),
        "host": outlook._asdict() if outlook else None,
    }


def turns(node: Node, lines: Iterable[str]) -> list[str]:
    """Those of some lines that are open here: this gatherer has their turns."""
    return [line for line in lines if node.crawl.bench.is_open(line)]


def _robots(rules: Rules | None, path: str, now: float) -> str:
    if rules is None:
        return "not asked for yet"
    if rules.standing is Standing.UNREACHABLE:
        return f"no answer; asked again in {max(0.0, rules.until - now):.0f}s, until then all waits"
    if rules.standing is Standing.UNAVAILABLE:
        return "there is none: allowed"
    return "allowed" if rules.allowed(path) else "forbidden"
