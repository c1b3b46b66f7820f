"""What is kept of a visit: WARC records, rows of Parquet, a line of the log."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import compress
from typing import Any, Final, Literal

from gcs import config
from gcs.core.revisits.course import Seen
from gcs.core.urls import key, url
from gcs.fetch.outcome import Response
from gcs.gatherer.job import Job, Visit
from gcs.store import warc
from gcs.store.columns import joined, pack_columns, pack_row, repeated
from gcs.store.records import SEED, Again, Finished, Packed
from gcs.summary.members import Member
from gcs.summary.records import MEMBER, Document, Fetched, Summary

ORIGINALS: Final = 20_000
"""Payloads that are remembered, so that one which comes again is not kept again."""
_WORTH_A_REVISIT: Final = 512
OK: Final = 200
NOT_MODIFIED: Final = 304
_HOPS: Final = {
    "link": "L",
    "redirect": "R",
    "sitemap": "M",
    "sitemap-file": "P",
    "canonical": "L",
    "seed": "-",
}


class Keeper:
    """Makes the rows and records of a crawl's visits."""

    def __init__(self, config: config.Config) -> None:
        self._crawl = config.crawl.name
        self._pages = config.store.pages != "none"
        self.may_refer = not config.revisit.is_on
        """Whether a page may be kept as a reference to another; not if later visits refer to it."""
        self._summaries = config.summary.level == "full"
        self._builder = warc.Builder(config.store.pages)
        self._ended = warc.Dates("%Y-%m-%dT%H:%M:%S.", 3, "Z")
        self._began = warc.Dates("%Y%m%d%H%M%S", 3)
        self._originals: OrderedDict[str, warc.Original] = OrderedDict()

    def finished(self, visit: Visit) -> Finished:
        """Everything that the store is told about a visit."""
        outcome, queued = visit.outcome, visit.job.queued
        made = Finished(
            key=queued.key,
            state=visit.state,
            status=visit.status,
            reason=visit.reason,
            at=visit.at,
            attempts=queued.attempts + 1,
            retry_at=visit.retry_at,
        )
        if visit.job.again is not None:
            self._again(visit, visit.job.again, made)
            return made
        parent, digest = url(queued.parent) if queued.parent else "", ""
        if isinstance(outcome, Response):
            made.digest = outcome.digest()
            digest = warc.digest_of(made.digest)
            if self._pages and visit.keep and (outcome.request or outcome.status == OK):
                made.records = self._builder.page(self._exchange(visit, outcome, parent, digest))
            if self._summaries and visit.keep and visit.document is not None:
                fetched_us = round(outcome.started * 1e6)
                made.summary = _rows(visit, visit.document, outcome, parent, digest, fetched_us)
                made.links = pack_columns(_links(visit, visit.document, fetched_us))
        made.log = self._line(visit, parent, digest)
        return made

    def _again(self, visit: Visit, again: Again, made: Finished) -> None:
        """What the store is told about another visit: of a page that is as it was, that it was visited."""
        outcome, queued = visit.outcome, visit.job.queued
        parent, digest = url(queued.parent) if queued.parent else "", ""
        made.is_revisit = True
        if visit.seen is Seen.FAILED or not isinstance(outcome, Response):
            made.status, made.reason, made.digest = again.status, "", again.digest
        else:
            fetched_us = round(outcome.started * 1e6)
            made.digest = again.digest if visit.is_unchanged else outcome.digest()
            digest = warc.digest_of(outcome.digest()) if outcome.status != NOT_MODIFIED else ""
            made.status = again.status if outcome.status == NOT_MODIFIED else outcome.status
            if self._pages and visit.keep and (original := self._before(visit, outcome)) is not False:
                exchange = self._exchange(visit, outcome, parent, digest)
                made.records = self._builder.page(exchange._replace(original=original))
            if self._summaries and visit.keep and (visit.document is not None or _was_summarised(visit.job)):
                document = visit.document or Document(format="")
                made.summary = _rows(visit, document, outcome, parent, digest, fetched_us)
                if visit.document is not None:
                    made.links = pack_columns(_links(visit, visit.document, fetched_us))
        made.log = self._line(visit, parent, digest)

    @staticmethod
    def _before(visit: Visit, response: Response) -> warc.Original | Literal[False] | None:
        """The record that has the body of a page that is as it was; False if there is nothing to be kept.

        That a resource is as it was needs no record: revisit records are about HTTP.
        """
        memory = visit.job.memory
        is_known = visit.is_unchanged and not visit.is_kept_at_last
        if not response.request and (is_known or response.status != OK):
            return False
        if not visit.is_unchanged or memory is None or visit.is_kept_at_last:
            return None
        return warc.Original(visit.job.url, memory.kept_at) if memory.kept_at > 0 else False

    def _exchange(self, visit: Visit, response: Response, parent: str, digest: str) -> warc.Exchange:
        queued = visit.job.queued
        metadata = {"via": parent} if parent else {}
        metadata["hopsFromSeed"] = f"{_HOPS[queued.via]}{queued.depth}"
        metadata["fetchTimeMs"] = str(round(response.total_s * 1000))
        return warc.Exchange(
            url=visit.job.url,
            at=response.started,
            request=response.request,
            head=response.head,
            payload=response.raw,
            address=response.address,
            truncated=response.truncated,
            digest=digest,
            metadata=metadata,
            original=self._original(visit, response, digest),
            content_type=visit.document.format if visit.document is not None else "",
        )

    def _original(self, visit: Visit, response: Response, digest: str) -> warc.Original | None:
        """The page that has the same payload and was kept before, if it is remembered."""
        if not self.may_refer or len(response.raw) < _WORTH_A_REVISIT or not response.request:
            return None
        found = self._originals.get(digest)
        if found is None:
            self._originals[digest] = warc.Original(visit.job.url, response.started)
            if len(self._originals) > ORIGINALS:
                self._originals.popitem(last=False)
        return found

    def _line(self, visit: Visit, parent: str, digest: str) -> bytes:
        """A line with the fields of Heritrix's crawl.log, so that tools for those logs read ours.

        When it ended, status, size, URL, the way on which it was discovered, the page that named it, media
        type, worker, when the fetch began and how many milliseconds it took, digest, crawl, annotations; "-"
        for what there is not. (Heritrix user manual, "crawl.log".)
        """
        outcome, queued, job = visit.outcome, visit.job.queued, visit.job
        size, began, kind = "-", "-", "no-type"
        if outcome is not None and outcome.started:
            began = f"{self._began(outcome.started)}+{round(outcome.total_s * 1000)}"
        if isinstance(outcome, Response):
            size = str(len(outcome.head) + outcome.raw_bytes)
            kind = "".join(outcome.headers.get("content-type", "").partition(";")[0].split()) or kind
        notes = [visit.reason] if visit.reason else []
        if visit.seen is not None:
            notes.append(f"revisit:{visit.seen}")
        if visit.helper:
            notes.append(f"helper:{visit.helper}")
        if queued.attempts:
            notes.append(f"{queued.attempts + 1}t")
        if visit.document is not None and visit.document.refused:
            notes.append("refused")
        if isinstance(outcome, Response) and outcome.truncated:
            notes.append(f"truncated:{outcome.truncated}")
        hops = f"{_HOPS[queued.via]}{queued.depth}" if queued.via != SEED else "-"
        return (
            f"{self._ended(visit.at)} {visit.status:>5} {size:>10} {job.url} {hops} {parent or '-'} {kind} "
            f"#{visit.worker:03} {began} {digest or '-'} {self._crawl} {','.join(notes) or '-'}\n"
        ).encode("utf-8", "replace")


