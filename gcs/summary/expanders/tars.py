"""TAR: its regular files. What is compressed around it was taken off before (`packed`)."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator

from gcs.summary.deep import unreadable
from gcs.summary.limits import Budget, Refused
from gcs.summary.plugins import Part


def expand(part: Part, budget: Budget) -> Iterator[Part]:
    """The files of an archive; raises Refused when it is cut off or damaged."""
    try:
        yield from _files(part, budget)
    except tarfile.TarError as error:
        raise Refused("truncated" if "unexpected end" in str(error) else f"damaged: {error}") from None


def _files(part: Part, budget: Budget) -> Iterator[Part]:
    with tarfile.open(fileobj=io.BytesIO(part.body), mode="r:") as archive:
        for info in archive:
            if not info.isreg():
                continue
            if info.issparse():
                yield unreadable(info.name, "a sparse file")
                continue
            if info.offset_data + info.size > len(part.body):
                raise Refused("truncated")
            if info.size > budget.limits.member_bytes:
                yield unreadable(info.name, "larger than a member may be")
                continue
            stream = archive.extractfile(info)
            data = None if stream is None else budget.read(stream)
            yield unreadable(info.name, "not readable") if data is None else Part(data, info.name, "")
        if archive.offset > len(part.body):
            raise Refused("truncated")
        # What `tarfile` cannot read it takes for the end.
        following = part.body[archive.offset : archive.offset + tarfile.BLOCKSIZE]
        if following.strip(b"\0"):
            is_cut = len(following) < tarfile.BLOCKSIZE
            raise Refused("truncated" if is_cut else "damaged: no file where one should begin")
