"""Hot pages: a table that may forget and never claims falsely."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcs.core.hotpages import HotPages

URLS = st.lists(st.integers(0, 30).map(str), max_size=200)


class TestHotPages:
    """The promise, and what it is good for."""

    @given(URLS, st.integers(0, 12), st.sets(st.integers(0, 200)))
    def test_never_claims_falsely(self, urls: list[str], capacity: int, forget_at: set[int]) -> None:
        """What it says was passed on, was passed on before and not forgotten on purpose since."""
        table, passed = HotPages(capacity), set()
        for number, url in enumerate(urls):
            if table.passed_on(url):
                assert url in passed
            passed.add(url)
            if number in forget_at:
                table.forget(url)
                passed.discard(url)
                assert url not in table

    @given(URLS, st.integers(0, 12))
    def test_is_bounded(self, urls: list[str], capacity: int) -> None:
        """It never holds more than its capacity, and its figures add up."""
        table = HotPages(capacity)
        known = 0
        for url in urls:
            known += table.passed_on(url)
            assert len(table) <= capacity
        found = table.statistics()
        assert (found.asked, found.known, found.size) == (len(urls), known, len(table))
        assert found.hot <= found.size

    @given(URLS)
    def test_with_room_for_all_nothing_is_passed_on_twice(self, urls: list[str]) -> None:
        """A table that is large enough knows every repetition."""
        table = HotPages(64)
        assert [table.passed_on(url) for url in urls] == [url in urls[:n] for n, url in enumerate(urls)]

    def test_keeps_hot_pages_through_a_flood(self) -> None:
        """Pages that come often stay, however many come once between; a plain LRU would lose them."""
        random, table = Random(1), HotPages(100)
        hot = [f"hot {n}" for n in range(20)]
        for n in range(20_000):
            table.passed_on(f"cold {n}")
            if n % 10 == 0:
                table.passed_on(random.choice(hot))
        assert sum(url in table for url in hot) >= 18

    def test_clear_forgets_everything(self) -> None:
        """After a change of owners all has to be passed on again."""
        table = HotPages(10)
        for _ in range(2):
            table.passed_on("x")
            table.passed_on("y")
        table.clear()
        assert len(table) == 0
        assert not table.passed_on("x")

    def test_no_room_remembers_nothing(self) -> None:
        """With capacity 0 every URL is passed on every time."""
        table = HotPages(0)
        assert [table.passed_on("x") for _ in range(3)] == [False] * 3

    @pytest.mark.parametrize(("capacity", "newcomers"), [(-1, 0.5), (10, 0.0), (10, 1.0)])
    def test_what_is_no_table_is_refused(self, capacity: int, newcomers: float) -> None:
        """A capacity below 0 or no room for either half is a mistake."""
        with pytest.raises(ValueError, match="room"):
            HotPages(capacity, newcomers=newcomers)
