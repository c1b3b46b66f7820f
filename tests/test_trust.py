"""Whom to believe."""

from __future__ import annotations

from random import Random

import msgpack
from hypothesis import given
from hypothesis import strategies as st

from gcs.core.trust import BARRED_AFTER, LEAST, NEW, SAMPLE, Telling, Trust, agree


def page(*links: str, status: int = 200, location: str = "", digest: bytes = b"d") -> Telling:
    return Telling(status, location, digest, frozenset(links))


def known() -> Trust:
    trust = Trust()
    for _ in range(NEW):
        trust.passed("h")
    return trust


class TestAgreement:
    @given(st.frozensets(st.text(max_size=3)), st.binary(max_size=2), st.integers(200, 599))
    def test_with_itself(self, links: frozenset[str], digest: bytes, status: int) -> None:
        telling = Telling(status, "", digest, links)
        assert agree(telling, telling)

    @given(*[st.tuples(st.integers(0, 2), st.sampled_from("ab"), st.binary(max_size=1))] * 2)
    def test_it_is_mutual(self, one: tuple[int, str, bytes], two: tuple[int, str, bytes]) -> None:
        a, b = (
            Telling(status, location, digest, frozenset(location)) for status, location, digest in (one, two)
        )
        assert agree(a, b) == agree(b, a)

    def test_status_and_place_have_to_be_the_same(self) -> None:
        assert not agree(page("a"), page("a", status=404))
        assert not agree(Telling(301, "/a", b"", None), Telling(301, "/b", b"", None))
        assert agree(Telling(301, "/a", b"x", None), Telling(301, "/a", b"y", None))

    def test_one_link_more_in_the_same_body_is_a_lie(self) -> None:
        assert not agree(page(*"abcdefghij"), page(*"abcdefghijk"))

    def test_in_another_body_most_links_have_to_be_the_same(self) -> None:
        assert agree(page(*"abcdefghij"), page(*"abcdefghijk", digest=b"e"))
        assert not agree(page(*"abc"), page(*"xyz", digest=b"e"))

    def test_a_page_is_not_something_else(self) -> None:
        assert not agree(page(), Telling(200, "", b"d", None))


class TestTrust:
    def test_all_that_a_new_one_says_is_checked(self) -> None:
        trust = Trust()
        for _ in range(NEW):
            assert trust.is_new("h")
            assert trust.to_check("h", [3, 4, 5, 6], Random(1)) == [3, 4, 5, 6]
            trust.passed("h")
        assert not trust.is_new("h")

    def test_it_is_checked_less_and_less_but_never_not_at_all(self) -> None:
        trust, seen = known(), []
        for _ in range(1000):
            seen.append(trust.probability("h"))
            trust.passed("h")
        assert seen == sorted(seen, reverse=True)
        assert seen[0] > 0.9
        assert seen[-1] == LEAST

    def test_a_check_is_a_sample(self) -> None:
        trust, random = known(), Random(1)
        checks = [trust.to_check("h", range(20), random) for _ in range(100)]
        assert {len(each) for each in checks} == {0, SAMPLE}
        assert len({tuple(each) for each in checks}) > 20

    def test_one_wrong_answer_resets(self) -> None:
        trust = known()
        trust.accepted("h", ["a", "b"])
        trust.passed("h")
        trust.accepted("h", ["c"])
        trust.accepted("h", ["d"])
        assert trust.failed("h") == ["c", "d"]
        assert trust.is_new("h")
        assert trust.failed("h") == []

    def test_who_is_wrong_again_and_again_is_not_asked(self) -> None:
        trust = Trust()
        for _ in range(BARRED_AFTER):
            assert not trust.is_barred("h")
            trust.failed("h")
            for _ in range(NEW):
                trust.passed("h")
        assert trust.is_barred("h")
        assert not trust.is_barred("other")

    def test_it_is_kept(self) -> None:
        trust = known()
        trust.accepted("h", ["a"])
        trust.failed("other")
        again = Trust.restored(msgpack.unpackb(msgpack.packb(trust.state())))
        assert again.state() == trust.state()
        assert again.failed("h") == ["a"]

    @given(st.integers(0, 2**32))
    def test_a_turncoat_is_out_within_twenty_answers(self, seed: int) -> None:
        """Honest until it is trusted, then never again: with these probabilities nobody gets far."""
        trust, random, lies = known(), Random(seed), 0
        while not trust.to_check("h", range(8), random):
            trust.accepted("h", ["x"])
            lies += 1
        assert lies < 10
