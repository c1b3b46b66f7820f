"""What is kept of a visit: WARC records, rows of Parquet, a line of the log."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import compress
from typing import Any, Final

from gcs import config
from gcs.core.urls import url
from gcs.fetch.outcome import Response
from gcs.gatherer.job import Visit
from gcs.store import warc
from gcs.store.columns import pack_columns, pack_row
from gcs.store.records import SEED, Finished
from gcs.summary.records import Document, Fetched, Summary

_ORIGINALS: Final = 20_000
"""Payloads that are remembered, so that one which comes again is not kept again."""
_WORTH_A_REVISIT: Final = 512
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
        parent, digest = url(queued.parent) if queued.parent else "", ""
        if isinstance(outcome, Response):
            made.digest = outcome.digest()
            digest = warc.digest_of(made.digest)
            if self._pages and visit.keep:
                made.records = self._builder.page(self._exchange(visit, outcome, parent, digest))
            if self._summaries and visit.keep and visit.document is not None:
                made.summary = pack_row(_summary(visit, visit.document, outcome, parent, digest))
                made.links = pack_columns(_links(visit, visit.document))
        made.log = self._line(visit, parent, digest)
        return made

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
        )

    def _original(self, visit: Visit, response: Response, digest: str) -> warc.Original | None:
        """The page that has the same payload and was kept before, if it is remembered."""
        if len(response.raw) < _WORTH_A_REVISIT:
            return None
        found = self._originals.get(digest)
        if found is None:
            self._originals[digest] = warc.Original(visit.job.url, response.started)
            if len(self._originals) > _ORIGINALS:
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
        if visit.helper:
            notes.append(f"helper:{visit.helper}")
        if queued.attempts:
            notes.append(f"{queued.attempts + 1}t")
        if isinstance(outcome, Response) and outcome.truncated:
            notes.append(f"truncated:{outcome.truncated}")
        hops = f"{_HOPS[queued.via]}{queued.depth}" if queued.via != SEED else "-"
        return (
            f"{self._ended(visit.at)} {visit.status:>5} {size:>10} {job.url} {hops} {parent or '-'} {kind} "
            f"#{visit.worker:03} {began} {digest or '-'} {self._crawl} {','.join(notes) or '-'}\n"
        ).encode("utf-8", "replace")


def _summary(visit: Visit, document: Document, response: Response, parent: str, digest: str) -> Sequence[Any]:
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
        fetched_at=round(response.started * 1e6),
        fetch_s=response.total_s,
        bytes=response.body_bytes,
        truncated=response.truncated,
        digest=digest,
        etag=headers.get("etag", ""),
        last_modified=headers.get("last-modified", ""),
        epoch=visit.job.epoch,
    )
    return Summary.row(document, fetched)


def _links(visit: Visit, document: Document) -> Sequence[str | Sequence[str]]:
    """The columns of the links: source, target, text, rel, kind."""
    targets, texts, rels, kinds = visit.targets, document.texts, document.rels, document.kinds
    if not targets:
        return visit.job.url, (), (), "", ""
    if any(not isinstance(each, str) and len(each) != len(targets) for each in (texts, rels, kinds)):
        texts, rels, kinds = document.columns()  # a plug-in's
    if None in targets:
        texts = list(compress(texts, targets))
        rels = rels if isinstance(rels, str) else list(compress(rels, targets))
        kinds = kinds if isinstance(kinds, str) else list(compress(kinds, targets))
    return visit.job.url, [target.url for target in targets if target is not None], texts, rels, kinds
