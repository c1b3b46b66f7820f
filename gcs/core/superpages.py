"""Superpage creation: a new expansion from what was seen in the old one. (003, section 5.2.)

With W visits in all, k gatherers and a parameter δ, a superpage should weigh about Δ = W / (kδ). At every
node, a hot token with at least Δ visits becomes a singleton, into which creation goes on; the rest, hot
tokens that are too light included, is cut into intervals of about Δ by evenly spaced tokens of the sample.

What goes beyond the paper, and why:
- Existing singletons count as hot tokens. One that has cooled is contracted, so that the number of superpages
  stays bounded while W grows.
- What exists stays while it weighs between Δ/2 and 2Δ: moving a boundary moves URLs between machines.
- A new singleton has no statistics of its own below it. A sample of whole keys gives them, so that one round
  goes as many levels deep as the sample supports.
- Nothing is spelt out below a depth of 64 steps. A site can make paths of a thousand segments, each of which
  would be a superpage with nearly nothing in it.
- Weight is conserved: the new superpages of a node weigh together what the node did.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from random import Random
from typing import Final

from gcs.core.sampling import Frequent, Sample
from gcs.core.tree import COOL_SAMPLE, Expansion, Node, Rate, Superpage
from gcs.core.urls import AFTER, next_step, steps

DELTA: Final = 20
DEEPEST: Final = 64
"""Steps to the deepest node."""
_LINKED: Final = 8
"""The links between two superpages are passed on to so many heirs of each, the largest, if there are more."""
Shares = dict[int, float]
"""How much weight comes from which superpage of the old expansion."""


@dataclass(frozen=True, slots=True)
class Creation:
    """The new expansion with its counts, and for each superpage the old ones it comes from, by weight.

    `queued` and `done` are the levels of the old superpages, as far as they belong to the new ones: what to
    plan by. The new expansion itself has levels of zero, to which those of the next round can be added.
    """

    expansion: Expansion
    sources: Sequence[Shares]
    queued: Sequence[float]
    done: Sequence[float]

    @property
    def weights(self) -> Sequence[float]:
        """Visits of each new superpage, as far as is known."""
        return self.expansion.visits


def create(expansion: Expansion, k: int, delta: float = DELTA, *, random: Random | None = None) -> Creation:
    """Make new superpages for k gatherers; the old expansion is not changed.

    `random` re-samples what is contracted; two runs with the same one give the same.
    """
    if k < 1 or delta <= 0:
        raise ValueError(f"superpages need at least one gatherer and a positive delta, not {k} and {delta}")
    total = expansion.total()
    if total <= 0:
        return _unchanged(expansion)
    builder = _Builder(expansion, total / (k * delta), Random(0) if random is None else random)
    return builder.carried(Expansion(builder.existing(expansion.root, 0)))


def _unchanged(expansion: Expansion) -> Creation:
    made = expansion.fresh()
    made.merge([expansion])
    queued, done = made.queued, made.done
    made.clear_levels()
    return Creation(made, [{number: 0.0} for number in range(len(made.superpages))], queued, done)


_Item = tuple[str, float, Shares]
"""Some weight at a token without a node of its own, and where it comes from, as parts that add up to one."""


@dataclass(slots=True, eq=False)
class _Builder:
    """One round of creation. Collects, per new node, what each of its intervals weighs and comes from."""

    old: Expansion
    target: float
    random: Random
    totals: Mapping[str, float] = field(init=False)
    own: Mapping[str, list[int]] = field(init=False)
    keys: list[str] = field(init=False)
    made: dict[str, list[Shares]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.totals = self.old.subtree_visits()
        self.keys = sorted(self.old.keys)
        own: defaultdict[str, list[int]] = defaultdict(list)
        for number, page in enumerate(self.old.superpages):
            own[page.prefix].append(number)
        self.own = own

    def existing(self, node: Node, depth: int) -> Node:
        """The new form of a node that was spelt out already."""
        counts = {step: self.totals[node.children[step].prefix] for step in sorted(node.children)}
        least = self.target if depth < DEEPEST else math.inf
        kept = [step for step, count in counts.items() if count >= least / 2]
        contracted = {step: count for step, count in counts.items() if count < least / 2}
        risen = {s: c for s, c in sorted(node.hot.counts.items()) if c >= least and s}
        new = Node(node.prefix)
        new.hot, new.sample = self._cooled(node, risen, contracted)
        items = self._items(node, risen, contracted)
        self._cut(new, node.cuts, items)
        new.children = {step: self.existing(node.children[step], depth + 1) for step in kept}
        for step, count in risen.items():
            source = self._interval(node, step)
            new.children[step] = self.imagined(node.prefix + step, depth + 1, count, {source: 1.0})
        return new

    def imagined(self, prefix: str, depth: int, count: float, source: Shares) -> Node:
        """A node that is new: what is below it is known from the sample of whole keys alone."""
        keys = self.keys[
            bisect.bisect_left(self.keys, prefix) : bisect.bisect_left(self.keys, prefix + AFTER)
        ]
        seen = [next_step(k, len(prefix)) for k in keys]
        scale = count / len(keys) if keys else 0.0
        least = self.target if depth < DEEPEST else math.inf
        risen = {s: n * scale for s, n in Counter(seen).items() if s and n > 1 and n * scale >= least}
        new = Node(prefix)
        left = max(0.0, count - sum(risen.values()))
        rest = [step for step in seen if step not in risen]
        new.sample = Sample.standing_for(rest, int(left), COOL_SAMPLE, self.random)
        share = left / len(rest) if rest else left
        self._cut(new, (), [(step, share, source) for step in rest or ("",)])
        for step, weight in risen.items():
            new.children[step] = self.imagined(prefix + step, depth + 1, weight, source)
        return new

    def _interval(self, node: Node, step: str) -> int:
        """The old superpage into which a token of a node fell."""
        return self.own[node.prefix][bisect.bisect_right(node.cuts, step)]

    def _items(self, node: Node, risen: Mapping[str, float], contracted: Mapping[str, float]) -> list[_Item]:
        """The weight that is left to be cut, old interval by old interval, so that each is conserved."""
        numbers = self.own[node.prefix]
        found: list[list[tuple[str, float]]] = [[] for _ in numbers]
        sampled: list[list[tuple[str, float]]] = [[] for _ in numbers]
        left = [self.old.visits[n] for n in numbers]
        find, cuts = bisect.bisect_right, node.cuts
        for step, count in node.hot.counts.items():
            place = find(cuts, step)
            left[place] -= count
            if step not in risen:
                found[place].append((step, count))
        uncounted = self._uncounted(node)
        for step in node.sample:
            part = uncounted if step in node.hot.counts else 1.0
            if part and step not in risen:
                sampled[find(cuts, step)].append((step, part))
        items: list[_Item] = []
        for place, number in enumerate(numbers):
            rest = max(0.0, left[place])
            parts = sum(part for _, part in sampled[place])
            found[place] += [(step, rest * part / parts) for step, part in sampled[place]]
            if not found[place]:
                found[place].append((cuts[place - 1] if place else "", rest))
            weight = sum(w for _, w in found[place])
            gone = sum(c for s, c in risen.items() if find(cuts, s) == place) if risen else 0.0
            correct = max(0.0, self.old.visits[number] - gone) / weight if weight else 0.0
            source = {number: 1.0}
            items += [(step, w * correct, source) for step, w in found[place]]
        items += [(s, c, self._below(node.prefix + s)) for s, c in contracted.items()]
        return items

    def _uncounted(self, node: Node) -> float:
        """The part of a node's visits from before its table of hot tokens: those of its time in a sample."""
        visits = sum(self.old.visits[number] for number in self.own[node.prefix])
        return max(0.0, 1 - node.hot.total / visits) if visits else 0.0

    def _below(self, prefix: str) -> Shares:
        """The parts of what the old expansion had at or below a node."""
        pages = self.old.superpages  # which are in the order of their prefixes
        first = bisect.bisect_left(pages, prefix, key=_prefix)
        last = bisect.bisect_left(pages, prefix + AFTER, key=_prefix)
        total = self.totals[prefix] or 1.0
        return {number: self.old.visits[number] / total for number in range(first, last)}

    def _cooled(
        self, node: Node, risen: Mapping[str, float], contracted: Mapping[str, float]
    ) -> tuple[Frequent, Sample]:
        """A node's statistics without the tokens that got nodes and with those that lost theirs."""
        hot = Frequent(node.hot.capacity, dict(node.hot.counts), node.hot.total, node.hot.error)
        gone = sum(hot.pop(step) for step in risen)
        sample = node.sample.without(risen.keys(), gone)
        for step, count in contracted.items():
            hot.add_repeated(step, int(count))
            sample.add_repeated(step, int(count), self.random)
        return hot, sample

    def _cut(self, node: Node, old: Sequence[str], items: list[_Item]) -> None:
        """Choose the cuts of a node, and note what each interval weighs and comes from."""
        items.sort(key=_step)
        steps = [step for step, _, _ in items]
        cumulated = [0.0, *itertools.accumulate([weight for _, weight, _ in items])]
        node.cuts = tuple(_choose_cuts(steps, cumulated, old, self.target))
        ends = [*[bisect.bisect_left(steps, cut) for cut in node.cuts], len(steps)]
        shares: list[Shares] = []
        first = 0
        for last in ends:
            into: defaultdict[int, float] = defaultdict(float)
            for _, weight, source in items[first:last]:
                for number, part in source.items():
                    into[number] += weight * part
            shares.append(into)
            first = last
        self.made[node.prefix] = shares

    def carried(self, made: Expansion) -> Creation:
        """Give the new superpages what belongs to them of the old ones' statistics, by their shares."""
        sources: list[Shares] = []
        for node in made.nodes():
            sources += self.made[node.prefix]
        made.visits = [sum(shares.values()) for shares in sources]
        old = self.old.keys
        made.keys = Sample.restore(old.capacity, old.total, old.limit, old.ranked())
        heirs = self._heirs(made, sources)
        queued, done = ([0.0] * len(sources) for _ in range(2))
        for source, inherited in heirs.items():
            for number, share in inherited:
                queued[number] += self.old.queued[source] * share
                done[number] += self.old.done[source] * share
        self._carry_rates(made, heirs)
        self._carry_links(made, heirs)
        return Creation(made, sources, queued, done)

    def _heirs(self, made: Expansion, sources: Sequence[Shares]) -> defaultdict[int, list[tuple[int, float]]]:
        """For each old superpage, the new ones that have a part of it, and which part."""
        heirs: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
        for number, shares in enumerate(sources):
            for source, weight in shares.items():
                if weight > 0:
                    heirs[source].append((number, weight / self.old.visits[source]))
        for source, page in enumerate(self.old.superpages):
            if source not in heirs:  # never visited, so its place alone says who inherits
                heirs[source].append((made.index[_place(made.root, page)], 1.0))
        return heirs

    def _carry_links(self, made: Expansion, heirs: Mapping[int, list[tuple[int, float]]]) -> None:
        """Links between two superpages are shared out among the heirs of both; those within one stay so."""
        largest = {source: _largest(inherited) for source, inherited in heirs.items()}
        for (a, b), count in self.old.links.items():
            if a == b:
                parts = [((i, i), share) for i, share in heirs[a]]
            else:
                few = len(heirs[a]) * len(heirs[b]) <= _LINKED**2
                ends = (heirs[a], heirs[b]) if few else (largest[a], largest[b])
                parts = [((i, j), part * other) for (i, part), (j, other) in itertools.product(*ends)]
            for pair, share in parts:
                made.links[pair] = made.links.get(pair, 0.0) + count * share

    def _carry_rates(self, made: Expansion, heirs: Mapping[int, list[tuple[int, float]]]) -> None:
        for gatherer, table in self.old.rates.items():
            for source, rate in table.items():
                for number, share in heirs[source]:
                    made.add_rate(gatherer, number, rate.pages * share, rate.seconds * share)
        for gatherer, rate in self.old.communication.items():
            made.communication[gatherer] = Rate(rate.pages, rate.seconds)


