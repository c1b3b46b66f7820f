"""The expansion: its superpages, what it counts, merging and storing."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator
from functools import reduce
from operator import getitem
from random import Random
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcs.core.tree import Expansion, Node, Superpage
from gcs.core.urls import HOST, canonical, key, readable, steps

TOKEN = st.sampled_from(["", "a", "ab", "abc", "b", "ba", "c", "d", "dd", "z"])
KEYS = st.lists(
    st.builds(
        lambda labels, path: (
            "".join(HOST + (t or "x") for t in labels) + "\x01http" + "".join("\x04" + t for t in path)
        ),
        st.lists(TOKEN, min_size=1, max_size=3),
        st.lists(TOKEN, min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=60,
)


@st.composite
def expansions(draw: st.DrawFn) -> Expansion:
    """Some expansion of the tree that KEYS are in."""
    root = Node("")
    for one in draw(st.lists(KEYS.map(lambda ks: ks[0]), max_size=6)):
        node = root
        for step in steps(one)[: draw(st.integers(0, 4))]:
            node = node.children.setdefault(step, Node(node.prefix + step))
            node.cuts = tuple(
                sorted({*node.cuts, *(HOST + t for t in draw(st.lists(TOKEN, max_size=2)) if t)})
            )
    root.cuts = tuple(sorted({HOST + t for t in draw(st.lists(TOKEN, max_size=3)) if t}))
    return Expansion(root)


def by_walking(expansion: Expansion, one: str) -> Superpage:
    """The superpage of a key, found as the paper says: down the singletons, then into the interval."""
    node = expansion.root
    rest = steps(one)
    while rest and rest[0] in node.children:
        node = node.children[rest.pop(0)]
    token = rest[0] if rest else ""
    found = [p for p in node.intervals() if p.low <= token and (p.high is None or token < p.high)]
    assert len(found) == 1
    return found[0]


@given(expansions(), KEYS)
def test_one_bisect_finds_what_walking_the_tree_finds(expansion: Expansion, keys: list[str]) -> None:
    """Every key is in exactly one superpage, and the flat list of boundaries knows which."""
    for one in keys:
        assert expansion.locate(one) == by_walking(expansion, one)


@given(expansions())
def test_boundaries_ascend_and_cover_everything(expansion: Expansion) -> None:
    """The flat list begins at the smallest key, ascends, and names every superpage that is not empty."""
    starts = [start for start, _ in expansion.boundaries()]
    assert starts[0] == ""
    assert starts == sorted(set(starts))
    assert expansion.superpages == sorted(expansion.superpages, key=lambda p: (p.prefix, p.low))


@given(expansions(), st.lists(KEYS, min_size=1, max_size=4), st.integers())
def test_merging_adds_up(expansion: Expansion, streams: list[list[str]], seed: int) -> None:
    """Merged copies count exactly what one copy counts that saw everything."""
    random, one = Random(seed), expansion.fresh()
    copies = [expansion.fresh() for _ in streams]
    for number, (copy, stream) in enumerate(zip(copies, streams, strict=True)):
        for target in (copy, one):
            target.visit_many(stream, random)
            target.queued[0] += number
            target.done[-1] += 1
            target.add_links(0, {0: 2, len(target.superpages) - 1: number})
            target.add_rate(f"g{number % 2}", 0, 10, 2.5)
            target.communication["g0"].add(5, 1)
    merged = expansion.fresh()
    merged.merge(copies)
    for name in ("visits", "queued", "done", "links", "rates", "communication"):
        assert getattr(merged, name) == getattr(one, name), name
    assert merged.subtree_visits() == one.subtree_visits()
    assert merged.total() == sum(map(len, streams)) == merged.keys.total
    for ours, theirs in zip(merged.nodes(), one.nodes(), strict=True):
        assert ours.hot.counts == theirs.hot.counts  # nothing was forgotten: the tables have room
        assert ours.sample.total == theirs.sample.total
        assert Counter(ours.sample) == Counter(theirs.sample)


def test_a_merged_sample_is_that_of_the_concatenated_streams() -> None:
    """Each of 60 tokens, however unevenly spread over three gatherers, is equally often sampled."""
    keys = [f"{HOST}com{HOST}h{n:02}\x01http\x04" for n in range(60)]
    random, counts = Random(11), Counter[str]()
    for _ in range(1500):
        merged = Expansion()
        merged.root.sample.capacity = 12
        merged.keys.capacity = 12
        parts = [Expansion() for _ in range(3)]
        for part, (low, high) in zip(parts, ((0, 3), (3, 50), (50, 60)), strict=True):
            part.root.sample.capacity = part.keys.capacity = 12
            part.visit_many(keys[low:high], random)
        merged.merge(parts)
        counts.update(merged.keys)
    expected = 1500 * 12 / 60
    assert sum((counts[k] - expected) ** 2 / expected for k in keys) < 99  # 59 degrees of freedom, p = 0.001


def test_only_copies_can_be_merged() -> None:
    """Trees with other superpages are refused."""
    with pytest.raises(ValueError, match="copies of one expansion"):
        Expansion().merge([Expansion.from_lines(["com"])])


@given(expansions(), KEYS)
def test_storing_keeps_everything(expansion: Expansion, keys: list[str]) -> None:
    """An expansion that was stored and read again is the same in all its parts."""
    expansion.visit_many(keys, Random(1))
    expansion.add_links(0, {0: 3})
    expansion.add_rate("g", 0, 7, 2)
    expansion.communication["g"].add(1, 2)
    expansion.queued[0] = 2.5
    again = Expansion.from_bytes(expansion.to_bytes())
    assert again.superpages == expansion.superpages
    for name in ("visits", "queued", "done", "links", "rates", "communication"):
        assert getattr(again, name) == getattr(expansion, name), name
    assert sorted(again.keys.ranked()) == sorted(expansion.keys.ranked())
    for ours, theirs in zip(again.nodes(), expansion.nodes(), strict=True):
        assert (ours.hot, sorted(ours.sample.ranked())) == (theirs.hot, sorted(theirs.sample.ranked()))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"nonsense", "not the bytes"),
        (zlib.compress(msgpack.packb([1])), "not the bytes"),
        (zlib.compress(msgpack.packb({"version": 99})), "version 99"),
    ],
)
def test_other_bytes_are_refused(data: bytes, message: str) -> None:
    """Bytes that are no expansion, or one of another version, are refused with a sentence."""
    with pytest.raises(ValueError, match=message):
        Expansion.from_bytes(data)


def state_of(expansion: Expansion) -> dict[str, Any]:
    """What is in the bytes of an expansion."""
    state: dict[str, Any] = msgpack.unpackb(zlib.decompress(expansion.to_bytes()))
    return state


def parts(state: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all that is in a state, down to single numbers and words."""
    inside = state.items() if isinstance(state, dict) else enumerate(state) if isinstance(state, list) else ()
    for name, part in inside:
        yield (*where, name)
        yield from parts(part, (*where, name))


