"""What queries mean, and what is shown of what they find."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcs.core.frequent import FREQUENT
from gcs.core.highlights import snippet, wanted
from gcs.core.query import MAX_TERMS, BadQuery, follows, parse
from gcs.core.words import LANGUAGES, Words, folding
from tests.searching import entry

WORDS = Words()
PAGES = {
    "en": entry(
        "http://www.example.org/foxes/1", "en", "Running horses", "The quick brown foxes were running."
    ),
    "de": entry("http://stadt.example:8080/haus", "de", "Häuser", "Die Häuser der alten Stadt, Straße 7."),
    "ja": entry("http://c.example/3", "ja", "検索エンジン", "全文検索エンジンの作り方。"),
    "hi": entry("http://d.example/4", "hi", "हिन्दी किताबें", "यह किताब अच्छी है।"),
    "": entry("http://e.example/under_score", "", "Ⅷ ﬁne", "no language was recognised: running"),
}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("run", ["en"]),
        ("running", ["en", ""]),
        ("RUNNING title:horse", ["en"]),
        ("text:horse", []),
        ('"brown fox"', ["en"]),
        ('"fox brown"', []),
        ('"haus"', ["de"]),
        ("häusern", ["de"]),
        ("strasse", ["de"]),
        ("検索", ["ja"]),
        ("索検", []),
        ("エンジンの作", ["ja"]),
        ("किताब", ["hi"]),
        ("viii fine", [""]),
        ("url:score", [""]),
        ("host:example.org", ["en"]),
        ("host:EXAMPLE", ["de", "ja", "hi", ""]),
        ("host:stadt.example", ["de"]),
        ("host:tadt.example", []),
        ("lang:de OR lang:ja", ["de", "ja"]),
        ("type:text -lang:en -(lang:de OR lang:hi)", ["ja", ""]),
        ("type:text/html NOT running", ["de", "ja", "hi"]),
        ("horse AND fox", ["en"]),
        ("(fox OR haus) quick", ["en"]),
        ("quick-brown", ["en"]),
        ("brown-quick", []),
        ("the", ["en"]),
        ("text:the -title:the", ["en"]),
        ('"foxes were running"', ["en"]),
        ('"the quick were the foxes"', []),
        ('"quick the foxes"', ["en"]),
        ('"quick of foxes"', []),
        ('text:"der häuser"', ["de"]),
        ('title:"der häuser"', []),
        ('"die der"', ["de"]),
    ],
)
def test_what_a_query_holds_of(query: str, found: list[str]) -> None:
    """A query holds of pages that have its words, in any form, where it says, and not what it leaves out."""
    assert [name for name, page in PAGES.items() if parse(query).holds(page.paper(WORDS))] == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "needs a word"),
        ("-fox", "beside what it leaves out"),
        ("(fox", "not closed"),
        ("fox)", "not opened"),
        ('"fox', "quotation mark"),
        ("fox OR", "between two things"),
        ("nothing:fox", "there is no field nothing; there are title,"),
        ("title:(a b)", "missing after title:"),
        ("x" * 1_001, "at most 1000 characters"),
        (" ".join(["x"] * (MAX_TERMS + 1)), "at most 64 words"),
        ("(" * 20 + "x" + ")" * 20, "nested deeper"),
    ],
)
def test_what_is_no_query(text: str, why: str) -> None:
    """What cannot be understood is refused with what is wrong."""
    with pytest.raises(BadQuery, match=why):
        parse(text)


@given(st.text(alphabet=st.sampled_from('ab"()-: ORNOTandtitle索検é'), max_size=60))
def test_any_text_is_a_query_or_is_refused(text: str) -> None:
    """Whatever somebody types is a query, and what it holds of can be said; or it is refused."""
    try:
        query = parse(text)
    except BadQuery:
        return
    for page in PAGES.values():
        assert query.holds(page.paper(WORDS)) in (True, False)


@given(st.lists(st.sampled_from("ab"), max_size=12), st.lists(st.sampled_from("ab"), min_size=1, max_size=4))
def test_following_terms_are_a_slice(terms: list[str], some: list[str]) -> None:
    """Terms follow each other exactly if they are a slice."""
    slices = [terms[at : at + len(some)] for at in range(len(terms))]
    assert follows(terms, some) == (some in slices)


@given(
    st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), min_size=1, max_size=4)
)
def test_terms_without_a_place_may_be_any(terms: list[str], some: list[str]) -> None:
    """Terms without a place are passed over: the others follow each other as if any stood there."""
    placeless = {"b"}
    places = range(-len(some), len(terms) + 1)
    expected = any(
        all(
            each in placeless or (0 <= at + n < len(terms) and terms[at + n] == each)
            for n, each in enumerate(some)
        )
        for at in places
    )
    assert follows(terms, some, placeless) == expected


def test_frequent_words_are_words_of_languages_with_stems() -> None:
    """Each frequent word is one word, in its own form, of a language that has rules for stems."""
    assert FREQUENT.keys() <= LANGUAGES
    for language, text in FREQUENT.items():
        assert WORDS.words(text) == folding(text).split()
        assert WORDS.frequent(language) == set(WORDS.terms(text, language))
    assert not WORDS.frequent("ja") | WORDS.frequent("")


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("en", "likely willing"),
        ("es", "comida comer par pares parar"),
        ("fr", "été sons sonne"),
        ("pt", "comida comer par pares parar"),
    ],
)
def test_other_words_have_their_places(language: str, words: str) -> None:
    """Also those that have the stem of a word which is frequent."""
    assert WORDS.frequent(language).isdisjoint(WORDS.terms(words, language))


@given(st.text(max_size=300), st.sampled_from(["en", "de", "ja", "xx", ""]))
def test_terms_and_their_places_agree(text: str, language: str) -> None:
    """Where a text has terms is where its terms are, unless comparing it needs a form of another length."""
    spans = WORDS.spans(text, language)
    if spans and len(text) == len(text.casefold()):
        assert all(0 <= span.start < span.end <= len(text) for span in spans)
    if text.isascii():
        assert [span.term for span in spans] == WORDS.terms(text, language)


def test_the_piece_that_is_shown_has_the_words() -> None:
    """Of a long text that piece is shown which has the most of the words, with marks at them in any form."""
    text = "nothing here. " * 40 + "At last the foxes were running home. " + "nothing again. " * 40
    looked_for = wanted(parse('fox "run home" lang:en -nothing'))
    assert looked_for == {"fox", "run", "home"}
    piece = snippet(WORDS, text, "en", looked_for, about=120)
    assert len(piece.text) <= 120
    assert [piece.text[start:end] for start, end in piece.marks] == ["foxes", "running", "home"]
    assert snippet(WORDS, "", "en", looked_for).text == ""
    joined = snippet(WORDS, "全文検索エンジン", "ja", wanted(parse("検索エンジン")))
    assert [joined.text[start:end] for start, end in joined.marks] == ["検索エンジン"]
