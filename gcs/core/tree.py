"""The expansion: the part of the URL tree that is spelt out, and what was seen in it.

A node of the expansion has children of two kinds (003, section 4.4). A *singleton* is one token with a node
of its own. All other tokens fall into *intervals*, runs of sibling tokens between cuts. Every node has at
least one interval, and the intervals of all nodes are the superpages: each URL is in exactly one, that of
the deepest node on its path, in the interval of its next token ("" for a URL that ends there).

Since keys are in tree order, all this is one flat list of boundaries: between two of them lies one
superpage (an interval that a singleton interrupts has several pieces), and `locate` is one bisect.

A gatherer counts in its own copy. `merge` adds copies up: exactly for counters, in distribution for samples.
"""

from __future__ import annotations

import bisect
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final

import msgpack

from gcs.core.sampling import Frequent, Sample
from gcs.core.urls import AFTER, Rejected, canonical, key, readable, steps

VERSION: Final = 1
HOT_TOKENS: Final = 200
COOL_SAMPLE: Final = 200
KEY_SAMPLE: Final = 4096

_STEP = re.compile(r"[\x01-\x04][^\x01-\x04]*")


@dataclass(frozen=True, slots=True)
class Superpage:
    """An interval of the children of a node: tokens from `low` to below `high` (None: to the last).

    Its identity is its range. Children that have nodes of their own are not in it.
    """

    prefix: str
    low: str = ""
    high: str | None = None

    @property
    def start(self) -> str:
        """The first key that can be in it."""
        return self.prefix + self.low

    def __str__(self) -> str:
        where = readable(self.prefix)
        if not self.low and self.high is None:
            return where
        high = "" if self.high is None else readable(self.high)
        return f"{where} [{readable(self.low) if self.low else ''} … {high})"


@dataclass(slots=True)
class Rate:
    """Pages fetched and summarised, and the seconds that took."""

    pages: float = 0.0
    seconds: float = 0.0

    def add(self, pages: float, seconds: float) -> None:
        """Count more of both."""
        self.pages += pages
        self.seconds += seconds

    @property
    def per_second(self) -> float | None:
        """Pages per second; None when nothing was observed."""
        return self.pages / self.seconds if self.seconds > 0 else None


@dataclass(slots=True, eq=False)
class Node:
    """A node that is spelt out: its singleton children, its cuts, and what was seen of its other tokens."""

    prefix: str
    children: dict[str, Node] = field(default_factory=dict)
    cuts: tuple[str, ...] = ()
    hot: Frequent = field(default_factory=lambda: Frequent(HOT_TOKENS))
    sample: Sample = field(default_factory=lambda: Sample(COOL_SAMPLE))

    def intervals(self) -> Iterator[Superpage]:
        """Its own superpages, in order."""
        lows: tuple[str, ...] = ("", *self.cuts)
        highs: tuple[str | None, ...] = (*self.cuts, None)
        for low, high in zip(lows, highs, strict=True):
            yield Superpage(self.prefix, low, high)

    def walk(self) -> Iterator[Node]:
        """This node and all below it, in the order of the tree."""
        yield self
        for step in sorted(self.children):
            yield from self.children[step].walk()


