"""Superpage creation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gcs.core.superpages import DEEPEST, create
from gcs.core.tree import Expansion
from gcs.core.urls import HOST, key, steps

STREAMS = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("xyz"), st.integers(0, 9)),
    min_size=1,
    max_size=400,
).map(lambda rows: [key(f"http://{h}.{t}.org/{n}/p") for h, t, n in rows])


def seen(keys: list[str], into: Expansion | None = None) -> Expansion:
    """An expansion in which these keys were visited."""
    expansion = Expansion() if into is None else into
    expansion.visit_many(keys, Random(1))
    return expansion


@settings(deadline=None)
@given(st.lists(STREAMS, min_size=1, max_size=4), st.integers(1, 8), st.integers(1, 20))
def test_weight_is_conserved(rounds: list[list[str]], k: int, delta: int) -> None:
    """However often superpages are made anew, they weigh together what was visited."""
    expansion, total = Expansion(), 0
    for keys in rounds:
        total += len(keys)
        copy = expansion.fresh()
        copy.visit_many(keys, Random(2))
        expansion.merge([copy])
        made = create(expansion, k, delta)
        assert sum(made.weights) == pytest.approx(total)
        for number, weight in enumerate(expansion.visits):
            inherited = sum(shares.get(number, 0.0) for shares in made.sources)
            assert inherited == pytest.approx(weight)
        assert min(made.weights) >= 0
        expansion = made.expansion
        for one in keys:
            assert expansion.locate(one) in expansion.index


@settings(deadline=None)
@given(STREAMS, st.integers(1, 6))
def test_counters_are_carried_over(keys: list[str], k: int) -> None:
    """Rates and links of the old superpages are all in the new ones, queue and finished work beside them."""
    expansion = seen(keys)
    expansion.queued[0], expansion.done[0] = 70.0, 30.0
    expansion.add_rate("g", 0, 100, 50)
    expansion.communication["g"].add(10, 5)
    expansion.add_links(0, {0: 40})
    creation = create(expansion, k)
    assert sum(creation.queued) == pytest.approx(70)
    assert sum(creation.done) == pytest.approx(30)
    made = creation.expansion
    assert not any(made.queued)
    assert not any(made.done)
    assert sum(made.links.values()) == pytest.approx(40)
    assert sum(r.pages for r in made.rates["g"].values()) == pytest.approx(100)
    assert made.rates["g"][next(iter(made.rates["g"]))].per_second == pytest.approx(2)
    assert made.communication["g"].per_second == 2
    assert sorted(made.keys.ranked()) == sorted(expansion.keys.ranked())


def test_by_hand() -> None:
    """Twelve visits, k = 2, δ = 2, so Δ = 3: `a` (6) is a singleton, b, c, d, e, f (6) are two intervals."""
    hosts = ["a"] * 6 + ["b", "b", "c", "d", "e", "f"]
    made = create(seen([f"{HOST}{h}" for h in hosts]), 2, 2).expansion
    assert set(made.root.children) == {HOST + "a"}
    assert made.root.cuts == (HOST + "d",)
    weights = {str(p): w for p, w in zip(made.superpages, made.visits, strict=True)}
    assert weights == {
        "(everything) [ … ,d)".replace("… ,", "… "): 3,
        "(everything) [d … )": 3,
        "a": 6,
    }


def test_one_round_goes_as_deep_as_the_sample() -> None:
    """One busy directory, five levels down, becomes a superpage of its own in the first round."""
    busy = [key(f"http://gcs.almaden.ibm.com/docs/slides/p{n}.html") for n in range(600)]
    rest = [key(f"http://h{n}.example.org/") for n in range(400)]
    made = create(seen(busy + rest), 4, 5).expansion
    deepest = made.locate(busy[0])
    assert deepest.prefix == "".join(steps(busy[0])[:-1])
    pages = {made.locate(k) for k in busy}
    assert len(pages) == 12  # 600 visits, Δ = 50


def test_what_has_cooled_is_contracted() -> None:
    """A singleton that no longer weighs Δ/2 gives its node up, and its weight stays where it was."""
    expansion = seen([key(f"http://old.org/{n}") for n in range(100)])
    expansion = create(expansion, 1, 4).expansion
    assert any(n.prefix.startswith(f"{HOST}org{HOST}old") for n in expansion.nodes())
    copy = expansion.fresh()
    copy.visit_many([key(f"http://h{n % 50}.com/{n}") for n in range(4000)], Random(3))
    expansion.merge([copy])
    made = create(expansion, 1, 4)
    assert not any(n.prefix.startswith(HOST + "org") for n in made.expansion.nodes())
    assert sum(made.weights) == pytest.approx(4100)
    assert made.expansion.root.hot.counts[HOST + "org"] == 100


def test_the_number_of_superpages_stays_bounded() -> None:
    """While the crawl grows twentyfold, the number of superpages does not."""
    random, expansion, counts = Random(5), Expansion(), []
    for _ in range(20):
        copy = expansion.fresh()
        hosts = random.choices(range(500), [1 / (h + 1) for h in range(500)], k=1000)
        copy.visit_many(
            [key(f"http://h{h}.com/d{random.randrange(20)}/{random.random()}") for h in hosts], random
        )
        expansion.merge([copy])
        expansion = create(expansion, 4).expansion
        counts.append(len(expansion.superpages))
    assert max(counts[5:]) < 3 * 4 * 20
    assert counts[-1] < 1.5 * counts[4]


def test_cuts_stay_while_they_fit() -> None:
    """More visits of the same kind leave every boundary where it is."""
    random = Random(6)
    keys = [key(f"http://h{random.randrange(300)}.com/") for _ in range(6000)]
    first = create(seen(keys[:3000]), 2, 8).expansion
    copy = first.fresh()
    copy.visit_many(keys[3000:], random)
    first.merge([copy])
    second = create(first, 2, 8).expansion
    kept = {p.start for p in first.superpages} & {p.start for p in second.superpages}
    assert len(kept) >= 0.9 * len(first.superpages)


def test_an_empty_crawl_keeps_its_expansion() -> None:
    """With nothing seen there is nothing to go by."""
    expansion = Expansion.from_lines(["com | m"])
    made = create(expansion, 3)
    assert made.expansion.superpages == expansion.superpages
    assert sum(made.weights) == 0


def test_no_weight_is_negative() -> None:
    """What is left of a node when its hot tokens are gone is never less than nothing, by rounding either."""
    expansion = Expansion.from_lines(["com"])
    made = create(seen([key(f"http://h{i % 5}.com/{i}") for i in range(5000)], expansion), 2)
    assert min(made.weights) >= 0


def test_without_visits_nothing_is_lost() -> None:
    """Queue, finished work, rates, communication and links are there after a creation without visits."""
    expansion = Expansion.from_lines(["com | m"])
    expansion.queued, expansion.done = [1, 2, 3], [4, 5, 6]
    expansion.add_rate("g", 1, 10, 5)
    expansion.communication["g"].add(6, 2)
    expansion.add_links(0, {1: 7})
    made = create(expansion, 3)
    assert (made.queued, made.done) == ([1, 2, 3], [4, 5, 6])
    assert made.sources == [{0: 0.0}, {1: 0.0}, {2: 0.0}]
    for name in ("rates", "communication", "links"):
        assert getattr(made.expansion, name) == getattr(expansion, name), name
    expansion.add_rate("g", 1, 10, 5)
    assert made.expansion.rates["g"][1].pages == 10


def test_a_cut_at_a_singleton_keeps_its_queue() -> None:
    """What waits in an interval without visits that begins at a singleton does not go to the singleton."""
    expansion = Expansion.from_lines(["com | ibm", "com.ibm"])
    expansion.visit_many([key(f"http://{h}.com/{n}") for h in ("a", "www.ibm") for n in range(50)], Random(1))
    waiting = expansion.locate_index(key("http://sun.com/"))
    assert expansion.visits[waiting] == 0
    expansion.queued[waiting] = 9
    made = create(expansion, 1, 2)
    assert f"{HOST}com{HOST}ibm" in {node.prefix for node in made.expansion.nodes()}
    assert made.queued[made.expansion.locate_index(key("http://sun.com/"))] == 9


def test_levels_do_not_add_up_over_rounds() -> None:
    """After many rounds with the same queue the leader plans for that queue, not for a multiple of it."""
    leader, keys = Expansion(), [key(f"http://h{n}.com/{n}") for n in range(200)]
    for _ in range(5):
        copies = [leader.fresh() for _ in range(2)]
        for copy, own in zip(copies, (keys[:100], keys[100:]), strict=True):
            copy.visit_many(own, Random(1))
            for one in own:
                copy.queued[copy.locate_index(one)] += 3
                copy.done[copy.locate_index(one)] += 1
        leader.merge(copies)
        made = create(leader, 2)
        assert sum(made.queued) == pytest.approx(600)
        assert sum(made.done) == pytest.approx(200)
        leader = made.expansion


def test_links_do_not_multiply() -> None:
    """One pair of superpages leaves 64 pairs of heirs at most, and no link is lost."""
    expansion = Expansion.from_lines(["com", "org"])
    hosts = [f"h{n:03}.{top}" for n in range(300) for top in ("com", "org")]
    expansion.visit_many([key(f"http://{h}/") for h in hosts], Random(1))
    com, org = (expansion.locate_index(key(f"http://h000.{top}/")) for top in ("com", "org"))
    expansion.add_links(com, {com: 500, org: 700})
    made = create(expansion, 10).expansion
    inside = {pair: count for pair, count in made.links.items() if pair[0] == pair[1]}
    assert len(made.superpages) > 150
    assert len(inside) > 70
    assert sum(inside.values()) == pytest.approx(500)
    assert len(made.links) - len(inside) <= 64
    assert sum(made.links.values()) == pytest.approx(1200)


@pytest.mark.parametrize("known", [False, True])
def test_depth_is_bounded(known: bool) -> None:
    """A path of two thousand segments is spelt out to a depth of 64 steps, whether it was before or not."""
    deep = "http://a.com" + "/" * 1900
    expansion = Expansion.from_lines([deep] if known else [])
    expansion.visit_many([key(f"{deep}{n}") for n in range(100)], Random(1))
    again = Expansion.from_bytes(expansion.fresh().to_bytes())
    assert again.superpages == expansion.superpages
    made = create(expansion, 2).expansion
    assert max(len(steps(node.prefix)) for node in made.nodes()) == DEEPEST
    assert made.total() == pytest.approx(100)
    assert len(made.superpages) < 2 * DEEPEST


def test_hot_tokens_of_new_singletons_are_counted_and_not_guessed() -> None:
    """Below a new singleton the table of hot tokens keeps its promise: it has counted all that it says."""
    keys = [key(f"http://h{n % 7}.com/{n}") for n in range(9000)]
    made = create(seen(keys), 2, 2).expansion
    com = made.root.children[HOST + "com"]
    assert (com.hot.total, com.hot.counts) == (0, {})
    assert len(com.cuts) > 0
    made.visit_many(keys, Random(2))
    for node in made.nodes():
        counted = sum(node.hot.counts.values())
        assert node.hot.total - node.hot.error * (node.hot.capacity + 1) <= counted <= node.hot.total


def test_what_came_before_the_hot_tokens_counts_where_it_was() -> None:
    """A token that was frequent before its node was made weighs what the sample says, though rare since.

    Before: `m` 400 times, and 400 other tokens once. Since: ten of all, `m` among them.
    """
    folder = "http://a.com/d"
    before = [key(f"{folder}/{'m' if n % 2 else f'a{n}'}/{n}") for n in range(800)]
    expansion = create(seen(before), 1, 1).expansion
    assert expansion.locate(before[0]).prefix == key(folder)
    expansion.visit_many([key(f"{folder}/{c}/x") for c in "abcdefghmz"], Random(2))
    made = create(expansion, 1, 6).expansion
    first, last = (made.locate_index(key(f"{folder}/{step}")) for step in ("a9", "m"))
    assert first < last
    weights = [w for page, w in zip(made.superpages, made.visits, strict=True) if page.prefix == key(folder)]
    assert sum(weights[: first - last]) == pytest.approx(400, rel=0.2)


CREATED = """
from random import Random
from gcs.core.superpages import create
from gcs.core.tree import Expansion
from gcs.core.urls import key
random, expansion = Random(1), Expansion()
for part in range(4):
    urls = [f"http://h{random.randrange(9)}.com/{part}d{random.randrange(3)}/{n}" for n in range(2000)]
    expansion.visit_many([key(url) for url in urls], random)
    expansion = create(expansion, 4, random=random).expansion
print(expansion.to_bytes().hex())
"""


def test_creation_is_the_same_in_every_process() -> None:
    """The same visits and the same random source give the same bytes, whatever the order of sets is."""
    made = {
        subprocess.run(
            [sys.executable, "-c", CREATED],
            cwd=Path(__file__).parent.parent,
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(made) == 1


@pytest.mark.parametrize(("k", "delta"), [(0, 20), (1, 0)])
def test_impossible_numbers_are_refused(k: int, delta: float) -> None:
    """At least one gatherer, and a positive δ."""
    with pytest.raises(ValueError, match="at least one gatherer"):
        create(Expansion(), k, delta)