def everywhere() -> Expansion:
    """An expansion with something in each of its parts."""
    expansion = Expansion.from_lines(["com | m"])
    expansion.visit_many([key("http://ibm.com/"), key("http://sun.com/a")], Random(1))
    expansion.add_links(0, {1: 3})
    expansion.add_rate("g", 2, 7.0, 2.0)
    expansion.communication["g"].add(1.0, 2.0)
    return expansion


def test_damaged_bytes_are_refused() -> None:
    """Bytes in which any part, large or small, is not there are refused with a sentence."""
    for *path, last in parts(state_of(everywhere())):
        state = state_of(everywhere())
        reduce(getitem, path, state)[last] = None
        with pytest.raises(ValueError, match=r"damaged|version"):
            Expansion.from_bytes(zlib.compress(msgpack.packb(state)))


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("visits", [1, 2]),
        ("queued", [0] * 4),
        ("done", ["a", "b", "c"]),
        ("links", [(0, 3, 1)]),
        ("rates", {"g": [(3, 1.0, 1.0)]}),
        ("nodes", [("com", (), (1, 0, 0, {}), (1, 0, 1.0, []))]),
        ("nodes", [("", ("b", "a"), (1, 0, 0, {}), (1, 0, 1.0, []))]),
        ("keys", (1, 2, 1.0, [(0.1, "a"), (0.2, "b")])),
        ("keys", (1, 2, 1.0, [(0.1, 7)])),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(name: str, part: object) -> None:
    """Bytes of an expansion with other lengths, numbers or types than its tree has are refused."""
    state = state_of(everywhere()) | {name: part}
    with pytest.raises(ValueError, match="damaged"):
        Expansion.from_bytes(zlib.compress(msgpack.packb(state)))


