"""What a crawl does most often, compiled: `compiled` has it, if `is_compiled`.

To read the tags of pages and to look up what links mean was half of a crawl's work in Python. The C sources
beside this file do the same. Python stays the reference: whoever uses `compiled` has the same in Python, for
installations without a compiler, and tests hold that both give the same for the same bytes. With
`GCS_COMPILED=no` in the environment nothing compiled is used.

The bytes are those of strangers, so the C keeps to a few rules: every function gets where its bytes end and
compares before it reads; it goes forward only; sizes come from Python's objects, never from a page; and what
is rare or intricate (character references, heads, URLs that are not plain) is left to Python.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gcs.native import _compiled as compiled

NAMES: Final = frozenset(
    {
        "Lookup",
        "Memo",
        "Paragraphs",
        "links_in",
        "pack_columns",
        "repeated_in",
        "resolve_links",
        "shape_of",
        "spread_texts",
        "tags_in",
        "utf8_end",
    }
)
"""All that is used of it."""


def loaded() -> Any:
    """The compiled module; None if there is none, it is not to be used, or it is older than the rest."""
    if os.environ.get("GCS_COMPILED") == "no":
        return None
    try:
        from gcs.native import _compiled
    except ImportError:
        return None
    return _compiled if set(dir(_compiled)) >= NAMES else None


if not TYPE_CHECKING:
    compiled = loaded()

is_compiled: Final = bool(compiled)
"""Whether there is anything in `compiled`, which is None if not."""
