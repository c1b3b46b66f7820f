"""From links as pages write them to the targets they mean.

A site's pages repeat the same links over and over, so what a link meant is remembered: per host for what is
relative, once for all for what is absolute. A link that was met before costs one look into a dictionary, and
the URL parser runs about once per distinct URL. What is remembered is bounded, in two generations: what was
not asked for since the last turn is forgotten at the next.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from enum import Enum, auto
from itertools import repeat
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, cast

import ada_url

from gcs.core.sources import NO_SOURCES, Reach
from gcs.core.urls import MAX_LENGTH, NO_CLEANING, PATH, Cleaning, Rejected, canonical, key
from gcs.native import compiled, is_compiled

if TYPE_CHECKING:
    from gcs.native._compiled import Memo

REMEMBERED: Final = 60_000
_SCHEME = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*:")
# Of these a browser makes something else than a name relative to the directory.
_NOT_PLAIN: Final = frozenset("?\\ \t\r\n\f")
# What a list of a source links to, where that is canonical as it is written.
_ENTRY = re.compile(r"\./[A-Za-z0-9_~!$&()*+,;=:@-][A-Za-z0-9._~!$&()*+,;=:@-]*/?").fullmatch
# These it leaves out wherever they are, and two slashes may meet.
_DROPPED: Final = frozenset("\t\r\n")


class Target:
    """A URL that may be crawled. Settled: the store has been told of it, or never will be.

    There are very many of them, and all but their URLs are asked for once: so that is not kept.
    """

    __slots__ = ("settled", "url")

    def __init__(self, url: str) -> None:
        self.url = url
        self.settled = False

    @property
    def key(self) -> str:
        """Its place in the order of everything."""
        return key(self.url)

    @property
    def host(self) -> str:
        """The part of its key that says which host it is on."""
        return self.key.partition(PATH)[0]

    def __repr__(self) -> str:
        return f"Target({self.url!r})"


class _Sign(Enum):
    MISS = auto()
    """What no look-up ever finds."""
    DONE = auto()
    """Instead of a target about which nothing is left to be decided, for those who want no others."""


_MISS: Final = _Sign.MISS
_DONE: Final = _Sign.DONE
_Known = Target | Literal[_Sign.DONE] | None
_Memo: TypeAlias = "dict[str, _Known] | Memo"
_KEY: Final = os.urandom(16)


def _memo() -> _Memo:
    return compiled.Memo(_KEY) if is_compiled else {}


class _Generation:
    """What links meant: relative ones by host, absolute ones, and every target by its URL."""

    __slots__ = ("absolute", "by_root", "size", "targets")

    def __init__(self) -> None:
        self.by_root: dict[str, _Memo] = {}
        self.absolute = _memo()
        self.targets: dict[str, Target] = {}
        self.size = 0


class _Place(NamedTuple):
    """Where links stand: the page by its canonical URL, and its site and directory, to which they relate."""

    page: str
    root: str
    directory: str


class Targets:
    """All targets that are remembered, and the way to them."""

    def __init__(
        self, cleaning: Cleaning = NO_CLEANING, *, remembered: int = REMEMBERED, reach: Reach = NO_SOURCES
    ) -> None:
        """`reach` is how far links of other sources than the web may lead; web pages cannot lead to those."""
        self._cleaning, self._reach = cleaning, reach
        self._generation = remembered
        self._young, self._old = _Generation(), _Generation()

    @property
    def remembered(self) -> int:
        """How many links and targets are remembered, of both generations."""
        return self._young.size + self._old.size

    def forget(self) -> None:
        """Forget what links meant, and which targets are settled."""
        self._young, self._old = _Generation(), _Generation()

    def of(self, url: str) -> Target:
        """The target of an absolute URL; raises Rejected with the reason why it cannot be crawled."""
        return self._intern(canonical(url, self._cleaning))

    def seed(self, url: str) -> Target:
        """The same, of what somebody has named: also of a source, if the crawl has that."""
        target = self.of(url)
        if target.url[:4] != "http" and not self._reach.has(target.url):
            raise Rejected("no source in the section [sources] of the configuration has it")
        return target

    def resolve(
        self, page: str, hrefs: Sequence[str], base: str = "", *, unsettled: bool = False
    ) -> list[Target | None]:
        """What each link of a page means; None for what cannot be crawled. `page` is a canonical URL.

        With `unsettled` those are left out about which nothing has to be decided, as far as that is known.
        """
        if self._young.size > self._generation:
            self._old, self._young = self._young, _Generation()
        based = self._based(page, base) if base else page
        if page[:4] != "http":
            return self._resolve_in_source(page, based, hrefs)
        page = based
        slash = page.index("/", 8)
        root, path = page[:slash], page[slash:].partition("?")[0]
        at = _Place(page, root, path[: path.rindex("/") + 1])
        if root not in self._young.by_root:
            self._young.by_root[root] = _memo()
        resolve = self._resolve_compiled if is_compiled else self._resolve_expressed
        return resolve(at, hrefs, unsettled=unsettled)

    def _resolve_in_source(self, page: str, base: str, hrefs: Sequence[str]) -> list[Target | None]:
        """What links of a source mean, as far as they may lead from there, whatever it calls its base."""
        directory = base.partition("?")[0].rpartition("/")[0] + "/"
        is_within = directory[:4] != "http" and self._reach.follows(page, directory)
        found: list[Target | None] = []
        for href in hrefs:
            if is_within and _ENTRY(href) and len(directory) + len(href) <= MAX_LENGTH:
                found.append(self._intern(directory + href[2:]))
                continue
            try:
                url = canonical(ada_url.join_url(base, href), self._cleaning)
                found.append(self._intern(url) if self._reach.follows(page, url) else None)
            except ValueError:  # Rejected is one
                found.append(None)
        return found

    def _resolve_compiled(self, at: _Place, hrefs: Sequence[str], *, unsettled: bool) -> list[Target | None]:
        """By the compiled loop, which does the same as `_each`."""

        def learn(is_relative: bool, name: str, href: str) -> _Known:  # noqa: FBT001 - called from C
            memo, root = (relative, at.root) if is_relative else (absolute, "")
            return self._learn(memo, root, name, href, at.page)

        def mean(is_relative: bool, name: str, href: str) -> _Known:  # noqa: FBT001 - called from C
            return self._meant(at.root if is_relative else "", name, href, at.page)

        absolute, relative = self._young.absolute, self._young.by_root[at.root]
        return compiled.resolve_links(
            hrefs,
            at.directory,
            cast("Memo", relative),
            cast("Memo", absolute),
            _DONE,
            lambda href: self._unusual(href, at.page),
            learn,
            mean,
            "settled",
            unsettled,
        )

    def _resolve_expressed(self, at: _Place, hrefs: Sequence[str], *, unsettled: bool) -> list[Target | None]:
        """Most links are remembered as they are written; those are looked up all at once."""
        absolute = cast("dict[str, _Known]", self._young.absolute)
        relative = cast("dict[str, _Known]", self._young.by_root[at.root])
        known = list(map(relative.get, hrefs, map(absolute.get, hrefs, repeat(_MISS))))
        if unsettled:
            left = [href for href, meant in zip(hrefs, known, strict=True) if meant is not _DONE]
            return self._each(at, left, unsettled=True)
        left_at = [place for place, meant in enumerate(known) if meant is _MISS or meant is _DONE]
        for place, target in zip(left_at, self._each(at, [hrefs[place] for place in left_at]), strict=True):
            known[place] = target
        return known  # type: ignore[return-value]  # the signs were replaced

    def _each(self, at: _Place, hrefs: Iterable[str], *, unsettled: bool = False) -> list[Target | None]:
        """What links of a page mean, one after another. The loop is written out: it runs very often."""
        page, root, directory = at
        absolute, relative = self._young.absolute, self._young.by_root[root]
        found: list[Target | None] = []
        for href in hrefs:
            if "#" in href:
                href = href[: href.index("#")]  # noqa: PLW2901 - the same link, shorter
            first, name, memo = href[:1], href, relative
            if first == "/":
                pass
            elif first == "h" and href.startswith(("http://", "https://")):
                memo = absolute
            elif first and ":" not in href and first not in _NOT_PLAIN:
                name = _from_above(directory, href) if first == "." else directory + href
            else:
                found.append(self._unusual(href, page) if first else None)
                continue
            target = memo.get(name, _MISS)
            if target is _MISS:
                target = self._learn(memo, root if memo is relative else "", name, href, page)
            if target is _DONE:
                if unsettled:
                    continue  # it is in the processor's caches, where a target is not
                target = self._meant(root if memo is relative else "", name, href, page)
            elif unsettled and (target is None or target.settled):
                memo[name] = _DONE
            found.append(target)
        return found

    def _learn(self, memo: _Memo, root: str, name: str, href: str, page: str) -> _Known:
        """What a link means that this generation has not met; the last one may have."""
        old = self._old.by_root.get(root, {}) if root else self._old.absolute
        target = old.get(name, _MISS)
        if target is _MISS:
            target = self._meant(root, name, href, page)
        elif target is not None and target is not _DONE:
            target = self._young.targets.setdefault(target.url, target)
        memo[name] = target
        self._young.size += 1
        return target

    def _meant(self, root: str, name: str, href: str, page: str) -> Target | None:
        unusual = href.startswith(("//", "/\\")) or not _DROPPED.isdisjoint(href)
        return self._unusual(href, page) if unusual else self._of_or_none(root + name)

    def _of_or_none(self, url: str) -> Target | None:
        """What a link of a web page means; never something that is on no web server."""
        try:
            target = self.of(url)
        except Rejected:
            return None
        return target if target.url[:4] == "http" else None

    def _unusual(self, href: str, page: str) -> Target | None:
        """A link for which the standard's own rules of joining are needed."""
        if _SCHEME.match(href) and href.lstrip()[:4].lower() != "http":
            return None
        try:
            return self._of_or_none(ada_url.join_url(page, href))
        except ValueError:
            return None

    def _based(self, page: str, base: str) -> str:
        try:
            based = canonical(ada_url.join_url(page, base))
        except (ValueError, Rejected):
            return page
        # A web page must not make its links those of a file.
        return based if based[:4] == "http" or page[:4] != "http" else page

    def _intern(self, url: str) -> Target:
        target = self._young.targets.get(url)
        if target is None:
            target = self._old.targets.get(url) or Target(url)
            self._young.targets[url] = target
            self._young.size += 1
        return target


def _from_above(directory: str, href: str) -> str:
    """The path of a link that begins with dots, so that the links of all directories share their memory."""
    while href.startswith("."):
        if href.startswith("../"):
            directory, href = directory[: directory.rfind("/", 0, -1) + 1] or "/", href[3:]
        elif href.startswith("./"):
            href = href[2:]
        else:
            break
    return directory + href


def unsettled(targets: Sequence[Target | None]) -> list[Target]:
    """Those about which something has to be decided, each once and from now on settled."""
    fresh = list(dict.fromkeys([each for each in targets if each is not None and not each.settled]))
    for target in fresh:
        target.settled = True
    return fresh
