"""What can be in a tuple, and which templates find it."""

from __future__ import annotations

import itertools
import math
import secrets
from typing import Any, Final

import trio

from tuplespace.election import election
from tuplespace.errors import TemplateError, TupleError
from tuplespace.fields import ANY, DEAD_LETTER, Field, Limits, Tuple
from tuplespace.testing.stage import Check, Stage, empty, in_line, listed, nested, put, raises

_VALUES: Final[tuple[Field, ...]] = (
    "", "a", "ä€😀\0", "long" * 5000, b"", b"\0\xff", bytes(range(256)) * 100, 0, 1, -1, 127, 128, -129,
    2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, -(2**64), 2**500, -(2**500), 0.0, -0.0,
    1.5, -1e300, 5e-324, math.inf, -math.inf, math.nan, True, False, None, (), ((),),
    (1, (1.0, (True, None))), ("x", b"x", (2**100, math.nan, "")), nested(8),
)  # fmt: skip


async def fields_come_back_as_they_were(stage: Stage) -> None:
    """A tuple that is read or taken has the values and types with which it was written."""
    first, second = stage.pair({"value": (1,)})
    await first.out_many(("value", at, value) for at, value in enumerate(_VALUES))
    for at, value in enumerate(_VALUES):
        expected = repr(("value", at, value))
        assert repr(await second.rdp("value", at, ANY)) == expected
        assert repr(await second.inp("value", at, ANY)) == expected
    widest = ("wide", *range(63))
    await first.out(*widest)
    assert await second.in_("wide", *[int] * 63) == widest


async def a_megabyte_fits(stage: Stage) -> None:
    """A tuple of nearly a megabyte is written, read and taken whole."""
    first, second = stage.pair()
    blob = secrets.token_bytes(1_000_000)
    await first.out("blob", blob)
    assert await second.rd("blob", bytes) == ("blob", blob)
    assert await second.in_("blob", bytes) == ("blob", blob)


async def equality_includes_the_type(stage: Stage) -> None:
    """1, 1.0, True, "1", b"1" and (1,) are six values, also inside of nested tuples."""
    first, second = stage.pair({"v": (1,)})
    values: list[Field] = [1, 1.0, True, "1", b"1", (1,), (1.0,), (True,), ((1,),), 0, False, None, ""]
    await first.out_many(("v", value) for value in values)
    for value in values:
        assert await second.count("v", value) == 1
        assert repr(await second.inp("v", value)) == repr(("v", value))
        assert await second.inp("v", value) is None


async def the_two_zeros_are_equal(stage: Stage) -> None:
    """0.0 finds -0.0 and the other way round, alone and nested."""
    space = stage.space({"v": (1,)})
    for zero in (0.0, -0.0):
        await space.out("v", zero)
        assert repr(await space.inp("v", -zero)) == repr(("v", zero))
        await space.out("v", ("in", (zero,)))
        assert repr(await space.inp("v", ("in", (-zero,)))) == repr(("v", ("in", (zero,))))


async def the_length_must_fit(stage: Stage) -> None:
    """A tuple longer or shorter than the template never matches, whatever is declared."""
    space = stage.space({"t": (1, 3)})
    await space.out("t")
    await space.out("t", 1)
    await space.out("t", 1, 2)
    await space.out("t", 1, 2, 3)
    for length in range(6):
        expected = 1 if length < 4 else 0
        assert await space.count("t", *[ANY] * length) == expected
        assert await space.count("t", *[int] * length) == expected
    assert await space.inp("t", 1) == ("t", 1)
    assert await space.inp("t", 1) is None
    assert await space.inp("t", 1, ANY, 3) == ("t", 1, 2, 3)
    assert await space.inp("t") == ("t",)