class Expansion:
    """A tree of nodes, its superpages, and the statistics of both."""

    def __init__(self, root: Node | None = None) -> None:
        self.root = Node("") if root is None else root
        self.superpages: list[Superpage] = []
        self._nodes: list[Node] = []
        self._starts: list[str] = []
        self._segments: list[int] = []
        self._lay_out()
        count = len(self.superpages)
        self.index = {page: i for i, page in enumerate(self.superpages)}
        self.visits: list[float] = [0] * count
        self.queued: list[float] = [0] * count
        self.done: list[float] = [0] * count
        self.links: dict[tuple[int, int], float] = {}
        self.rates: defaultdict[str, dict[int, Rate]] = defaultdict(dict)
        self.communication: defaultdict[str, Rate] = defaultdict(Rate)
        self.keys = Sample(KEY_SAMPLE)

    # Where things are

    def locate(self, key: str) -> Superpage:
        """The superpage of a key."""
        return self.superpages[self._segments[bisect.bisect_right(self._starts, key) - 1]]

    def locate_index(self, key: str) -> int:
        """The number of the superpage of a key."""
        return self._segments[bisect.bisect_right(self._starts, key) - 1]

    def boundaries(self) -> list[tuple[str, int]]:
        """The flat list: from each key on, up to the next, the superpage with this number."""
        return list(zip(self._starts, self._segments, strict=True))

    def nodes(self) -> list[Node]:
        """All nodes, in the order of the tree: parents first."""
        return list(self.root.walk())

    def node_of(self, number: int) -> Node:
        """The node whose interval a superpage is."""
        return self._nodes[number]

    # What was seen

    def visit(self, key: str, random: Random) -> Superpage:
        """Count one URL, at its owner, when it is new."""
        self.visit_many((key,), random)
        return self.locate(key)

    def visit_many(self, keys: Sequence[str], random: Random) -> None:
        """Count URLs, each once, at its owner, when it is new."""
        match, groups = _STEP.match, defaultdict[int, list[str]](list)
        for k, segment in zip(keys, map(partial(bisect.bisect_right, self._starts), keys), strict=True):
            groups[segment].append(k)
        for segment, group in groups.items():
            number = self._segments[segment - 1]
            node = self._nodes[number]
            at = len(node.prefix)
            seen = [found.group() if (found := match(k, at)) else "" for k in group]
            self.visits[number] += len(seen)
            node.hot.add_many(seen)
            node.sample.add_many(seen, random)
        self.keys.add_many(keys, random)

    def total(self) -> float:
        """The weight of everything: W, the visits of the root."""
        return sum(self.visits)

    def subtree_visits(self) -> dict[str, float]:
        """Visits of each node: its own and those of all below it, by prefix."""
        own: defaultdict[str, float] = defaultdict(float)
        for page, count in zip(self.superpages, self.visits, strict=True):
            own[page.prefix] += count
        totals: dict[str, float] = {}
        for node in reversed(self.nodes()):
            totals[node.prefix] = own[node.prefix] + sum(totals[c.prefix] for c in node.children.values())
        return totals

    def add_links(self, source: int, targets: Mapping[int, int]) -> None:
        """Count hyperlinks from one superpage to others."""
        for target, count in targets.items():
            self.links[source, target] = self.links.get((source, target), 0) + count

    def add_rate(self, gatherer: str, number: int, pages: float, seconds: float) -> None:
        """Count what a gatherer has fetched of a superpage, and how long that took."""
        self.rates[gatherer].setdefault(number, Rate()).add(pages, seconds)

    def merge(self, others: Iterable[Expansion]) -> None:
        """Add what others have seen in the same expansion; raises ValueError for another one."""
        mine = self.nodes()
        for other in others:
            if other.superpages != self.superpages:
                raise ValueError("only copies of one expansion can be merged")
            for ours, theirs in zip(mine, other.nodes(), strict=True):
                ours.hot.merge(theirs.hot)
                ours.sample.merge(theirs.sample)
            self.visits = [a + b for a, b in zip(self.visits, other.visits, strict=True)]
            self.queued = [a + b for a, b in zip(self.queued, other.queued, strict=True)]
            self.done = [a + b for a, b in zip(self.done, other.done, strict=True)]
            for pair, count in other.links.items():
                self.links[pair] = self.links.get(pair, 0) + count
            self.keys.merge(other.keys)
            for gatherer, table in other.rates.items():
                for number, rate in table.items():
                    self.add_rate(gatherer, number, rate.pages, rate.seconds)
            for gatherer, rate in other.communication.items():
                self.communication[gatherer].add(rate.pages, rate.seconds)

    def fresh(self) -> Expansion:
        """The same expansion with nothing seen yet: what a gatherer counts in."""
        return Expansion(_copied(self.root))

    # In and out

    @classmethod
    def from_lines(cls, lines: Iterable[str]) -> Expansion:
        """An expansion from a user's list: URL prefixes to spell out, and cuts between siblings.

            http://www.ibm.com/docs/            a node for everything below
            http://www.ibm.com/docs/ | K | T    … whose children are cut before K and before T
            com | ibm | sun                     host labels, right to left, work too

        Raises ValueError with the line's number. Empty lines and those that begin with # are passed over.
        """
        root = Node("")
        for number, line in enumerate(lines, start=1):
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            where, *cuts = [part.strip() for part in text.split("|")]
            try:
                prefix, separator = _prefix_of(where)
            except Rejected as error:
                raise ValueError(f"line {number}: {error}") from None
            node = _spell_out(root, prefix)
            if any(not c for c in cuts):
                raise ValueError(f"line {number}: an empty cut")
            node.cuts = tuple(sorted({*node.cuts, *(separator + c for c in cuts)}))
        return cls(root)

    def to_bytes(self) -> bytes:
        """Everything, compactly, with a version."""
        nodes = [
            (
                n.prefix,
                n.cuts,
                (n.hot.capacity, n.hot.total, n.hot.error, n.hot.counts),
                (n.sample.capacity, n.sample.total, n.sample.ranked()),
            )
            for n in self.nodes()
        ]
        state = {
            "version": VERSION,
            "nodes": nodes,
            "visits": self.visits,
            "queued": self.queued,
            "done": self.done,
            "links": [(a, b, n) for (a, b), n in self.links.items()],
            "rates": {g: [(j, r.pages, r.seconds) for j, r in t.items()] for g, t in self.rates.items()},
            "communication": {g: (r.pages, r.seconds) for g, r in self.communication.items()},
            "keys": (self.keys.capacity, self.keys.total, self.keys.ranked()),
        }
        packed: bytes = msgpack.packb(state)
        return zlib.compress(packed, 1)

    @classmethod
    def from_bytes(cls, data: bytes) -> Expansion:
        """What `to_bytes` gave; raises ValueError for anything else or a newer version."""
        try:
            state: Any = msgpack.unpackb(zlib.decompress(data), use_list=False)
            version = state["version"]
        except (zlib.error, ValueError, TypeError, KeyError, msgpack.exceptions.UnpackException):
            raise ValueError("these are not the bytes of an expansion") from None
        if version != VERSION:
            raise ValueError(f"an expansion of version {version}; this program reads version {VERSION}")
        root = Node("")
        for prefix, cuts, hot, sample in state["nodes"]:
            node = _spell_out(root, prefix)
            node.cuts = cuts
            node.hot = Frequent(hot[0], dict(hot[3]), hot[1], hot[2])
            node.sample = Sample.restore(*sample)
        made = cls(root)
        made.visits, made.queued, made.done = (list(state[k]) for k in ("visits", "queued", "done"))
        made.links = {(a, b): n for a, b, n in state["links"]}
        for gatherer, table in state["rates"].items():
            for number, pages, seconds in table:
                made.add_rate(gatherer, number, pages, seconds)
        for gatherer, (pages, seconds) in state["communication"].items():
            made.communication[gatherer].add(pages, seconds)
        made.keys = Sample.restore(*state["keys"])
        return made

    # The flat list

    def _lay_out(self) -> None:
        """Number the superpages and write down where each begins, and begins again after a singleton."""
        pending: list[tuple[str, int]] = []
        self._lay_out_node(self.root, pending)
        for start, number in pending:
            if self._starts and self._starts[-1] == start:
                self._segments[-1] = number  # the piece before it is empty
            else:
                self._starts.append(start)
                self._segments.append(number)

    def _lay_out_node(self, node: Node, pieces: list[tuple[str, int]]) -> None:
        first = len(self.superpages)
        for page in node.intervals():
            self.superpages.append(page)
            self._nodes.append(node)
        pieces.append((node.prefix, first))
        number = first
        cuts = iter((*node.cuts, None))
        cut = next(cuts)
        for step in sorted(node.children):
            while cut is not None and cut <= step:
                number += 1
                pieces.append((node.prefix + cut, number))
                cut = next(cuts)
            self._lay_out_node(node.children[step], pieces)
            pieces.append((node.prefix + step + AFTER, number))
        while cut is not None:
            number += 1
            pieces.append((node.prefix + cut, number))
            cut = next(cuts)


def _copied(node: Node) -> Node:
    return Node(node.prefix, {step: _copied(child) for step, child in node.children.items()}, node.cuts)


def _spell_out(root: Node, prefix: str) -> Node:
    """The node of a prefix, made with all above it if need be."""
    node = root
    for step in steps(prefix):
        if step not in node.children:
            node.children[step] = Node(node.prefix + step)
        node = node.children[step]
    return node


def _prefix_of(where: str) -> tuple[str, str]:
    """The prefix that a user's line means, and the kind of step its children are."""
    if "://" not in where:
        labels = [label.strip().lower() for label in where.replace(",", ".").split(".") if label.strip()]
        return "".join("\x02" + label for label in labels), "\x02"
    return key(canonical(where)).removesuffix("\x04"), "\x04"
