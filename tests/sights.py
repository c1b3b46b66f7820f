"""A web with something to see: countries, languages and charsets, and titles that set traps.

Whoever shows a title as anything but text runs what is in it, and then OWNED is set in that page.
"""

from __future__ import annotations

import html
import tomllib
from functools import cache
from pathlib import Path
from typing import Final

_PLACES: Final = {
    "de": ("de", "Fahrplan"),
    "at": ("de", "Wanderwege"),
    "fr": ("fr", "Les horaires"),
    "jp": ("ja", "天気予報"),
    "it": ("it", "Le collezioni"),
    "br": ("pt", "As praias"),
    "uk": ("en", "Finding aids"),
    "au": ("en", "Tide tables"),
    "mx": ("es", "Los museos"),
    "se": ("sv", "Tidtabell"),
    "com": ("en", "News"),
    "org": ("en", "Handbook"),
}
"""By top level domain: a language, and what pages there are called."""
_NAMES: Final = ("www.library", "www.station", "archive.city")
HOSTS: Final = tuple(f"{name}.{place}" for name in _NAMES for place in _PLACES)
# Some say what they are, some say what they are not, some say nothing.
_DECLARED: Final = ('<meta charset="utf-8">', '<meta charset="utf-8">', '<meta charset="iso-8859-1">', "")
OWNED: Final = "owned"
_DEED: Final = f"document.documentElement.dataset.{OWNED}='1'"
_TRAPS: Final = (
    f'<img src=x onerror="{_DEED}">',
    f"<script>{_DEED}</script>",
    f'"><svg onload="{_DEED}">',
    f"javascript:{_DEED}",
)
_EVERY: Final = 6


@cache
def _text(language: str) -> str:
    said = tomllib.loads((Path(__file__).parent / "test_summary_languages.toml").read_text("utf-8"))
    return str(said[language]["text"])


def trap(page: int) -> str:
    """The title of a page that sets a trap."""
    return _TRAPS[page // _EVERY % len(_TRAPS)]


def write(page: int, links: str) -> bytes:
    """A page in the language of its host; one in six sets a trap."""
    language, title = _PLACES[HOSTS[page % len(HOSTS)].rpartition(".")[2]]
    shown = html.escape(trap(page) if page % _EVERY == 0 else f"{title} {page}")
    declared = _DECLARED[page // len(HOSTS) % len(_DECLARED)]
    return (
        f"<!DOCTYPE html><html><head>{declared}<title>{shown}</title></head>"
        f"<body><h1>{shown}</h1><p>{_text(language)}</p><p>{links}</p></body></html>"
    ).encode()
