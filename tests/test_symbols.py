"""How terms are written into the index."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gcs.core.query import follows
from gcs.core.words import Words
from gcs.index.symbols import written

_TEXTS = st.text(alphabet=st.sampled_from("検索アー一aé한국 。~"), max_size=12)


def test_pairs_are_written_as_characters() -> None:
    """Pairs that overlap are one chain of characters, between chains is a sign, and all else is as it was."""
    terms = Words().terms("検索機 検索 x 機 한국어 東京")
    assert written(terms) == [
        *("~検", "~索", "~機", "~", "~検", "~索", "x", "機"),
        *("한국", "국어", "~東", "~京"),
    ]


@given(_TEXTS, _TEXTS)
def test_what_follows_each_other_is_written_so(text: str, sought: str) -> None:
    """Terms follow each other in a text exactly if what they are written as does in what it is written as."""
    terms, wanted = Words().terms(text), Words().terms(sought)
    if wanted:
        assert follows(terms, wanted) == follows(written(terms), written(wanted))