def test_the_papers_intervals() -> None:
    """003's cuts (N, Kidsoft, H, creativelabs) make five intervals, in order once case is ignored."""
    expansion = Expansion.from_lines(["com | N | Kidsoft | H | creativelabs"])
    node = expansion.root.children[HOST + "com"]
    assert [c[1:] for c in node.cuts] == ["creativelabs", "h", "kidsoft", "n"]
    pages = [
        expansion.locate(key(f"http://{h}.com/")) for h in ("apple", "creativelabs", "ibm", "kidsoft", "sun")
    ]
    assert [node_page.low[1:] for node_page in pages] == ["", "creativelabs", "h", "kidsoft", "n"]
    assert len(set(pages)) == 5


def test_a_users_expansion() -> None:
    """A user's list of prefixes and cuts becomes an expansion."""
    expansion = Expansion.from_lines(
        ["# mine", "", "http://www.ibm.com/docs/ | K | T", "com.ibm", "http://www.ibm.com/docs/ | Z"]
    )
    docs = expansion.locate(key(canonical("http://www.ibm.com/docs/Moon")))
    assert (docs.low, docs.high) == ("\x04K", "\x04T")
    assert str(docs) == "com,ibm,www)http/docs [/K … /T)"
    assert str(expansion.locate(key("http://research.ibm.com/"))) == "com,ibm"
    assert expansion.locate(key("http://www.ibm.com/docs/Zoo")).start.endswith("\x04Z")


@pytest.mark.parametrize(
    ("line", "url", "where"),
    [
        ("com | IBM | Sun", "http://ibm.com/", "com [ibm … sun)"),
        ("de.bücher", "http://bücher.de/", "de,xn--bcher-kva"),
        ("de | bücher", "http://bücher.de/", "de [xn--bcher-kva … )"),
        ("192.0.2", "http://192.0.2.7/", "192,0,2"),
        ("http://a.com/ | é", "http://a.com/é", "com,a)http [/%C3%A9 … )"),
        ("http://a.com/x|y/ | K", "http://a.com/x|y/Z", "com,a)http/x|y [/K … )"),
        ("http://a.com/\t|\tK", "http://a.com/Z", "com,a)http [/K … )"),
        ("http://localhost:8080/", "http://localhost:8080/a", "localhost)http:8080"),
    ],
)
def test_a_users_words_take_canonical_form(line: str, url: str, where: str) -> None:
    """Prefixes and cuts are where the canonical forms of the URLs are that a user means by them."""
    page = Expansion.from_lines([line]).locate(key(canonical(url)))
    assert (readable(page.prefix), str(page)) == (where.partition(" ")[0], where)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("gopher://h/", "line 2: the scheme 'gopher'"),
        ("http://h/ | ", "line 2: an empty cut"),
        ("http://h/ | | a", "line 2: an empty cut"),
        ("http://h/ | a/b", "'a/b' is not one segment"),
        ("http://h/ | ..", "'..' is not one segment"),
        ("http://h/ | a\x02b", "a control character"),
        ("http://h/a\x7f", "a control character"),
        ("c\x01om", "a control character"),
        ("localhost:8080", "'localhost:8080' is not a label .* http://host:8080/"),
        ("com | a.b", "'a.b' is not a label"),
        ("com | a b", "'a b' is not a label"),
        ("com/docs", "'com/docs' is not a label"),
    ],
)
def test_a_users_mistakes_are_named(line: str, message: str) -> None:
    """A line that cannot be understood is named by its number."""
    with pytest.raises(ValueError, match=message):
        Expansion.from_lines(["com", line])


def test_visit_counts_where_it_locates() -> None:
    """One visit adds to its superpage, its node's tokens and the sample of keys."""
    expansion = Expansion.from_lines(["com"])
    page = expansion.visit(key("http://ibm.com/"), Random(1))
    number = expansion.index[page]
    assert expansion.visits[number] == 1
    assert expansion.node_of(number).hot.counts == {HOST + "ibm": 1}
    assert list(expansion.keys) == [key("http://ibm.com/")]


def test_rates() -> None:
    """A rate that was never observed is not zero but unknown."""
    expansion = Expansion()
    expansion.add_rate("g", 0, 10, 4)
    assert expansion.rates["g"][0].per_second == 2.5
    assert expansion.communication["g"].per_second is None
