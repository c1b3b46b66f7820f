"""What is kept of a visit: WARC records, rows of Parquet, a line of the log."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from datetime import UTC, datetime
from typing import Any, Final

from gcs import config
from gcs.core.urls import url
from gcs.fetch.outcome import Response
from gcs.gatherer.job import Visit
from gcs.store import warc
from gcs.store.records import Finished
from gcs.summary.records import Summary

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
        self._originals: OrderedDict[bytes, warc.Original] = OrderedDict()

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
        if isinstance(outcome, Response):
            made.digest = hashlib.sha1(outcome.raw, usedforsecurity=False).digest()
            if self._pages and visit.keep:
                made.records = self._builder.page(self._exchange(visit, outcome, made.digest))
            if self._summaries and visit.keep and visit.document is not None:
                made.summary = self._summary(visit, outcome, made.digest)
                made.links = self._links(visit)
        made.log = self._line(visit, made.digest)
        return made

    def _exchange(self, visit: Visit, response: Response, digest: bytes) -> warc.Exchange:
        queued = visit.job.queued
        metadata = {"via": url(queued.parent)} if queued.parent else {}
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
            payload_sha1=digest,
            metadata=metadata,
            original=self._original(visit, response, digest),
        )

    def _original(self, visit: Visit, response: Response, digest: bytes) -> warc.Original | None:
        """The page that has the same payload and was kept before, if it is remembered."""
        if len(response.raw) < _WORTH_A_REVISIT:
            return None
        found = self._originals.get(digest)
        if found is None:
            self._originals[digest] = warc.Original(visit.job.url, response.started)
            if len(self._originals) > _ORIGINALS:
                self._originals.popitem(last=False)
        return found

    def _summary(self, visit: Visit, response: Response, digest: bytes) -> dict[str, Any]:
        assert visit.document is not None
        queued, headers = visit.job.queued, response.headers
        return Summary.of(
            visit.document,
            url=visit.job.url,
            key=queued.key,
            parent=url(queued.parent) if queued.parent else "",
            via=queued.via,
            depth=queued.depth,
            status=visit.status,
            fetched_at=response.started,
            fetch_s=response.total_s,
            bytes=len(response.body),
            truncated=response.truncated,
            digest=f"sha1:{warc.base32(digest)}",
            etag=headers.get("etag", ""),
            last_modified=headers.get("last-modified", ""),
        ).to_row()

    def _links(self, visit: Visit) -> list[Any]:
        """The columns of the links: source, target, text, rel, kind."""
        assert visit.document is not None
        pairs = [(t.url, link) for t, link in zip(visit.targets, visit.document.links, strict=False) if t]
        texts, rels, kinds = ([link[i] for _, link in pairs] for i in (1, 2, 3))
        return [visit.job.url, [target for target, _ in pairs], texts, rels, kinds] if pairs else []

    def _line(self, visit: Visit, digest: bytes) -> bytes:
        """A line with the fields of Heritrix's crawl.log, so that tools for those logs read ours.

        When it ended, status, size, URL, the way on which it was discovered, the page that named it, media
        type, worker, when the fetch began and how many milliseconds it took, digest, crawl, annotations; "-"
        for what there is not. (Heritrix user manual, "crawl.log".)
        """
        outcome, queued, job = visit.outcome, visit.job.queued, visit.job
        size, began, kind = "-", "-", "no-type"
        if outcome is not None and outcome.started:
            began = f"{_stamp(outcome.started)}+{round(outcome.total_s * 1000)}"
        if isinstance(outcome, Response):
            size = str(len(outcome.head) + len(outcome.raw))
            kind = "".join(outcome.headers.get("content-type", "").partition(";")[0].split()) or kind
        notes = [visit.reason] if visit.reason else []
        if queued.attempts:
            notes.append(f"{queued.attempts + 1}t")
        if isinstance(outcome, Response) and outcome.truncated:
            notes.append(f"truncated:{outcome.truncated}")
        parent = url(queued.parent) if queued.parent else "-"
        hops = f"{_HOPS[queued.via]}{queued.depth}" if queued.via != "seed" else "-"
        mark = f"sha1:{warc.base32(digest)}" if digest else "-"
        return (
            f"{_instant(visit.at)} {visit.status:>5} {size:>10} {job.url} {hops} {parent} {kind} "
            f"#{visit.worker:03} {began} {mark} {self._crawl} {','.join(notes) or '-'}\n"
        ).encode("utf-8", "replace")


def _instant(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y%m%d%H%M%S%f")[:17]