async def a_type_matches_exactly_that_type(stage: Stage) -> None:
    """A type in a template matches values of that very type, ANY those of every type, None only None."""
    space = stage.space()
    examples: dict[type, Field] = {
        str: "s", bytes: b"b", int: 1, float: 1.0, bool: True, type(None): None, tuple: (1,),
    }  # fmt: skip
    await space.out_many(("e", value) for value in examples.values())
    for kind, value in examples.items():
        found = await listed(space.scan("e", kind))
        assert repr(found) == repr([("e", value)])
    assert await listed(space.scan("e", None)) == [("e", None)]
    assert await space.count("e", ANY) == len(examples)


async def tags_and_spaces_are_apart(stage: Stage) -> None:
    """A tuple is found under its own tag in its own space only, by every client that opens the space."""
    space, same = stage.pair()
    other = stage.second.space(stage.name + "-other")
    tags = ["t", "T", "", "t" * 15, "t" * 16, "t" * 1000, "\0", "ü"]
    await space.out_many((tag, number) for number, tag in enumerate(tags))
    for number, tag in enumerate(tags):
        assert await other.rdp(tag, int) is None
        assert await listed(same.scan(tag, int)) == [(tag, number)]


async def every_subset_of_declared_fields_can_be_given(stage: Stage) -> None:
    """Templates give any of up to three declared fields, short or long, and get what a full scan would."""
    short_and_long: list[tuple[Field, Field]] = [
        (7, "a string of more than fifteen bytes"),
        (b"\0", b"\0" * 40),
        (-1.5, ("nested", ("deep", 2**70, None), b"bytes")),
    ]
    for positions in [(1,), (3,), (1, 2), (2, 3), (1, 2, 3)]:
        tag = "".join(map(str, positions))
        space = stage.space({tag: positions})
        tuples = [(tag, *values, serial) for serial, values in enumerate(itertools.product(*short_and_long))]
        await space.out_many(tuples)
        choices = [
            [ANY, *values] if at in positions else [ANY] for at, values in enumerate(short_and_long, start=1)
        ]
        for given in itertools.product(*choices):
            expected = [
                t for t in tuples if all(g is ANY or g == f for g, f in zip(given, t[1:], strict=False))
            ]
            assert await listed(space.scan(tag, *given, int)) == expected
            assert await space.count(tag, *given, int) == len(expected)


async def shorter_tuples_may_lack_declared_fields(stage: Stage) -> None:
    """A tuple that ends before a declared field is found by the fields it has, and given back whole."""
    space = stage.space({"t": (1, 2)})
    await space.out("t")
    await space.out("t", "x")
    async with space.take("t", "x") as taken:
        assert taken.tuple == ("t", "x")
        taken.give_back()
    assert await space.in_("t", "x") == ("t", "x")
    assert await space.inp("t") == ("t",)
    await empty(space)


async def bad_templates_are_refused(stage: Stage) -> None:
    """A template that would need a scan, or is malformed, is a TemplateError in every operation."""
    space = stage.space({"t": (1,)})
    bad: list[tuple[Any, ...]] = [
        (), (1,), (b"t",), (str,), (ANY,), (None,),  # no tag
        ("t", 1, 2), ("t", ANY, "x"), ("u", 1), ("u", (1,)), ("t", 1, False),  # a value that is not declared
        ("t", list), ("t", object), ("t", [1]), ("t", {}), ("t", (1, [2])),  # not a type of field
        ("t", math.nan), ("t", (1, math.nan)),  # equals nothing
        ("t", nested(9)), ("t", "\ud800"), ("t\ud800", int),  # could not be written
        ("t", *[ANY] * 64),
    ]  # fmt: skip
    for template in bad:
        for ask in (space.in_, space.inp, space.rd, space.rdp, space.count):
            with raises(TemplateError):
                await ask(*template)
        with raises(TemplateError):
            await listed(space.scan(*template))
        with raises(TemplateError):
            await space.swap(template, ("t", 1))
        for block in (space.take, space.watch):
            with raises(TemplateError):
                async with block(*template):
                    raise AssertionError("the block was entered")
    assert (await space.statistics()).waiting == 0


