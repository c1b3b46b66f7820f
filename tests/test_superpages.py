"""Superpage creation."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gcs.core.superpages import create
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
    """Queue, finished work, rates and links of the old superpages are all in the new ones."""
    expansion = seen(keys)
    expansion.queued[0], expansion.done[0] = 70.0, 30.0
    expansion.add_rate("g", 0, 100, 50)
    expansion.communication["g"].add(10, 5)
    expansion.add_links(0, {0: 40})
    made = create(expansion, k).expansion
    assert sum(made.queued) == pytest.approx(70)
    assert sum(made.done) == pytest.approx(30)
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


@pytest.mark.parametrize(("k", "delta"), [(0, 20), (1, 0)])
def test_impossible_numbers_are_refused(k: int, delta: float) -> None:
    """At least one gatherer, and a positive δ."""
    with pytest.raises(ValueError, match="at least one gatherer"):
        create(Expansion(), k, delta)
