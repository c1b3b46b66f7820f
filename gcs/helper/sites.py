"""Sites of helpers, as the configuration names them.

At a *trusted* site all helpers wait at one desk, and whoever is free takes what lies there. At an *open* site
every helper has a desk of its own: it can neither see nor take what is meant for another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_OPEN: Final = ":open"


@dataclass(frozen=True, slots=True)
class Site:
    """A site as the configuration names it."""

    name: str
    is_open: bool
    url: str
    """Its own server; "" for the crawl's."""

    @classmethod
    def of(cls, text: str) -> Site:
        """The site that a text such as `office` or `volunteers:open@redis://host` names."""
        name, _, url = text.partition("@")
        return cls(name.removesuffix(_OPEN), name.endswith(_OPEN), url)

    def desk(self, helper: str) -> str:
        """The name of the desk at which a helper works."""
        return f"{self.name}/{helper}" if self.is_open else self.name