async def bad_declarations_and_terms_are_refused(stage: Stage) -> None:
    """A space that is opened, or a take that is asked for, on impossible terms is a TemplateError."""
    bad: list[dict[str, Any]] = [
        {"index": {"t": (1, 2, 3, 4)}}, {"index": {"t": (0,)}}, {"index": {"t": (-1,)}},
        {"index": {"t": (64,)}}, {"index": {"t": (1, 1)}}, {"index": {DEAD_LETTER: (1,)}},
        {"lease": 0}, {"lease": -1}, {"lease": math.nan}, {"lease": math.inf},
        {"max_deliveries": 0}, {"max_deliveries": 1 << 20},
    ]  # fmt: skip
    for options in bad:
        with raises(TemplateError):
            stage.first.space(stage.name, **options)
    for name in ("", "a{b}", "line\nbreak", "\ud800"):
        with raises(TemplateError):
            stage.first.space(name)
    space = stage.space()
    terms: list[dict[str, Any]] = [{"many": 0}, {"many": 1001}, {"lease": 0}, {"max_deliveries": 0}]
    for options in terms:
        with raises(TemplateError):
            space.take("t", **options)
    for lease in (0, math.inf, math.nan):
        with raises(TemplateError):
            async with election(space, "name", lease=lease):
                raise AssertionError("the block was entered")


async def bad_tuples_are_refused(stage: Stage) -> None:
    """A tuple too large, too deep, too long or with a field of a wrong type is refused, and not written."""

    class Text(str):
        __slots__ = ()

    space = stage.space(limits=Limits(max_bytes=1000))
    bad: list[tuple[Any, ...]] = [
        (), (1,), (None,), (b"t",), (Text("t"),), ("t\ud800",),
        ("t", [1]), ("t", {}), ("t", {1}), ("t", object()), ("t", str), ("t", ANY), ("t", Text("x")),
        ("t", 1j), ("t", (1, [2])), ("t", "\ud800"), ("t", ("\udfff",)), ("t", nested(9)), ("t", *range(64)),
        ("t", "x" * 1000),
    ]  # fmt: skip
    await space.out("held")
    for fields in bad:
        with raises(TupleError):
            await space.out(*fields)
        with raises(TupleError):
            await space.out_many([("good",), fields])
        with raises(TupleError):
            await space.swap(("held",), fields)
        with raises(TupleError):
            async with space.take("held") as taken:
                await taken.commit(out=[("good",), fields])
        assert await space.rd("held") == ("held",)
    for ttl in (0, -1, math.nan, math.inf):
        with raises(TupleError):
            await space.out("good", ttl=ttl)
    statistics = await space.statistics()
    assert (statistics.waiting, statistics.leased) == (1, 0)


async def limits_can_be_raised(stage: Stage) -> None:
    """A space opened with wider limits takes deeper tuples, which readers, takers and watchers get too."""
    first, second = stage.pair(limits=Limits(max_depth=20))
    deep = ("deep", nested(20))
    results: list[Tuple] = []
    async with second.watch("deep", tuple) as watch, trio.open_nursery() as nursery:
        nursery.start_soon(put(results, second.rd, "deep", tuple))
        await in_line(first, readers=1)
        nursery.start_soon(put(results, first.in_, "deep", tuple))
        await in_line(first, readers=1, takers=1)
        await first.out(*deep)
        assert (await anext(watch)).fields == deep
    assert results == [deep, deep]


CHECKS: Final[tuple[Check, ...]] = (
    fields_come_back_as_they_were,
    a_megabyte_fits,
    equality_includes_the_type,
    the_two_zeros_are_equal,
    the_length_must_fit,
    a_type_matches_exactly_that_type,
    tags_and_spaces_are_apart,
    every_subset_of_declared_fields_can_be_given,
    shorter_tuples_may_lack_declared_fields,
    bad_templates_are_refused,
    bad_declarations_and_terms_are_refused,
    bad_tuples_are_refused,
    limits_can_be_raised,
)