def _place(root: Node, page: Superpage) -> Superpage:
    """The superpage that lies where one of another expansion does, or begins."""
    node, low = root, page.low
    for step in steps(page.prefix):
        if step not in node.children:
            low = step
            break
        node = node.children[step]
    return list(node.intervals())[bisect.bisect_right(node.cuts, low)]


def _largest(heirs: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """A few heirs with the largest shares, who inherit all."""
    chosen = heapq.nlargest(_LINKED, heirs, key=itemgetter(1))
    scale = sum(share for _, share in heirs) / sum(share for _, share in chosen)
    return [(number, share * scale) for number, share in chosen]


def _choose_cuts(
    steps: Sequence[str], cumulated: Sequence[float], old: Sequence[str], target: float
) -> list[str]:
    """Cuts such that intervals weigh about `target`; an old interval of half to twice that stays as it is."""
    bounds = [0, *[bisect.bisect_left(steps, cut) for cut in old], len(steps)]
    runs: list[tuple[int, int]] = []
    for first, last in itertools.pairwise(bounds):
        weight = cumulated[last] - cumulated[first]
        if runs:
            before = cumulated[runs[-1][1]] - cumulated[runs[-1][0]]
            if min(before, weight) < target / 2 and before + weight <= 2 * target:
                runs[-1] = (runs[-1][0], last)
                continue
        runs.append((first, last))
    cuts: list[str] = []
    kept = {bisect.bisect_left(steps, cut): cut for cut in old}
    for first, last in runs:
        if first > 0:
            cuts.append(kept[first])
        weight = cumulated[last] - cumulated[first]
        pieces = math.ceil(weight / target) if weight > 2 * target or not old else 1
        for piece in range(1, pieces):
            wanted = cumulated[first] + weight * piece / pieces
            at = bisect.bisect_left(cumulated, wanted, first, last)
            if first < at < last:
                cuts.append(steps[at])
    lowest = steps[0] if steps else ""
    return sorted({cut for cut in cuts if cut > lowest or cut in old} - {""})


def _step(item: _Item) -> str:
    return item[0]


def _prefix(page: Superpage) -> str:
    return page.prefix
