"""Desks: pairs of spaces where bundles of URLs lie for those who fetch them, and answers for gatherers.

A site of helpers has URLTS and SummaryTS (003, section 7, figure 6). So has every gatherer, for pages that
others want it to try: those answers go to the desk of the gatherer that asked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Final, cast

import msgpack
import msgspec
from msgspec import Meta

import tuplespace
from gcs import spaces
from gcs.config import Config
from gcs.helper.papers import ANSWER, BUNDLE, KEY_BYTES, LONGEST_BYTES
from gcs.helper.sites import Access, Site
from tuplespace import Space, Tuple

URLS, SUMMARIES = KINDS = ("urls", "summaries")
"""URLTS and SummaryTS: how the two spaces of a desk are called."""
HELPER: Final = "helper"
AMONG_GATHERERS: Final = bytes(KEY_BYTES)
"""Seals what gatherers write to each other: only they can reach those spaces."""
PRESENT_S: Final = 15.0
"""A helper that says nothing for so long is not there any more."""
MOST_SLOTS: Final = 64
"""Bundles that one helper may serve at once."""
MOST_HELPERS: Final = 10_000
"""Of one desk; more cannot be."""
_URLS: Final = {BUNDLE: (1,)}
_SUMMARIES: Final = {ANSWER: (1,), HELPER: (1,)}


@dataclass(frozen=True, slots=True)
class Presence:
    """What a helper says of itself from time to time."""

    name: str
    slots: int
    """Bundles that it serves at once; 0 while it pauses."""
    pages: int = 0
    sentence: str = ""
    """How it is, in plain words."""


_Slots = Annotated[int, Meta(ge=0, le=MOST_SLOTS)]
_Pages = Annotated[int, Meta(ge=0, le=1 << 50)]
_Sentence = Annotated[str, Meta(max_length=200)]
_said: Final = msgspec.msgpack.Decoder(tuple[_Slots, _Pages, _Sentence])


class Desk:
    """One pair of spaces."""

    def __init__(self, client: tuplespace.Spaces, config: Config, name: str) -> None:
        self.name = name

        def space(kind: str, index: Mapping[str, Sequence[int]]) -> Space:
            return spaces.space(client, config, f"{kind}:{name}", index=index, max_read_bytes=LONGEST_BYTES)

        self.urls, self.summaries = space(URLS, _URLS), space(SUMMARIES, _SUMMARIES)

    async def say(self, presence: Presence) -> None:
        """Say that a helper is there."""
        data = msgpack.packb([min(presence.slots, MOST_SLOTS), presence.pages, presence.sentence[:200]])
        await self.summaries.out(HELPER, presence.name, data, ttl=PRESENT_S)
        # The newest counts; those before are not needed.
        while await self.summaries.count(HELPER, presence.name, bytes) > 1:
            await self.summaries.inp(HELPER, presence.name, bytes)

    async def leave(self, name: str) -> None:
        """A helper is not there any more."""
        while await self.summaries.inp(HELPER, name, bytes) is not None:
            pass

    async def present(self, name: str = "") -> list[Presence]:
        """The helpers that are there, or one of them; what cannot be understood is left out.

        Who shares a desk with nobody is asked for by name: one tuple, however many it has written.
        """
        if name:
            said = await self.summaries.rdp(HELPER, name, bytes)
            found = [] if said is None else [_presence(said)]
            return [each for each in found if each is not None]
        there: dict[str, Presence] = {}
        seen = 0
        async for said in self.summaries.scan(HELPER, str, bytes):
            seen += 1
            if seen > MOST_HELPERS:
                break
            if (presence := _presence(said)) is not None:
                there[presence.name] = presence
        return list(there.values())


def _presence(said: Tuple) -> Presence | None:
    """What a helper said of itself, if that can be understood."""
    _, name, data = said
    try:
        slots, pages, sentence = _said.decode(cast("bytes", data))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    shown = "".join(each for each in sentence if each.isprintable())
    return Presence(str(name), slots, pages, shown)


def of_gatherer(gatherer: str) -> str:
    """The name of the desk at which a gatherer works for others; no site can be called so."""
    return f"@{gatherer}"


def gatherer_of(desk: str) -> str:
    """Who works at a desk that `of_gatherer` gave; "" for a desk of helpers."""
    return desk[1:] if desk.startswith("@") else ""


OpenDesk = Callable[[str], Desk]


@asynccontextmanager
async def opened(config: Config, client: tuplespace.Spaces) -> AsyncIterator[OpenDesk]:
    """A function that gives the desk of a name, on the server of its site, always the same one."""
    async with AsyncExitStack() as stack:
        clients: dict[str, tuplespace.Spaces] = {}
        for site in map(Site.of, config.helpers.sites):
            if site.url:
                access = Access.to(site, config)
                clients[site.name] = await stack.enter_async_context(
                    spaces.connect_as(access, timeout_s=config.redis.timeout_s)
                )
        known: dict[str, Desk] = {}

        def desk(name: str) -> Desk:
            if name not in known:
                known[name] = Desk(clients.get(name.partition("/")[0], client), config, name)
            return known[name]

        yield desk
