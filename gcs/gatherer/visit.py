"""What becomes of an answer: where its URL stands from now on, and which URLs it names.

Redirects are links: where one leads is queued like any other URL and fetched once, whoever names it. What a
page asks for is obeyed: links of a page that says `nofollow` are not followed, and of one that says `noindex`
nothing is kept but its row.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

import structlog

from gcs.config import Config
from gcs.core import failures, sitemaps
from gcs.core.dates import moment
from gcs.core.failures import Cause, Verdict
from gcs.core.sitemaps import Sitemap
from gcs.core.urls import Rejected
from gcs.fetch.decoding import Undecodable, codings, decode
from gcs.fetch.outcome import REDIRECTS, Failure, Origin, Outcome, Response
from gcs.gatherer.admission import Admission
from gcs.gatherer.job import Job, Visit
from gcs.gatherer.links import Target, Targets, unsettled
from gcs.store.records import FIRST, SEED, Again, Found, State
from gcs.summary import Level, Plugins, read, registry
from gcs.summary.directives import is_followed, of_header
from gcs.summary.plugins import NONE
from gcs.summary.recognise import FEEDS, recognise
from gcs.summary.records import Document

MAX_HOPS: Final = 10
"""Redirects in a row that are followed; more are a circle that grows."""
_REMEMBERED_HOPS: Final = 10_000


class Visitor:
    """Decides, at once and without waiting for anything, what an outcome means."""

    def __init__(
        self,
        config: Config,
        targets: Targets,
        admission: Admission,
        plugins: Plugins = NONE,
        *,
        counts_links: bool = False,
    ) -> None:
        """`counts_links`: what pages link to is wanted, also if it is known."""
        self._log = structlog.get_logger()
        self._level: Level = "links" if config.summary.level == "links" else "full"
        self._plugins = plugins
        self._only_new = self._level == "links" and not counts_links
        self._heeds_feeds = False
        self._agent = config.fetch.agent
        self._max_wait_s = config.fetch.max_wait_s
        self._max_body_bytes, self._max_ratio = config.fetch.max_body_bytes, config.fetch.max_ratio
        self._targets, self.admission = targets, admission
        self._hops: OrderedDict[str, int] = OrderedDict()

    def expect_visits(self) -> None:
        """Pages are visited again: all their links are wanted, and what is said of their changes."""
        self._only_new, self._heeds_feeds = False, True

    @property
    def has_plugins(self) -> bool:
        """Whether others have a say in what pages say."""
        return bool(self._plugins)

    def forget_targets(self) -> None:
        """What was said to the store of URLs that were named does not hold any more."""
        self._targets.forget()

    # What names URLs

    def seeds(self, urls: Iterable[str]) -> list[Found]:
        """Seeds to be queued; raises Rejected for one that cannot be crawled."""
        targets = [self._targets.seed(each) for each in urls]
        return [Found(target.key, 0, "", SEED, FIRST) for target in unsettled(targets)]

    def sitemaps(self, origin: Origin, urls: Sequence[str]) -> list[Found]:
        """The sitemaps that a robots.txt names; of others than its own host it cannot speak."""
        found = []
        for each in urls:
            with suppress(Rejected):
                target = self._targets.of(each)
                if (
                    target.url[:4] == "http"
                    and Origin.split(target.url)[0].host == origin.host
                    and self.admission.decide(target, 0).accepted
                ):
                    found.append(target)
        return [Found(target.key, 0, "", "sitemap-file", FIRST) for target in unsettled(found)]

    def _named(self, job: Job, targets: Sequence[Target | None], via: str, depth: int) -> list[Found]:
        """Those of the URLs that a page names which are new here, and are let in."""
        fresh = unsettled(targets)
        if not fresh:
            return []
        parent, admission, admitted = job.queued.key, self.admission, []
        estimate = admission.estimates.of_page(parent) if admission.estimates is not None else None
        for target in fresh:
            verdict = admission.decide(target, depth)
            if verdict.accepted:
                place = target.key
                admitted.append(Found(place, depth, parent, via, admission.band(place, estimate)))
            elif verdict.cause is Cause.DEPTH:
                target.settled = False  # there may be a shorter way to it
        return admitted

    # What became of a job

    def forbidden(self, job: Job, now: float) -> Visit:
        """The host's robots.txt forbids it."""
        return self._dropped(job, Cause.ROBOTS, now)

    def lost(self, job: Job, cause: str, now: float) -> Visit:
        """It is not asked for, since its host was given up or may not be asked for more."""
        return self._dropped(job, cause, now)

    def unwanted(self, job: Job, now: float) -> Visit | None:
        """It was let in, but by now its part of the site has turned out to be a trap; None if not."""
        verdict = self.admission.second_thoughts(job.queued.key)
        return None if verdict is None or verdict.cause is None else self._dropped(job, verdict.cause, now)

    def unanswered(self, job: Job, cause: str, host_failures: int, now: float) -> Visit:
        """It could not be asked for, since its host's robots.txt could not be had."""
        verdict = self._decide(cause, job, host_failures)
        return self._judged(job, None, verdict, cause, now)

    def visited(self, job: Job, outcome: Outcome, host_failures: int, now: float) -> Visit:
        """It was asked for, and this is what came; of a page nothing is read yet."""
        if isinstance(outcome, Failure):
            verdict = self._decide(outcome.reason.value, job, host_failures)
            return self._judged(job, outcome, verdict, outcome.reason.value, now)
        status = outcome.status
        is_same = job.again is not None and _is_same(job.again, outcome)
        if is_same and status < 300:
            return Visit(job, outcome, now, State.DONE, status, is_same=True)
        if 200 <= status < 300:
            return Visit(job, outcome, now, State.DONE, status, is_page=True)
        asked = failures.retry_after(outcome.headers.get("retry-after", ""), now) if status >= 400 else None
        verdict = self._decide(status, job, host_failures, asked)
        visit = self._judged(job, outcome, verdict, str(status), now)
        if status in REDIRECTS:
            visit.is_same = is_same
            self._follow(visit, outcome)
        return visit

    def _decide(
        self, cause: str | int, job: Job, host_failures: int, retry_after_s: float | None = None
    ) -> Verdict:
        return failures.decide(
            cause,
            job.queued.attempts + 1,
            host_failures,
            retry_after_s=retry_after_s,
            max_wait_s=self._max_wait_s,
        )

    def _dropped(self, job: Job, cause: str, now: float) -> Visit:
        return Visit(job, None, now, State.DROPPED, failures.code_of(cause), reason=cause)

    def _judged(self, job: Job, outcome: Outcome | None, verdict: Verdict, cause: str, now: float) -> Visit:
        visit = Visit(job, outcome, now, State.DONE, verdict.code)
        visit.host_failed, visit.pause_s = verdict.host_failed, verdict.host_pause_s
        visit.host_given_up = verdict.host_given_up
        if verdict.retry_after_s is not None:
            visit.state, visit.reason, visit.retry_at = State.QUEUED, cause, now + verdict.retry_after_s
            visit.keep = False
        elif verdict.dropped:
            visit.state, visit.reason = State.DROPPED, cause
        return visit

    def _follow(self, visit: Visit, response: Response) -> None:
        """Queue where a redirect leads."""
        job = visit.job
        targets = self._targets.resolve(job.url, [response.headers.get("location", "")])
        hops = self._hops.pop(job.queued.key, 0) + 1
        if hops > MAX_HOPS or targets == [None]:
            visit.state, visit.reason = State.DROPPED, "redirect"
            return
        visit.found = self._named(job, targets, "redirect", job.queued.depth)
        for found in visit.found:
            self._hops[found.key] = hops
            if len(self._hops) > _REMEMBERED_HOPS:
                self._hops.popitem(last=False)

    # What a page says

    def read(self, visits: Sequence[Visit]) -> None:
        """Find out what pages say, and which URLs they name.

        One step for all of them before the next step: what a step works with stays in the processor's caches.
        """
        for visit in visits:
            if visit.document is None:
                visit.document = self._document(visit)
        pages = [(visit, visit.document) for visit in visits if visit.document is not None]
        for visit, _ in pages:
            self._remember(visit)
        for visit, document in pages:
            self._heed(visit, document)

    def is_apart(self, visit: Visit) -> bool:
        """Whether a page is of a format that is to be read apart from this process."""
        response = visit.outcome
        if visit.was_apart or not isinstance(response, Response):
            return False
        if visit.document is not None:
            return bool(response.raw) and registry.is_apart(visit.document.format)
        content_type = response.headers.get("content-type", "")
        if content_type[:9] == "text/html" and response.body[:1] == b"<":
            return False  # nearly all
        if visit.job.queued.via == "sitemap-file":
            return False
        return registry.is_apart(recognise(content_type, visit.job.url, response.body).media_type)

    def body(self, response: Response) -> bytes:
        """The body of a response as meant, also of one that a helper has got."""
        if response.elsewhere is None:
            return response.body
        found = decode(
            response.raw,
            codings(response.headers),
            max_bytes=self._max_body_bytes,
            max_ratio=self._max_ratio,
        )
        return b"" if isinstance(found, Undecodable) else found.body

    def brief(self, visit: Visit) -> Document | None:
        """What is said of a page by those who read HTML and plain text only."""
        return visit.document or self._document(visit)

    def _document(self, visit: Visit) -> Document | None:
        """What a page says; nothing for a sitemap, which only names URLs."""
        job, response = visit.job, visit.outcome
        assert isinstance(response, Response)
        if job.queued.via == "sitemap-file" and self._read_sitemap(visit, response):
            return None
        try:
            return read(
                response.body,
                url=job.url,
                content_type=response.headers.get("content-type", ""),
                level=self._level,
                plugins=self._plugins,
            )
        except Exception:  # noqa: BLE001 - one page must not end the crawl, and again when that is resumed
            self._log.exception("a page could not be read", url=job.url)
            return Document()

    def _remember(self, visit: Visit) -> None:
        job, response = visit.job, visit.outcome
        assert isinstance(response, Response)
        if job.again is not None:
            return  # that it is like itself says nothing of its neighbours
        self.admission.saw(job.queued.key, job.path, response.body, visit.fingerprint)

    def _heed(self, visit: Visit, document: Document) -> None:
        """Follow the links of a page, and keep it, unless it asks for the opposite."""
        response = visit.outcome
        assert isinstance(response, Response)
        noindex, nofollow = document.noindex, document.nofollow
        if "x-robots-tag" in response.headers:
            said = of_header(response.headers["x-robots-tag"], self._agent)
            noindex, nofollow = noindex or said.noindex, nofollow or said.nofollow
        if self._heeds_feeds and document.format in FEEDS:
            visit.hints = self._dates(visit.job, sitemaps.parse(response.body, visit.job.url))
        visit.keep = not noindex
        if noindex:
            visit.reason = "noindex"
        if not nofollow:
            self._follow_links(visit, document)

    def _follow_links(self, visit: Visit, document: Document) -> None:
        job, depth = visit.job, visit.job.queued.depth + 1
        rels = document.rels
        only_new = self._only_new and isinstance(rels, str)
        targets = self._targets.resolve(job.url, document.hrefs, document.base, unsettled=only_new)
        followed = visit.targets = targets
        if isinstance(rels, str):
            followed = targets if is_followed(rels) else []
        elif len(rels) == len(targets):
            followed = [
                target for target, rel in zip(targets, rels, strict=True) if not rel or is_followed(rel)
            ]
        visit.found = self._named(job, followed, "link", depth)
        if document.canonical:
            meant = self._targets.resolve(job.url, [document.canonical], document.base)
            visit.found += self._named(job, meant, "canonical", depth)

    def _dates(self, job: Job, listed: Sitemap) -> list[tuple[str, float]]:
        """When pages of its own host changed, as far as a sitemap or a feed says so."""
        if not self._heeds_feeds:
            return []
        targets = self._targets.resolve(job.url, [location for location, _ in listed.urls])
        return [
            (target.key, at)
            for target, (_, date) in zip(targets, listed.urls, strict=True)
            if target is not None and target.host == job.host and date and (at := moment(date)) is not None
        ]

    def _read_sitemap(self, visit: Visit, response: Response) -> bool:
        """Queue what a sitemap lists of its own host; False if it is no sitemap, but a page like others."""
        job = visit.job
        sitemap = sitemaps.parse(response.body, job.url)
        if not sitemap.urls and not sitemap.sitemaps:
            return False
        visit.keep = False
        more = self._targets.resolve(job.url, sitemap.sitemaps)
        pages = self._targets.resolve(job.url, [location for location, _ in sitemap.urls])
        own = [target for target in pages if target is not None and target.host == job.host]
        visit.hints = self._dates(job, sitemap)
        visit.found = self._named(job, own, "sitemap", 1)
        visit.found += [
            Found(target.key, job.queued.depth + 1, job.queued.key, "sitemap-file", FIRST)
            for target in unsettled([each for each in more if each is not None and each.host == job.host])
            if job.queued.depth < 2
        ]
        return True


def _is_same(again: Again, response: Response) -> bool:
    """Whether an answer has the status and the body of the visit before."""
    return response.status == again.status and response.digest().startswith(again.digest)
