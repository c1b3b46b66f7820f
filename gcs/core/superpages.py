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
- Weight is conserved: the new superpages of a node weigh together what the node did.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from gcs.core.sampling import Frequent, Sample
from gcs.core.tree import COOL_SAMPLE, HOT_TOKENS, Expansion, Node, Rate, Superpage
from gcs.core.urls import AFTER, next_step

DELTA: Final = 20
Shares = dict[int, float]
"""How much weight comes from which superpage of the old expansion."""


@dataclass(frozen=True, slots=True)
class Creation:
    """The new expansion with its statistics, and for each superpage the old ones it comes from, by weight."""

    expansion: Expansion
    sources: Sequence[Shares]

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
        fresh = expansion.fresh()
        return Creation(fresh, [{i: 0.0} for i in range(len(fresh.superpages))])
    builder = _Builder(expansion, total / (k * delta), Random(0) if random is None else random)
    root = builder.existing(expansion.root)
    made = Expansion(root)
    return Creation(made, builder.carry(made))


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

    def existing(self, node: Node) -> Node:
        """The new form of a node that was spelt out already."""
        counts = {step: self.totals[child.prefix] for step, child in node.children.items()}
        kept = {step for step, count in counts.items() if count >= self.target / 2}
        risen = {s: c for s, c in node.hot.counts.items() if c >= self.target and s}
        contracted = {step: counts[step] for step in counts if step not in kept}
        new = Node(node.prefix)
        new.hot, new.sample = self._cooled(node, risen, contracted)
        items = self._items(node, risen, contracted)
        self._cut(new, node.cuts, items)
        new.children = {step: self.existing(node.children[step]) for step in kept}
        for step, count in risen.items():
            source = self._interval(node, step)
            new.children[step] = self.imagined(node.prefix + step, count, {source: 1.0})
        return new

    def imagined(self, prefix: str, count: float, source: Shares) -> Node:
        """A node that is new: what is below it is known from the sample of whole keys alone."""
        keys = self.keys[
            bisect.bisect_left(self.keys, prefix) : bisect.bisect_left(self.keys, prefix + AFTER)
        ]
        seen = [next_step(k, len(prefix)) for k in keys]
        scale = count / len(keys) if keys else 0.0
        counts = Counter(seen)
        risen = {step: n * scale for step, n in counts.items() if step and n > 1 and n * scale >= self.target}
        new = Node(prefix)
        left = count - sum(risen.values())
        rest = [step for step in seen if step not in risen]
        hot = Counter(rest).most_common(HOT_TOKENS)
        new.hot = Frequent(
            HOT_TOKENS, {s: int(n * scale) for s, n in hot if n > 1 and n * scale >= 1}, int(left)
        )
        new.sample = Sample.standing_for(rest, int(left), COOL_SAMPLE, self.random)
        share = left / len(rest) if rest else left
        self._cut(new, (), [(step, share, source) for step in rest or ("",)])
        for step, weight in risen.items():
            new.children[step] = self.imagined(prefix + step, weight, source)
        return new

    def _interval(self, node: Node, step: str) -> int:
        """The old superpage into which a token of a node fell."""
        return self.own[node.prefix][bisect.bisect_right(node.cuts, step)]

    def _items(self, node: Node, risen: Mapping[str, float], contracted: Mapping[str, float]) -> list[_Item]:
        """The weight that is left to be cut, old interval by old interval, so that each is conserved."""
        numbers = self.own[node.prefix]
        hot: list[list[tuple[str, float]]] = [[] for _ in numbers]
        cool: list[list[str]] = [[] for _ in numbers]
        left = [self.old.visits[n] for n in numbers]
        find, cuts = bisect.bisect_right, node.cuts
        for step, count in node.hot.counts.items():
            place = find(cuts, step)
            left[place] -= count
            if step not in risen:
                hot[place].append((step, count))
        for step in node.sample:
            if step not in node.hot.counts:
                cool[find(cuts, step)].append(step)
        items: list[_Item] = []
        for place, number in enumerate(numbers):
            rest = left[place]
            share = max(0.0, rest) / len(cool[place]) if cool[place] else 0.0
            found = [*hot[place], *((step, share) for step in cool[place])]
            if not found:
                low = cuts[place - 1] if place else ""
                found = [(low, max(0.0, rest))]
            weight = sum(w for _, w in found)
            gone = sum(c for s, c in risen.items() if find(cuts, s) == place) if risen else 0.0
            correct = max(0.0, self.old.visits[number] - gone) / weight if weight else 0.0
            source = {number: 1.0}
            items += [(step, w * correct, source) for step, w in found]
        items += [(s, c, self._below(node.prefix + s)) for s, c in contracted.items()]
        return items

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

    def carry(self, made: Expansion) -> list[Shares]:
        """Give the new superpages what belongs to them of the old ones' statistics, by their shares."""
        sources: list[Shares] = []
        for node in made.nodes():
            sources += self.made[node.prefix]
        made.visits = [sum(shares.values()) for shares in sources]
        heirs = self._heirs(made, sources)
        for source, inherited in heirs.items():
            for number, share in inherited:
                made.queued[number] += self.old.queued[source] * share
                made.done[number] += self.old.done[source] * share
        self._carry_rates(made, heirs)
        for (a, b), count in self.old.links.items():
            for (i, share_a), (j, share_b) in itertools.product(heirs[a], heirs[b]):
                made.links[i, j] = made.links.get((i, j), 0.0) + count * share_a * share_b
        made.keys = Sample.restore(self.old.keys.capacity, self.old.keys.total, self.old.keys.ranked())
        return sources

    def _heirs(self, made: Expansion, sources: Sequence[Shares]) -> defaultdict[int, list[tuple[int, float]]]:
        """For each old superpage, the new ones that have a part of it, and which part."""
        heirs: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
        for number, shares in enumerate(sources):
            for source, weight in shares.items():
                if weight > 0:
                    heirs[source].append((number, weight / self.old.visits[source]))
        for source, page in enumerate(self.old.superpages):
            if source not in heirs:  # never visited, so its place alone says who inherits
                heirs[source].append((made.locate_index(page.start), 1.0))
        return heirs

    def _carry_rates(self, made: Expansion, heirs: Mapping[int, list[tuple[int, float]]]) -> None:
        for gatherer, table in self.old.rates.items():
            for source, rate in table.items():
                for number, share in heirs[source]:
                    made.add_rate(gatherer, number, rate.pages * share, rate.seconds * share)
        for gatherer, rate in self.old.communication.items():
            made.communication[gatherer] = Rate(rate.pages, rate.seconds)


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
