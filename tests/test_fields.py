"""Tuples and templates as data: what is written down comes back, and buckets say exactly what matches."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tuplespace import ANY, Field, Limits, TemplateError, Tuple, TupleError
from tuplespace.fields import (
    CODES,
    DEEPEST,
    Template,
    compile_template,
    declare,
    decode,
    encode,
    letters,
    prepare,
    token_of,
)

scalars: st.SearchStrategy[Field] = st.one_of(
    st.text(), st.binary(), st.integers(), st.floats(), st.booleans(), st.none()
)
fields: st.SearchStrategy[Field] = st.recursive(scalars, lambda inner: st.tuples(inner, inner), max_leaves=8)
# Few values that are easily confused, so that two of them are often equal.
confusable: st.SearchStrategy[Field] = st.sampled_from([
    0, 0.0, -0.0, False, "", b"", (), 1, 1.0, True, "1", b"1", (1,), (1.0,), (True,), (0.0,), (-0.0,), None,
    (None,), *["x" * n for n in (13, 14, 15, 16, 17)], *[b"x" * n for n in (12, 13, 14, 15)],
    2**63, 2**64, -(2**63) - 1,
])  # fmt: skip
tuples = st.tuples(st.sampled_from(["a", "b"]), confusable, confusable, confusable).map(tuple)


def same(one: object, other: object) -> bool:
    """Equality that includes the type; NaN equals nothing."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


@given(st.lists(fields, max_size=5))
@example([math.nan, -0.0, 2**64, -(2**64), 10**100, "\U0010ffff", ((((((((),),),),),),),)])
def test_round_trip(values: list[Field]) -> None:
    """A tuple that was encoded is decoded to the same values of the same types."""
    assert repr(decode(encode(tuple(values)))) == repr(tuple(values))


@given(confusable | fields, confusable | fields)
def test_tokens(one: Field, other: Field) -> None:
    """Two values have the same token just when they are equal and of the same type."""
    if not _contains_nan(one) and not _contains_nan(other):
        assert (token_of(one) == token_of(other)) == same(one, other)
    assert len(token_of(one)) <= 16


def _contains_nan(field: Field) -> bool:
    if isinstance(field, tuple):
        return any(map(_contains_nan, field))
    return isinstance(field, float) and math.isnan(field)


@given(tuples, tuples, st.sets(st.integers(1, 3)), st.data())
def test_matching(written: Tuple, wanted: Tuple, positions: set[int], data: st.DataObject) -> None:
    """A template finds a tuple, in its bucket and by its event, just when a field-by-field look would."""
    index = {"a": tuple(positions), "b": tuple(positions)}
    template: list[Any] = [wanted[0]]
    for at, field in enumerate(wanted[1:], start=1):
        template.append(data.draw(st.sampled_from([ANY, type(field), *([field] if at in positions else [])])))
    compiled = compile_template(template, declare(index))
    item = prepare(written, declare(index), Limits())
    expected = all(
        wanted is ANY or (type(field) is wanted if isinstance(wanted, type) else same(field, wanted))
        for field, wanted in zip(written, template, strict=True)
    )
    found = compiled.tag == item.tag and (compiled.mask, compiled.tokens) in item.buckets()
    assert (found and compiled.accepts(item.signature)) == expected
    assert compiled.matches(written) == expected


def test_buckets_are_all_subsets() -> None:
    """A tuple stands in one bucket for every subset of its declared fields."""
    item = prepare(("t", 1, 2, 3), {"t": (1, 2, 3)}, Limits())
    tokens = [token_of(n) for n in (1, 2, 3)]
    expected = {
        (sum(1 << i for i in chosen), tuple(tokens[i] for i in chosen))
        for size in range(4)
        for chosen in itertools.combinations(range(3), size)
    }
    assert set(item.buckets()) == expected


def test_missing_declared_field() -> None:
    """A tuple too short for a declared field has an empty token there, which no value has."""
    item = prepare(("t", 1), {"t": (1, 2)}, Limits())
    assert item.tokens == (token_of(1), b"")
    assert all(token_of(value) for value in ("", b"", (), None, 0))


def test_letters() -> None:
    """Each type of field has a letter of its own."""
    values = ["", b"", 0, 0.0, False, None, ()]
    assert letters(values) == "sbifont"
    assert len(set(CODES.values())) == len(CODES)


@pytest.mark.parametrize("limits", [(0, 8), (1 << 30, 8), (100, -1), (100, DEEPEST + 1)])
def test_impossible_limits(limits: tuple[int, int]) -> None:
    """Limits that no tuple could reach, or that could not be kept, are refused."""
    with pytest.raises(TupleError, match="limits are at most"):
        Limits(*limits)


def test_deepest() -> None:
    """A tuple as deep as any limit allows can be written and read; one deeper cannot."""
    limits = Limits(max_depth=DEEPEST)
    field: Field = 1
    for _ in range(DEEPEST):
        field = (field,)
    assert decode(prepare(("t", field), {}, limits).payload) == ("t", field)
    with pytest.raises(TupleError, match="too deeply"):
        prepare(("t", (field,)), {}, limits)


def test_size_is_that_of_the_encoding() -> None:
    """A tuple of exactly the limit can be written, one byte more cannot."""
    size = len(encode(("t", "x" * 100)))
    assert prepare(("t", "x" * 100), {}, Limits(max_bytes=size)).payload
    with pytest.raises(TupleError, match=f"{size} bytes, over the limit of {size - 1}"):
        prepare(("t", "x" * 100), {}, Limits(max_bytes=size - 1))


def test_newer_format() -> None:
    """What a newer version has written in a way unknown here is an error, not a wrong value."""
    with pytest.raises(TupleError, match="unknown extension 99"):
        decode(b"\x92\xa1t\xd4\x63\x00")


def test_messages() -> None:
    """Errors name the tag, the field and what to do."""
    with pytest.raises(TemplateError, match=r"field 2 of 't' .* index=\{'t': \(2,\)\}"):
        compile_template(("t", int, 5), {"t": (1,)})
    with pytest.raises(TemplateError, match="list is not a type of field; these are: str, bytes"):
        compile_template(("t", list), {})
    with pytest.raises(TupleError, match="a field cannot be a list; it can be str, bytes"):
        prepare(("t", [1]), {}, Limits())  # type: ignore[arg-type]
    assert repr(ANY) == "ANY"


def test_exact() -> None:
    """A template without ANY matches tuples of one signature only."""
    assert compile_template(("t", int, None), {}).exact
    assert not compile_template(("t", ANY), {}).exact
    assert isinstance(compile_template(("t",), {}), Template)
