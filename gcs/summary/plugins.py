"""What others add to recognising, expanding and summarising, and how a failure of theirs is contained.

A plug-in is a plain function, found by an entry point of its distribution or given by hand:

    gcs.recognisers   any name        recogniser(content_type, url, body) -> media type, or "" for "not mine"
    gcs.expanders     a media type    expander(part) -> the parts inside of it
    gcs.summarisers   a media type    summariser(part) -> Document
    gcs.summarisers   a URL           the same, for what is below this URL, of any type; the longest wins

Invariant: a plug-in that raises, or returns what it should not, is reported to the logger and costs only its
own contribution: what follows is as if it were not there. (003, section 2: code for one location.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from gcs.core.urls import AFTER, PATH, Rejected, canonical, key
from gcs.summary.records import Document

RECOGNISERS: Final = "gcs.recognisers"
EXPANDERS: Final = "gcs.expanders"
SUMMARISERS: Final = "gcs.summarisers"

_T = TypeVar("_T")


class Logger(Protocol):
    """What a plug-in's failure is told to."""

    def warning(self, event: str, /, **facts: Any) -> Any:
        """Log one event."""


class Part(NamedTuple):
    """A body to be summarised: a whole page, or something that was inside of one."""

    body: bytes
    url: str
    media_type: str
    charset_label: str = ""
    level: str = "full"


Recogniser = Callable[[str, str, bytes], str]
Expander = Callable[[Part], Iterable[Part]]
Summariser = Callable[[Part], Document]


class _Silent:
    """A logger for those who do not want to know."""

    def warning(self, event: str, /, **facts: Any) -> None:
        """Nothing."""


@dataclass(frozen=True, slots=True)
class Plugins:
    """The plug-ins of a crawl; `sites` has the keys of subtrees of the URL tree, the longest first."""

    recognisers: tuple[Recogniser, ...] = ()
    expanders: Mapping[str, Expander] = field(default_factory=lambda: MappingProxyType({}))
    summarisers: Mapping[str, Summariser] = field(default_factory=lambda: MappingProxyType({}))
    sites: tuple[tuple[str, Summariser], ...] = ()
    logger: Logger = field(default_factory=_Silent)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.recognisers or self.expanders or self.summarisers or self.sites)

    def with_site(self, url: str, summariser: Summariser) -> Plugins:
        """These, and a summariser for what is at or below a URL; raises Rejected for no web address."""
        at = key(canonical(url)).removesuffix(PATH)
        sites = sorted((*self.sites, (at, summariser)), key=lambda site: len(site[0]), reverse=True)
        return replace(self, sites=tuple(sites))

    def summariser_for(self, url: str, media_type: str) -> Summariser | None:
        """The summariser of the site that a URL is in, else the one of the media type."""
        if self.sites:
            place = key(url)
            for at, summariser in self.sites:
                if place.startswith(at) and place[len(at) : len(at) + 1] < AFTER:
                    return summariser
        return self.summarisers.get(media_type)

    def call(self, what: str, url: str, kind: type[_T], function: Callable[[], object]) -> _T | None:
        """What a plug-in returns; None, and a line in the log, if it fails or returns another kind."""
        try:
            result = function()
        except Exception as error:  # noqa: BLE001 - the one place where foreign code may fail in any way
            self.logger.warning("plug-in failed", what=what, url=url, error=repr(error))
            return None
        if isinstance(result, kind):
            return result
        self.logger.warning("plug-in returned nonsense", what=what, url=url, type=type(result).__name__)
        return None


NONE: Final = Plugins()


def load(logger: Logger) -> Plugins:
    """The plug-ins that are installed; one that cannot be loaded is reported and left out."""
    plugins = Plugins(
        recognisers=tuple(_loaded(RECOGNISERS, logger).values()),
        expanders=MappingProxyType(_loaded(EXPANDERS, logger)),
        logger=logger,
    )
    summarisers = _loaded(SUMMARISERS, logger)
    by_type = {name: each for name, each in summarisers.items() if "://" not in name}
    plugins = replace(plugins, summarisers=MappingProxyType(by_type))
    for name in summarisers.keys() - by_type.keys():
        try:
            plugins = plugins.with_site(name, summarisers[name])
        except Rejected as error:
            logger.warning("plug-in left out", what=f"{SUMMARISERS} {name}", error=str(error))
    return plugins


def _loaded(group: str, logger: Logger) -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    for point in sorted(entry_points(group=group), key=_name):
        try:
            function = point.load()
        except Exception as error:  # noqa: BLE001 - importing foreign code may fail in any way
            logger.warning("plug-in left out", what=f"{group} {point.name}", error=repr(error))
            continue
        if callable(function):
            found[point.name] = function
        else:
            logger.warning("plug-in left out", what=f"{group} {point.name}", error="it cannot be called")
    return found


def _name(point: EntryPoint) -> str:
    return point.name
