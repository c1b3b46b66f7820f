"""What reading a body with all that is inside of it gives: its document, and a record of each member."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gcs.summary.records import Document


class Member(NamedTuple):
    """Something that was inside of a body; its links have gone over to the body's document."""

    url: str
    parent: str
    """The address of what it is in."""
    bytes: int
    digest: str
    links: int
    """How many it has."""
    document: Document


class Read(NamedTuple):
    """What a body says, and what all that is inside of it says."""

    document: Document
    members: Sequence[Member] = ()
