"""What can be asked for without changing anything: what is seen, and what gatherers say if they are asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import trio
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from gcs.index.presenting import offset_of
from gcs.monitor import kml, requests
from gcs.monitor.answers import Body, answer, outcome, told
from gcs.monitor.endpoints import Endpoint
from gcs.monitor.gate import Refused
from gcs.monitor.landscape import Landscape
from gcs.monitor.requests import Nothing
from gcs.monitor.shapes import crawl, plan, web
from gcs.monitor.shapes.crawl import Told
from gcs.monitor.watch import Watch
from gcs.operate import facts, inquiry, ownership, searching, status, work
from gcs.operate.asking import Answer, Question
from gcs.operate.looking import View
from gcs.operate.overview import Overview

Versioned = tuple[object, Callable[[], Body]]
"""What tells whether something has changed, and what makes the answer then."""
AT_ONCE: Final = 8
"""Questions to gatherers that are under way at once."""


class Reading:
    """The answers."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._asking = trio.CapacityLimiter(AT_ONCE)
        self._kept: dict[str, tuple[object, Body]] = {}
        """Answers that hold until something is seen that is newer."""
        self._making = trio.Lock()
        """Held while something is made that takes long, so that all who ask wait for one."""

    def endpoints(self) -> list[Endpoint]:
        """What can be asked for."""
        return [
            self._seen("overview", "The crawl on one screen", self._overview, crawl.CrawlOverview),
            self._seen("gatherers", "What each gatherer says", self._gatherers, crawl.Gatherers),
            self._seen("history", "How it went", self._history, crawl.CrawlHistory),
            self._seen("tree", "The URL tree with its superpages and their owners", self._tree, plan.Tree),
            self._seen("plans", "The last plans", self._plans, plan.PlansSeen),
            self._seen("languages", "Pages by language and charset", self._languages, web.Languages),
            self._seen(
                "countries", "Pages by country, and links between them", self._countries, web.Countries
            ),
            self._seen("traffic", "URLs between gatherers", self._traffic, crawl.Traffic),
            self._seen("helpers", "Who is invited to help", self._helpers, crawl.Helpers),
            Endpoint(
                "GET", "places.kml", "The same by country, for Google Earth", self._kml, media=kml.MEDIA_TYPE
            ),
            self._chosen("events", "What has happened", self._events, requests.Events, crawl.Happenings),
            self._chosen("rates", "Who is fast for what", self._rates, requests.Rates, plan.Rates),
            self._chosen("hosts", "Hosts that stand out", self._hosts, requests.Hosts, web.Hosts),
            self._chosen("pages", "The latest pages", self._pages, requests.Latest, web.Pages),
            self._question("why", "Where a URL stands, and why", self._why, requests.Why, facts.WhyFacts),
            self._question(
                "search", "Pages by their words", self._search, requests.Search, facts.SearchFacts
            ),
            self._question(
                "host",
                "Who owns a host, and what is known of it",
                self._host,
                requests.OneHost,
                facts.HostFacts,
            ),
            self._question(
                "seeds", "Seeds that nobody has taken yet", self._seeds, Nothing, facts.SeedsFacts
            ),
            self._told("status", "How the crawl is", lambda: status.told(self._last()), facts.StatusFacts),
            self._told("nodes", "All gatherers", lambda: status.nodes_of(self._view()), facts.NodesFacts),
            self._told(
                "queues",
                "What waits, and for whom",
                lambda: status.queues_of(self._view()),
                facts.QueuesFacts,
            ),
            Endpoint(
                "GET",
                "superpages",
                "The ranges of the plan",
                self._superpages,
                query=requests.Top,
                gives=Told[facts.SuperpagesFacts],
            ),
        ]

    # How they are asked for

    def _seen(
        self,
        path: str,
        summary: str,
        value: Callable[[], tuple[object, Callable[[], Body]]],
        gives: Any,
    ) -> Endpoint:
        """What is seen, made anew only when that has another version."""

        async def read(request: Request) -> Response:
            requests.query_of(request, Nothing)
            version, make = value()
            kept = self._kept.get(path)
            if kept is None or kept[0] != version:
                self._kept[path] = kept = (version, make())
            return answer(request, kept[1])

        return Endpoint("GET", path, summary, read, gives=gives)

    def _chosen(
        self,
        path: str,
        summary: str,
        value: Callable[[Any], Mapping[str, Any]],
        query: type[Struct],
        gives: Any,
    ) -> Endpoint:
        async def read(request: Request) -> Response:
            return answer(request, Body.of(value(requests.query_of(request, query))))

        return Endpoint("GET", path, summary, read, query=query, gives=gives)

    def _told(self, path: str, summary: str, value: Callable[[], Answer], said: type) -> Endpoint:
        async def read(request: Request) -> Response:
            requests.query_of(request, Nothing)
            return told(value())

        gives = Told[said]  # type: ignore[valid-type] # it is described, not checked
        return Endpoint("GET", path, summary, read, gives=gives)

    def _question(
        self, path: str, summary: str, question: Callable[[Any], Question], query: type[Struct], said: type
    ) -> Endpoint:
        async def read(request: Request) -> Response:
            asked = question(requests.query_of(request, query))
            async with self._asking:
                return told(await asked(self._watch.board, self._watch.config))

        gives = Told[said]  # type: ignore[valid-type] # it is described, not checked
        return Endpoint("GET", path, summary, read, query=query, gives=gives)

    # What is seen

    def _last(self) -> Overview:
        if self._watch.seen is None:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "Nothing has been seen of the crawl yet.", 5.0)
        if self._watch.trouble:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, self._watch.trouble, 5.0)
        return self._watch.seen

    def _view(self) -> View:
        return self._last().view

    def _overview(self) -> Versioned:
        now = self._watch.overview()
        return now, lambda: Body.of(now)

    def _gatherers(self) -> Versioned:
        return self._watch.looks, lambda: Body.of({"gatherers": self._watch.gatherers()})

    def _history(self) -> Versioned:
        history = self._watch.history
        return history.recent.last, lambda: Body.of(history.shown())

    def _tree(self) -> Versioned:
        landscape = self._watch.landscape or Landscape(View(), None)
        return landscape, lambda: landscape.tree

    def _plans(self) -> Versioned:
        seen = self._watch.seen
        charter = seen.view.charter if seen else None
        return self._watch.versions["plans"], lambda: Body.of({"plans": self._watch.plans.shown(charter)})

    def _languages(self) -> Versioned:
        return self._watch.found.version, lambda: Body.of(self._watch.found.languages())

    def _countries(self) -> Versioned:
        return self._watch.found.version, lambda: Body.of(self._watch.found.countries())

    def _traffic(self) -> Versioned:
        return self._told_and_seen(), lambda: Body.of(self._watch.traffic())

    def _helpers(self) -> Versioned:
        return self._told_and_seen(), lambda: Body.of({"helpers": self._watch.helpers()})

    def _told_and_seen(self) -> tuple[int, int]:
        return self._watch.looks, self._watch.found.version

    async def _kml(self, request: Request) -> Response:
        requests.query_of(request, Nothing)
        said = self._watch.found.countries()
        made = kml.written(self._watch.crawl, self._watch.now(), said["countries"], said["links"])
        name = f'attachment; filename="{self._watch.crawl}.kml"'
        return answer(request, Body(made, kml.MEDIA_TYPE), **{"content-disposition": name})

    def _events(self, asked: requests.Events) -> Mapping[str, Any]:
        chronicle = self._watch.chronicle
        return {"events": chronicle.since(asked.after, asked.most), "last": chronicle.last}

    def _rates(self, asked: requests.Rates) -> Mapping[str, Any]:
        return (self._watch.landscape or Landscape(View(), None)).rates(asked.most)

    def _hosts(self, asked: requests.Hosts) -> Mapping[str, Any]:
        rows = self._watch.found.hosts(asked.order, asked.most, asked.q.lower())
        return {"order": asked.order, "hosts": [self._watch.host_row(each) for each in rows]}

    def _pages(self, asked: requests.Latest) -> Mapping[str, Any]:
        found = self._watch.found
        rows = found.search(
            asked.q.lower().split(),
            language=asked.language,
            gatherer=asked.gatherer,
            host=asked.host,
            before=asked.before,
            most=asked.most,
        )
        return {"pages": rows, "in_all": len(found.pages)}

    async def _superpages(self, request: Request) -> Response:
        top, view = requests.query_of(request, requests.Top).top, self._view()
        version = (view.charter.epoch if view.charter else 0, top)
        async with self._making:
            kept = self._kept.get("superpages")
            if kept is None or kept[0] != version:
                body = await trio.to_thread.run_sync(_listed, view, top)
                self._kept["superpages"] = kept = (version, body)
        return answer(request, kept[1])

    # What gatherers say

    def _why(self, asked: requests.Why) -> Question:
        return partial(inquiry.why, text=asked.url)

    def _search(self, asked: requests.Search) -> Question:
        offset = offset_of(asked.page, asked.limit)
        view = self._view()
        return partial(searching.search, text=asked.q, limit=asked.limit, offset=offset, view=view)

    def _host(self, asked: requests.OneHost) -> Question:
        return partial(ownership.host, name=asked.name)

    def _seeds(self, _: Nothing) -> Question:
        return work.seeds


def _listed(view: View, top: int) -> Body:
    """The superpages of a plan; thousands of them take a while."""
    body = outcome(ownership.superpages_in(view, top))
    body.pack()
    return body
