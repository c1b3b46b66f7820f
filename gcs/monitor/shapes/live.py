"""What is told as it changes: the events of the stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypedDict

from gcs.monitor.shapes.crawl import CrawlOverview, Happening
from gcs.monitor.shapes.web import HostSeen, Pages


class GatherersChange(TypedDict):
    """Of gatherers, by id, the fields that differ from before; `all` if there was nothing before."""

    all: bool
    changed: list[dict[str, Any]]
    gone: list[str]


class PointOfGatherer(TypedDict):
    """How it went at one gatherer, at a time."""

    pages_per_s: float | None
    queued: float | None
    overhead_percent: float | None


class Point(TypedDict):
    """How it went at a time, of all and of each gatherer."""

    at: float
    pages_per_s: float | None
    bytes_per_s: float | None
    failed_per_s: float | None
    queued: float | None
    done: float | None
    gatherers: dict[str, PointOfGatherer]


class HistoryGrows(TypedDict):
    """One more point of the last hour."""

    point: Point


class EventsCome(TypedDict):
    """What has happened now."""

    events: list[Happening]


class HostsChange(TypedDict):
    """Hosts of which something new is known."""

    changed: list[HostSeen]


EVENTS: Final[Mapping[str, Any]] = {
    "overview": CrawlOverview,
    "gatherers": GatherersChange,
    "history": HistoryGrows,
    "events": EventsCome,
    "pages": Pages,
    "hosts": HostsChange,
    "changed": dict[str, int],
}
"""By topic; `changed` has a number for each of the larger answers."""
