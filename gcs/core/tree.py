"""The expansion: the part of the URL tree that is spelt out, and what was seen in it.

A node of the expansion has children of two kinds (003, section 4.4). A *singleton* is one token with a node
of its own. All other tokens fall into *intervals*, runs of sibling tokens between cuts. Every node has at
least one interval, and the intervals of all nodes are the superpages: each URL is in exactly one, that of
the deepest node on its path, in the interval of its next token ("" for a URL that ends there).

Since keys are in tree order, all this is one flat list of boundaries: between two of them lies one
superpage (an interval that a singleton interrupts has several pieces), and `locate` is one bisect.

A gatherer counts in its own copy. `merge` adds copies up: exactly for counters, in distribution for samples.

Visits, links and rates are counts: they grow from round to round. `queued` and `done` are *levels*, what the
owner of a superpage holds when it reports. Those of one round add up, for a superpage has one owner; those of
different rounds do not, so an expansion that goes from one round into the next begins with levels of zero.
"""

from __future__ import annotations

import bisect
import re
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import itemgetter
from random import Random
from typing import Any, Final, NamedTuple, TypeVar

import msgpack

from gcs.core.lines import understood
from gcs.core.sampling import Frequent, Sample
from gcs.core.urls import AFTER, Rejected, next_step, readable, steps

VERSION: Final = 2
HOT_TOKENS: Final = 200
COOL_SAMPLE: Final = 200
KEY_SAMPLE: Final = 4096

_STEP = re.compile(r"[\x01-\x04][^\x01-\x04]*")
_Value = TypeVar("_Value")
_WORDS: Final = frozenset({str})
_WHOLE: Final = frozenset({int})
_NUMBERS: Final = frozenset({int, float})


