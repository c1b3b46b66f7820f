"""What the tags that are few say about a page as a whole: its base, its canonical address, its requests."""

from __future__ import annotations

from collections.abc import Mapping

from gcs.summary.directives import NOTHING, leads_to_page, of_meta, refresh_target


class Head:
    """Collects `<meta>`, `<base>` and `<link>`, and says of each tag, frames included, which link it is.

    Of several that say the same thing the first counts, as in a browser; requests to crawlers add up.
    """

    __slots__ = ("base", "canonical", "description", "directives", "keywords", "refresh")

    def __init__(self) -> None:
        self.base = self.canonical = self.refresh = self.description = self.keywords = ""
        self.directives = NOTHING

    def add(self, name: str, attributes: Mapping[str, str | None]) -> tuple[str, str]:
        """Take in one tag; gives the kind and the target of the link that it is, or empty texts."""
        if name == "meta":
            return self._meta(attributes)
        if name == "base":
            self.base = self.base or (attributes.get("href") or "").strip()
            return "", ""
        if name != "link":
            return name, attributes.get("src") or ""
        rel, href = attributes.get("rel") or "", attributes.get("href") or ""
        if not href or not leads_to_page(rel):
            return "", ""
        if "canonical" in rel.lower().split():
            self.canonical = self.canonical or href.strip()
        return "link", href

    def _meta(self, attributes: Mapping[str, str | None]) -> tuple[str, str]:
        content = attributes.get("content") or ""
        name = (attributes.get("name") or attributes.get("property") or "").strip().lower()
        if name == "robots":
            self.directives |= of_meta(content)
        elif name in {"description", "og:description"}:
            self.description = self.description or content
        elif name == "keywords":
            self.keywords = self.keywords or content
        elif (attributes.get("http-equiv") or "").strip().lower() == "refresh" and not self.refresh:
            self.refresh = refresh_target(content)
            return "meta-refresh", self.refresh
        return "", ""