def _was_summarised(job: Job) -> bool:
    """Whether a page that is visited again was one, and kept, the last time."""
    again, memory = job.again, job.memory
    return again is not None and 200 <= again.status < 300 and memory is not None and memory.kept_at != 0.0


def _rows(
    visit: Visit, document: Document, response: Response, parent: str, digest: str, fetched_us: int
) -> Packed:
    """The rows of the summaries: its own, and one for each of its members."""
    row = pack_row(_summary(visit, document, response, parent, digest, fetched_us))
    if not visit.members:
        return row
    return joined([row, *(pack_row(_member(visit, each, response, fetched_us)) for each in visit.members)])


def _member(visit: Visit, member: Member, response: Response, fetched_us: int) -> Sequence[Any]:
    """The row of something that was inside of what was fetched, and came with it."""
    fetched = Fetched(
        url=member.url,
        key=key(member.url),
        parent=member.parent,
        via=MEMBER,
        depth=visit.job.queued.depth,
        status=visit.status,
        media_type=member.document.format,
        fetched_at=fetched_us,
        fetch_s=response.total_s,
        bytes=member.bytes,
        truncated="",
        digest=member.digest,
        etag="",
        last_modified="",
        epoch=visit.job.epoch,
        change=visit.change,
    )
    return Summary.row(member.document, fetched, links_out=member.links)


def _summary(
    visit: Visit, document: Document, response: Response, parent: str, digest: str, fetched_us: int
) -> Sequence[Any]:
    """The row of the summaries."""
    queued, headers = visit.job.queued, response.headers
    fetched = Fetched(
        url=visit.job.url,
        key=queued.key,
        parent=parent,
        via=queued.via,
        depth=queued.depth,
        status=visit.status,
        media_type=document.format,
        fetched_at=fetched_us,
        fetch_s=response.total_s,
        bytes=response.body_bytes,
        truncated=response.truncated,
        digest=digest,
        etag=headers.get("etag", ""),
        last_modified=headers.get("last-modified", ""),
        epoch=visit.job.epoch,
        change=visit.change,
        unchanged=visit.is_unchanged,
    )
    return Summary.row(document, fetched)


def _links(visit: Visit, document: Document, fetched_us: int) -> Sequence[str | Sequence[str]]:
    """The columns of the links, as `Edge` has them."""
    targets, texts, rels, kinds = visit.targets, document.texts, document.rels, document.kinds
    urls = [target.url for target in targets if target is not None]
    if not urls:
        return visit.job.url, (), (), "", "", "", ""
    if any(not isinstance(each, str) and len(each) != len(targets) for each in (texts, rels, kinds)):
        texts, rels, kinds = document.columns()  # a plug-in's
    if len(urls) < len(targets):
        texts = list(compress(texts, targets))
        rels = rels if isinstance(rels, str) else list(compress(rels, targets))
        kinds = kinds if isinstance(kinds, str) else list(compress(kinds, targets))
    return visit.job.url, urls, texts, rels, kinds, str(fetched_us), _repeated(urls)


def _repeated(urls: list[str]) -> str | list[str]:
    """For each URL a text that is not empty if it was there before; one empty text if none was."""
    places = repeated(urls)
    if not places:
        return ""
    column = [""] * len(urls)
    for place in places:
        column[place] = "1"
    return column