class Superpage(NamedTuple):
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
        low = ""
        for cut in self.cuts:
            yield Superpage(self.prefix, low, cut)
            low = cut
        yield Superpage(self.prefix, low)

    def walk(self) -> Iterator[Node]:
        """This node and all below it, in the order of the tree."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += [node.children[step] for step in sorted(node.children, reverse=True)]


class Expansion:
    """A tree of nodes, its superpages, and the statistics of both."""

    def __init__(self, root: Node | None = None) -> None:
        self.root = Node("") if root is None else root
        self._tree = list(self.root.walk())
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
        return list(self._tree)

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
        match, find = _STEP.match, partial(bisect.bisect_right, self._starts)
        for segment, neighbours in groupby(sorted(keys), find):
            number = self._segments[segment - 1]
            node = self._nodes[number]
            group, at = list(neighbours), len(node.prefix)
            self.visits[number] += len(group)
            if len(group) == 1:  # as is usual with few keys and many superpages
                step = next_step(group[0], at)
                node.hot.add(step)
                node.sample.add(step, random)
            else:
                seen = [found.group() if (found := match(k, at)) else "" for k in group]
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
        """Add what others have seen in the same expansion; raises ValueError for another one.

        Levels add up too, so this one's are zero when a round's first copies come (see `clear_levels`).
        """
        copies = list(others)
        if any(other.boundaries() != self.boundaries() for other in copies):
            raise ValueError("only copies of one expansion can be merged")
        for ours, *theirs in zip(self.nodes(), *(other.nodes() for other in copies), strict=True):
            seen = [node for node in theirs if node.sample.total or node.hot.total]
            if seen:
                ours.hot.merge(*(node.hot for node in seen))
                ours.sample.merge(*(node.sample for node in seen))
        self.keys.merge(*(other.keys for other in copies))
        self.visits = _summed(each.visits for each in (self, *copies))
        self.queued = _summed(each.queued for each in (self, *copies))
        self.done = _summed(each.done for each in (self, *copies))
        for other in copies:
            for pair, count in other.links.items():
                self.links[pair] = self.links.get(pair, 0) + count
            for gatherer, table in other.rates.items():
                for number, rate in table.items():
                    self.add_rate(gatherer, number, rate.pages, rate.seconds)
            for gatherer, rate in other.communication.items():
                self.communication[gatherer].add(rate.pages, rate.seconds)

    def clear_levels(self) -> None:
        """Begin a round: nothing is known yet of what is queued and done in it."""
        self.queued = [0] * len(self.superpages)
        self.done = [0] * len(self.superpages)

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

        Prefixes and cuts take the form that canonical URLs have. A bar separates with spaces around it only.
        Raises ValueError with the line's number. Empty lines and those that begin with # are passed over.
        """
        root = Node("")
        for number, line in enumerate(lines, start=1):
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            try:
                prefix, cuts = understood(text)
            except Rejected as error:
                raise ValueError(f"line {number}: {error}") from None
            node = _spell_out(root, prefix)
            node.cuts = tuple(sorted({*node.cuts, *cuts}))
        return cls(root)

    def to_bytes(self) -> bytes:
        """Everything, compactly, with a version."""
        nodes = [
            (
                n.prefix,
                n.cuts,
                (n.hot.capacity, n.hot.total, n.hot.error, n.hot.counts),
                (n.sample.capacity, n.sample.total, n.sample.limit, n.sample.ranked()),
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
            "keys": (self.keys.capacity, self.keys.total, self.keys.limit, self.keys.ranked()),
        }
        packed: bytes = msgpack.packb(state)
        return zlib.compress(packed, 1)

    @classmethod
    def from_bytes(cls, data: bytes) -> Expansion:
        """What `to_bytes` gave; raises ValueError for anything else or another version."""
        try:
            state: Any = msgpack.unpackb(zlib.decompress(data), use_list=False)
            version = state["version"]
        except (zlib.error, ValueError, TypeError, KeyError, msgpack.exceptions.UnpackException):
            raise ValueError("these are not the bytes of an expansion") from None
        if version != VERSION:
            raise ValueError(f"an expansion of version {version}; this program reads version {VERSION}")
        try:
            return cls._restored(state)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            raise ValueError("these are the bytes of a damaged expansion") from None

    @classmethod
    def _restored(cls, state: Mapping[str, Any]) -> Expansion:
        """An expansion from its parts; raises whatever comes of parts that do not fit together."""
        root = Node("")
        for prefix, cuts, hot, sample in state["nodes"]:
            node = _spell_out(root, prefix)
            if node.prefix != prefix or (cuts != () and cuts != tuple(sorted({*_all(_WORDS, cuts)}))):
                raise ValueError("no node")
            node.cuts = cuts
            capacity, total, error, counts = hot
            _all(_WORDS, counts)
            _all(_WHOLE, (capacity, total, error, *counts.values()))
            node.hot = Frequent(capacity, dict(counts), total, error)
            node.sample = _sample(*sample)
        made = cls(root)
        count = len(made.superpages)
        made.visits, made.queued, made.done = (
            list(_all(_NUMBERS, state[name], count)) for name in ("visits", "queued", "done")
        )
        made.links = {(a, b): n for a, b, n in state["links"]}
        _all(_NUMBERS, made.links.values())
        for gatherer, table in state["rates"].items():
            for number, pages, seconds in table:
                made.add_rate(gatherer, number, pages, seconds)
        named = {*(end for pair in made.links for end in pair), *(n for t in made.rates.values() for n in t)}
        if not named <= set(range(count)):
            raise ValueError("no superpage")
        for gatherer, (pages, seconds) in state["communication"].items():
            made.communication[gatherer].add(pages, seconds)
        made.keys = _sample(*state["keys"])
        return made

    # The flat list

    def _lay_out(self) -> None:
        """Number the superpages and write down where each begins, and begins again after a singleton."""
        pieces: list[tuple[str, int]] = []
        for node in self._tree:
            first, prefix, cuts = len(self.superpages), node.prefix, node.cuts
            intervals = list(node.intervals())
            self.superpages += intervals
            self._nodes += [node] * len(intervals)
            pieces.append((prefix, first))
            pieces += [(prefix + cut, number) for number, cut in enumerate(cuts, start=first + 1)]
            pieces += [
                (prefix + step + AFTER, first + bisect.bisect_right(cuts, step)) for step in node.children
            ]
        # Sorting leaves a singleton after the cut at the same place, whose piece before it is empty.
        pieces.sort(key=itemgetter(0))
        for start, number in pieces:
            if self._starts and self._starts[-1] == start:
                self._segments[-1] = number
            else:
                self._starts.append(start)
                self._segments.append(number)


def _summed(columns: Iterable[Sequence[float]]) -> list[float]:
    return [sum(row) for row in zip(*columns, strict=True)]


def _copied(root: Node) -> Node:
    """The same nodes, with nothing seen."""
    copy = Node(root.prefix, cuts=root.cuts)
    waiting = [(root, copy)]
    while waiting:
        node, into = waiting.pop()
        for step, child in node.children.items():
            into.children[step] = Node(child.prefix, cuts=child.cuts)
            waiting.append((child, into.children[step]))
    return copy


def _spell_out(root: Node, prefix: str) -> Node:
    """The node of a prefix, made with all above it if need be."""
    node = root
    for step in steps(prefix):
        if step not in node.children:
            node.children[step] = Node(node.prefix + step)
        node = node.children[step]
    return node


def _sample(capacity: int, total: int, limit: float, ranked: Sequence[tuple[float, str]]) -> Sample:
    """A sample that was stored; raises for what is none."""
    _all(_WORDS, [value for _, value in ranked])
    _all(_WHOLE, (capacity, total))
    if len(ranked) > capacity:
        raise ValueError("no sample")
    return Sample.restore(capacity, total, float(limit), ranked)


def _all(kinds: Set[type], values: Collection[_Value], count: int | None = None) -> Collection[_Value]:
    """These values; raises if there is one of another type, or another number of them."""
    if not {*map(type, values)} <= kinds:
        raise TypeError("another type")
    if count is not None and len(values) != count:
        raise ValueError("another length")
    return values
