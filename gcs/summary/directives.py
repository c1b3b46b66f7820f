"""What a page asks of crawlers: not to index it, not to follow its links, or to go elsewhere.

The words of `<meta name="robots">` and of the header `X-Robots-Tag` are the same; only the header may name
the crawler that is meant. Unknown words are nothing. `rel="nofollow"` on one link is no such request but says
that the link is no endorsement; it is kept with the link, at the level that keeps more than its target.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_REFRESH = re.compile(
    r"[\t\n\f\r ]*[0-9.]+[\t\n\f\r ]*[;,\t\n\f\r ][\t\n\f\r ;,]*"
    r"(?:url[\t\n\f\r ]*=[\t\n\f\r ]*)?+(?:\"([^\"]*)|'([^']*)|([^\t\n\f\r ].*))",
    re.IGNORECASE | re.DOTALL,
)
_PAGES = frozenset({"canonical", "next", "prev", "alternate"})
# Words of the header that have a colon of their own, so that what stands before it names no crawler.
_VALUED = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})


class Directives(NamedTuple):
    """What is asked of us."""

    noindex: bool = False
    nofollow: bool = False

    def __or__(self, other: object) -> Directives:
        """What either asks for."""
        if not isinstance(other, Directives):
            return NotImplemented
        return Directives(self.noindex or other.noindex, self.nofollow or other.nofollow)


NOTHING: Final = Directives()


def of_meta(content: str) -> Directives:
    """What the content of `<meta name="robots">` asks."""
    words = frozenset(content.lower().replace(",", " ").split())
    return Directives(not words.isdisjoint({"noindex", "none"}), not words.isdisjoint({"nofollow", "none"}))


def of_header(value: str, agent: str = "") -> Directives:
    """What an `X-Robots-Tag` header (several are joined by commas) asks of the crawler of this name."""
    asked, addressed = NOTHING, True
    for part in value.split(","):
        before, colon, rest = part.partition(":")
        name = before.strip().lower()
        names_a_crawler = bool(colon) and name not in _VALUED
        if names_a_crawler:
            addressed = name == "*" or (bool(agent) and name == agent.lower())
        if addressed:
            asked |= of_meta(rest if names_a_crawler else before)
    return asked


def refresh_target(content: str) -> str:
    """The URL in the content of `<meta http-equiv="refresh">`; "" for none."""
    found = _REFRESH.match(content)
    return next((each.strip() for each in found.groups() if each), "") if found else ""


def leads_to_page(rel: str) -> bool:
    """Whether a `<link>` of this rel leads to another page, and not to a style or an icon."""
    words = rel.lower().split()
    return not _PAGES.isdisjoint(words) and "stylesheet" not in words


def is_followed(rel: str) -> bool:
    """Whether those who respect it on single links may follow one of this rel: it does not say nofollow."""
    return "nofollow" not in rel.lower().split()
