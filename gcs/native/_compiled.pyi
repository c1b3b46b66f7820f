"""What the compiled module has; what a page writes is bytes where Python is to resolve references in it."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

Special = tuple[int, bytes, bytes]
"""A tag that Python looks at: its place among the links, its name, its attributes."""

def links_in(body: bytes, most: int, /) -> tuple[list[str | bytes | None], list[int], list[Special]]:
    """The links of a page without zeros, and None at the place of each tag of the head or a frame.

    The places of links that are bytes follow, then those tags. Of a page over 1 MiB ten times `most` tags are
    read, and one more.
    """

def tags_in(
    body: bytes, most: int, limit: int, /
) -> tuple[
    list[str | bytes | None],
    list[int],
    list[str | bytes],
    list[int],
    dict[int, str | bytes],
    list[tuple[int, str | bytes]],
    list[Special],
    bytes,
]:
    """Links and texts, each with the places where they are bytes; rels by place, headings, tags, the title.

    Texts are without tags, in single spaces and cut to `limit` characters, unless they are bytes: those are
    only without tags.
    """

class Paragraphs:
    """What is written in the paragraphs of a part of a page (`main`, `article`) or, for b"", of all of it.

    Of each so many bytes are looked at. They are without tags, in single spaces and cut to `limit`
    characters, unless they are bytes: those are only without tags.
    """

    start: int
    """Where the part begins, of which the paragraphs were gone through."""
    end: int
    asides: list[tuple[int, int]]
    """What was left out of it."""

    def __init__(self, body: bytes, part: bytes, looked_at: int, limit: int, /) -> None: ...
    def __iter__(self) -> Iterator[str | bytes]: ...

def pack_columns(columns: tuple[str | Sequence[str], ...], /) -> tuple[int, bytes] | None:
    """How many rows columns of texts are, and how `gcs.store.columns` packs them; None for unusual ones."""

def repeated_in(texts: list[str], /) -> list[int]:
    """The places of those texts that were there before."""

def spread_texts(joined: tuple[bytes, ...], rows: tuple[int, ...], /) -> tuple[int, bytes, bytes] | None:
    """A column of some pages, each packed as `pack_columns` does it, of so many rows each, as Arrow has it.

    How many texts there are, where each ends behind a first zero (32 bits each), and all of them; None for
    what was not packed so, or is too much for 32 bits.
    """

def utf8_end(body: bytes, /) -> int:
    """How many bytes are whole characters of UTF-8, if all but the beginning of one at the end are; or -1."""

def shape_of(content: bytes, path: bytes, /) -> bytes:
    """A page without its path and the targets of its links, and with every digit the same."""

class Memo:
    """What texts stand for: like a dictionary, but it keeps digests of the texts, keyed by 16 secret bytes.

    What is remembered must not lead back to it, for it is not known to the garbage collector.
    """

    def __init__(self, key: bytes, /) -> None: ...
    def get(self, name: str, default: object, /) -> Any: ...
    def __setitem__(self, name: str, value: object, /) -> None: ...
    def __len__(self) -> int: ...

class Lookup:
    """Saved queries by the signs of pages, as `gcs.core.profiles.ExpressedLookup` has them.

    It keeps digests of words, keyed by 16 secret bytes. What makes stems must not lead back to it, for it is
    not known to the garbage collector.
    """

    def __init__(
        self, key: bytes, signs: tuple[str, ...], stem: Callable[[str], str], most: int, /
    ) -> None: ...
    def add(self, needed: tuple[str, ...], anchors: dict[str, str], /) -> None: ...
    def look(
        self, fields: tuple[list[str], ...], signs: list[str], /
    ) -> tuple[list[list[str]], list[int]]: ...

def resolve_links(
    hrefs: Sequence[str],
    directory: str,
    relative: Memo,
    absolute: Memo,
    done: object,
    unusual: Callable[[str], object],
    learn: Callable[[bool, str, str], object],
    mean: Callable[[bool, str, str], object],
    settled: str,
    only_new: bool,
    /,
) -> list[Any]:
    """What links mean, by what is remembered; `unusual`, `learn` and `mean` are asked about the rest.

    With `only_new`, what stands for `done` is left out, and what has the attribute `settled` set, or is None,
    stands for it from then on.
    """
