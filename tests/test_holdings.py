"""What gatherers hold: through any charters no key is fetched by two, and none is forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgpack
from hypothesis import given
from hypothesis import strategies as st

from gcs.core.holdings import NOBODY, Charter, Extent, Holdings, Made, Standing, facts
from gcs.core.placement import Plan
from gcs.core.rulings import ALL, FOR_GOOD, Rulings
from gcs.core.urls import key, part

IDS = ("a", "b", "c")
KEYS = [chr(number) for number in range(ord("d"), ord("p"))]


def plans() -> st.SearchStrategy[Plan]:
    """Any plan over a few keys."""
    return st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(IDS)), max_size=8).flatmap(
        lambda pieces: st.sampled_from(IDS).map(
            lambda first: Plan.of([("", first), *sorted(dict(pieces).items())])
        )
    )


def charter(epoch: int, owners: Plan, held: Mapping[str, Holdings]) -> Charter:
    """A charter over what all hold, as facts."""
    ranges = {each: [(p.start, p.end) for p in h.pieces(Standing.HELD)] for each, h in held.items()}
    return Charter(epoch, owners, facts(ranges), {each: each for each in IDS})


def hand_over(held: dict[str, Holdings], owners: Plan) -> None:
    """Let everything arrive that is on its way; a range is let go after it has arrived."""
    for sender in IDS:
        for piece in held[sender].pieces(Standing.LEAVING):
            place = (piece.start, piece.end)
            held[piece.peer] = held[piece.peer].arrived([(sender, place)], owners, piece.peer)
            held[sender] = held[sender].left([(place, piece.peer)])


@given(st.lists(plans(), min_size=1, max_size=5))
def test_every_key_is_fetched_by_its_owner_alone(several: list[Plan]) -> None:
    held = {each: Holdings() for each in IDS}
    for epoch, owners in enumerate(several, start=1):
        made = charter(epoch, owners, held)
        before = held
        held = {each: held[each].adopted(made, each) for each in IDS}
        for place in KEYS:
            fetching = [each for each in IDS if held[each].may_fetch(place)]
            assert fetching in ([], [owners.owner(place)])
            assert any(held[each].standing(place) is not Standing.FOREIGN for each in IDS)
        # Whoever adopts late fetches nothing that another one fetches already.
        for late in IDS:
            for place in KEYS:
                some = [each for each in IDS if (before if each == late else held)[each].may_fetch(place)]
                assert len(some) <= 1
        hand_over(held, owners)
        for each in IDS:
            assert not held[each].pieces(Standing.LEAVING, Standing.COMING)
            for place in KEYS:
                assert held[each].may_fetch(place) == (owners.owner(place) == each)


@given(plans(), plans(), st.sampled_from(IDS))
def test_a_loss_leaves_no_key_without_a_holder(first: Plan, second: Plan, lost: str) -> None:
    """Someone is lost in the middle of a hand-over; the others own everything after the next charter."""
    held = {each: Holdings().adopted(charter(1, first, {}), each) for each in IDS}
    made = charter(2, second, held)
    held = {each: held[each].adopted(made, each) for each in IDS if each != lost}
    heir = next(each for each in IDS if each != lost)
    owners = Plan.of((start, heir if owner == lost else owner) for start, owner in second)
    ranges = {
        each: [(p.start, p.end) for p in h.pieces(Standing.HELD, Standing.LEAVING, Standing.COMING)]
        for each, h in held.items()
    }
    third = Charter(3, owners, facts(ranges), {each: each for each in held}, departed=[lost])
    after = {each: h.adopted(third, each) for each, h in held.items()}
    for place in KEYS:
        standings = {each: h.standing(place) for each, h in after.items()}
        owner = owners.owner(place)
        assert standings[owner] in (Standing.HELD, Standing.COMING)
        if standings[owner] is Standing.COMING:
            assert any(each != owner and s is Standing.LEAVING for each, s in standings.items())


@given(plans(), plans())
def test_bytes_and_differences(one: Plan, two: Plan) -> None:
    first = Holdings().adopted(charter(1, one, {}), "a")
    second = first.adopted(charter(2, two, {"a": first}), "a")
    assert Holdings.from_bytes(second.to_bytes()) == second
    changed = first.differences(second)
    for place in KEYS:
        inside = any(start <= place and (end is None or place < end) for start, end in changed)
        same = next(p for p in first if p.start <= place and (p.end is None or place < p.end))[2:]
        other = next(p for p in second if p.start <= place and (p.end is None or place < p.end))[2:]
        assert inside == (same != other)


def test_a_charter_comes_back_from_its_bytes() -> None:
    owners = Plan.of([("", "a"), ("m", "b")])
    made = Charter(7, owners, Plan.of([("", NOBODY)]), {"a": "one", "b": "two"}, lost=[("", None)])
    made = replace(made, history=[Made(7, 1.5, "join", 2, 1, 30)])
    again = Charter.from_bytes(made.to_bytes())
    assert (again.epoch, list(again.owners), again.members) == (7, list(owners), {"a": "one", "b": "two"})
    assert list(again.lost) == [("", None)]
    assert again.history == made.history


def test_how_much_of_a_host() -> None:
    home = key("http://example.org/").partition("\x04")[0]
    whole = Holdings().adopted(Charter(1, Plan.of([("", "a")]), Plan.of([("", NOBODY)]), {}), "a")
    part = Holdings().adopted(
        Charter(1, Plan.of([("", "b"), (key("http://example.org/m"), "a")]), Plan.of([("", NOBODY)]), {}), "a"
    )
    assert (whole.extent(home), part.extent(home)) == (Extent.ALL, Extent.SOME)
    assert Holdings().extent(home) is Extent.NONE


class TestRulings:
    """What operators rule."""

    def test_pause(self) -> None:
        ruled = Rulings().pause("one", 1).pause(ALL, 2)
        assert ruled.is_paused("two")
        assert not ruled.resume(ALL, 3).is_paused("one")

    def test_rest_of_a_host_and_of_a_part(self) -> None:
        home = key("http://example.org/").partition("\x04")[0]
        host = home.partition("\x01")[0] + "\x01"
        ruled = Rulings().rest(host, 100.0, 1)
        assert ruled.extent(home, 99.0) is Extent.NONE
        assert ruled.extent(home, 100.0) is Extent.ALL
        assert ruled.ended(99.0, 100.0) == [part(host)]
        below = Rulings().rest(key("http://example.org/a/"), FOR_GOOD, 1)
        assert below.extent(home, 0.0) is Extent.SOME
        assert below.rests(key("http://example.org/a/b"), 1e12)
        assert not below.rests(key("http://example.org/b"), 1e12)

    def test_who_paused(self) -> None:
        """Who paused first is remembered until it is resumed."""
        ruled = Rulings().pause("one", 1, by="ann", at=5.0).pause("one", 2, by="bob", at=6.0).pause("two", 3)
        assert ruled.paused_by == {"one": ("ann", 5.0)}
        assert ruled.resume("one", 4).paused_by == {}
        assert ruled.resume(ALL, 4).paused_by == {}

    def test_delays(self) -> None:
        """A host's delay is ruled, and left to the configuration again."""
        ruled = Rulings().delay("x", 5.0, 1).delay("y", 6.0, 2).delay("x", 7.0, 3)
        assert ruled.delays == {"x": 7.0, "y": 6.0}
        assert ruled.delay("x", None, 4).delays == {"y": 6.0}

    def test_those_of_earlier_versions(self) -> None:
        """Rulings that say less are read as saying nothing more."""
        said = msgpack.unpackb(Rulings().pause("one", 3).to_bytes())
        for length in (6, 7, 8):
            assert Rulings.from_bytes(msgpack.packb(said[:length])) == Rulings().pause("one", 3)

    def test_bytes_and_lifting(self) -> None:
        ruled = Rulings().bar("x", 1).rest("y", 5.0, 2).pause("one", 3, by="ann", at=1.0).delay("z", 9.0, 4)
        assert Rulings.from_bytes(ruled.to_bytes()) == ruled
        assert ruled.lift("x", 4).lift("y", 5).barred == frozenset()
        assert Rulings.from_bytes(b"") == Rulings()
