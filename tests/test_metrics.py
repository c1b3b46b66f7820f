"""The text format of Prometheus: whatever is measured can be read back, and comes to the same."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcs.metrics import Histogram, Kind, Meter, Value, exposition
from tests.scrapes import Scrape, Unreadable, read

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
NUMBERS = st.one_of(st.integers(-(2**60), 2**60), st.floats(), st.booleans())


def said(value: Value, *labels: str, kind: Kind = Kind.GAUGE, meaning: str = "What it is.") -> Scrape:
    """One meter, written and read back."""
    name = "gcs_it_total" if kind is Kind.COUNTER else "gcs_it"
    return read(exposition([Meter(name, kind, meaning, lambda _: value, labels)], None) or "\n")


@given(NUMBERS)
def test_numbers(value: float) -> None:
    """A number comes back as the same number, infinities and no number at all included."""
    back = said(value).at("gcs_it")
    assert back == float(value) or (math.isnan(back) and math.isnan(value))


@given(TEXTS.filter(bool), st.dictionaries(st.tuples(TEXTS, TEXTS), st.integers(0, 2**53), max_size=5))
def test_texts(meaning: str, values: dict[tuple[str, ...], float]) -> None:
    """Help and labels come back as they were, whatever characters they have."""
    back = said(values, "one", "two", meaning=meaning)
    assert back.helps["gcs_it"] == meaning
    assert {(one, two): value for (_, ((_, one), (_, two))), value in back.samples.items()} == values


@given(st.lists(st.floats(-100, 100)), st.lists(st.floats(-100, 100), unique=True).map(sorted))
def test_histograms(values: list[float], bounds: list[float]) -> None:
    """A bucket has the values that are not larger than its bound, and the last one has all."""
    histogram = Histogram(bounds)
    for value in values:
        histogram.observe(value)
    back = said(histogram, kind=Kind.HISTOGRAM)
    for (name, labels), count in back.samples.items():
        if name == "gcs_it_bucket":
            assert count == sum(value <= float(labels[0][1]) for value in values)
    assert back.at("gcs_it_count") == len(values)
    assert back.at("gcs_it_sum") == pytest.approx(sum(values))


@pytest.mark.parametrize("bounds", [[1.0, 1.0], [2.0, 1.0], [1.0, math.inf], [math.nan]])
def test_bounds(bounds: list[float]) -> None:
    """Bounds that do not grow, or are no numbers, are refused."""
    with pytest.raises(ValueError, match="bounds"):
        Histogram(bounds)


def test_nothing_to_tell() -> None:
    """A meter that cannot tell anything is left out, its help too."""
    assert exposition([Meter("gcs_it", Kind.GAUGE, "It.", lambda _: None)], None) == ""


@pytest.mark.parametrize(
    ("name", "kind", "labels"),
    [
        ("it_gcs_", Kind.GAUGE, ()),
        ("gcs_It", Kind.GAUGE, ()),
        ("gcs_it", Kind.COUNTER, ()),
        ("gcs_it_total", Kind.GAUGE, ()),
        ("gcs_it", Kind.GAUGE, ("a-b",)),
        ("gcs_it", Kind.HISTOGRAM, ("le",)),
    ],
)
def test_names(name: str, kind: Kind, labels: tuple[str, ...]) -> None:
    """A name that Prometheus, or its users, would stumble over is refused."""
    with pytest.raises(ValueError, match="gcs_"):
        Meter(name, kind, "It.", lambda _: 1, labels)


def test_as_documented() -> None:
    """The format's own example of escapes, and a histogram, are written as its documents have them."""
    meter: Meter[None] = Meter(
        "gcs_it", Kind.GAUGE, "Back\\slash and\nline.", lambda _: {('a\\b"c\n',): 0.5}, ("path",)
    )
    assert exposition([meter], None) == (
        '# HELP gcs_it Back\\\\slash and\\nline.\n# TYPE gcs_it gauge\ngcs_it{path="a\\\\b\\"c\\n"} 0.5\n'
    )
    histogram = Histogram([0.1, 1.0])
    for value in (0.1, 0.5, 4.0):
        histogram.observe(value)
    assert exposition([Meter("gcs_s", Kind.HISTOGRAM, "S.", lambda _: histogram)], None) == (
        "# HELP gcs_s S.\n# TYPE gcs_s histogram\n"
        'gcs_s_bucket{le="0.1"} 1\ngcs_s_bucket{le="1"} 2\ngcs_s_bucket{le="+Inf"} 3\n'
        "gcs_s_sum 4.6\ngcs_s_count 3\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "gcs_it 1\n",
        "# HELP gcs_it x\n# TYPE gcs_it gauge\ngcs_it 1",
        "# HELP gcs_it x\n# TYPE gcs_it gauge\ngcs_it 1\ngcs_it 2\n",
        "# HELP gcs_it x\n# TYPE gcs_it gauge\ngcs_it one\n",
        '# HELP gcs_it x\n# TYPE gcs_it gauge\ngcs_it{a="b"c="d"} 1\n',
        "# HELP gcs_it x\n# TYPE gcs_it gauge\ngcs_it_sum 1\n",
        "# HELP gcs_it x\ngcs_it 1\n",
        "# TYPE gcs_it gauge\ngcs_it 1\n",
    ],
)
def test_the_reader_is_strict(text: str) -> None:
    """The reader of these tests refuses what Prometheus would, and what it would only put up with."""
    with pytest.raises(Unreadable):
        read(text)
