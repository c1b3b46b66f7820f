"""Word, Excel and PowerPoint until 2003: what their summary information says. Their text is not read."""

from __future__ import annotations

import io
from datetime import datetime
from typing import Final

import olefile

from gcs.summary.limits import Limits, Refused
from gcs.summary.plugins import Part
from gcs.summary.readers.saying import Said, document, split_keywords
from gcs.summary.records import Document

_FACTS: Final = {
    "author": "author",
    "modified_by": "last_saved_by",
    "created": "create_time",
    "modified": "last_saved_time",
    "subject": "subject",
    "pages": "num_pages",
    "words": "num_words",
    "slides": "slides",
    "company": "company",
    "application": "creating_application",
}
_SEALED: Final = ("EncryptedPackage", "EncryptionInfo", "EncryptedSummary")


def read(part: Part, _: Limits) -> Document:
    """What a file says of itself; raises Refused for one that is encrypted."""
    with olefile.OleFileIO(io.BytesIO(part.body)) as file:
        if any(file.exists(name) for name in _SEALED):
            raise Refused("encrypted")
        said = file.get_metadata()
        facts = {name: _shown(getattr(said, key, None)) for name, key in _FACTS.items()}
        streams = ["/".join(each) for each in file.listdir()]
    return document(
        part,
        Said(
            title=str(_shown(said.title)),
            description=str(_shown(said.comments)),
            keywords=split_keywords(str(_shown(said.keywords))),
            facts=facts | {"streams": streams},
        ),
    )


def _shown(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace").strip("\0 ")
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, int | str) else ""
