"""Tuples, templates and how they are written down.

A field is a str, bytes, int, float, bool, None or a tuple of fields. Equality includes the type:
1, 1.0 and True are three values. A *signature* is one letter per field (its type); a *token* is a
field's value in a form that two equal values share and two different ones do not: the encoding
itself while it is short, else a 128-bit digest of it.

Matching never looks at a tuple. A template names its tag, the type of every field (or ANY), and
actual values only in fields declared for the tag, so all it can match stands in one *bucket* per
signature: (which declared fields are given, tag, their tokens, signature). A tuple stands in one
bucket for every subset of its declared fields, which is why three is the most.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Union

import msgpack

from tuplespace.errors import TemplateError, TupleError

Field = Union[str, bytes, int, float, bool, None, "tuple[Field, ...]"]
Tuple = tuple[Field, ...]


class _Any:
    """The formal that matches a field of every type."""

    def __repr__(self) -> str:
        return "ANY"


ANY: Final = _Any()
TemplateField = Field | type | _Any

MAX_FIELDS: Final = 64
MAX_INDEXED: Final = 3
DEEPEST: Final = 128
LONGEST_S: Final = 100 * 365 * 86_400
DEAD_LETTER: Final = "dead-letter"
"""Tag of what was delivered too often: (DEAD_LETTER, the tuple, how often)."""

CODES: Final[Mapping[type, str]] = {
    str: "s",
    bytes: "b",
    int: "i",
    float: "f",
    bool: "o",
    type(None): "n",
    tuple: "t",
}
WILD: Final = "?"

_LITERAL_BYTES = 15
_BIG_INTEGER = 1


@dataclass(frozen=True, slots=True)
class Limits:
    """What a tuple may be at most."""

    max_bytes: int = 1 << 20
    max_depth: int = 8
    max_read_bytes: int | None = None
    """Of one that somebody else has written, who may have other limits; None for `max_bytes`."""

    def __post_init__(self) -> None:
        """No limit may be beyond what can be encoded."""
        if not (
            1 <= self.max_bytes <= 1 << 29
            and 0 <= self.max_depth <= DEEPEST
            and (self.max_read_bytes is None or 1 <= self.max_read_bytes <= 1 << 29)
        ):
            raise TupleError(f"limits are at most 512 MiB and a depth of {DEEPEST}, not {self}")

    @property
    def longest(self) -> int:
        """No tuple with more bytes is wanted."""
        return self.max_bytes if self.max_read_bytes is None else self.max_read_bytes


_LIMITS: Final = Limits()
Index = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Item:
    """A tuple ready to be written: its fields, where it is found, and its bytes."""

    fields: Tuple
    signature: str
    positions: tuple[int, ...]
    tokens: tuple[bytes, ...]
    payload: bytes
    ttl_s: float | None = None

    @property
    def tag(self) -> str:
        """The first field."""
        return str(self.fields[0])

    def buckets(self) -> Iterator[tuple[int, tuple[bytes, ...]]]:
        """Every (mask, tokens) under which a template may ask for this tuple."""
        for mask in range(1 << len(self.tokens)):
            yield mask, tuple(t for i, t in enumerate(self.tokens) if mask >> i & 1)


@dataclass(frozen=True, slots=True)
class Template:
    """What to look for: a pattern of types, and the tokens of the declared fields that are given."""

    tag: str
    pattern: str
    positions: tuple[int, ...]
    mask: int
    tokens: tuple[bytes, ...]
    longest: int
    """No tuple with more bytes is wanted."""

    @property
    def exact(self) -> bool:
        """Whether only one signature matches."""
        return WILD not in self.pattern

    def accepts(self, signature: str) -> bool:
        """Whether tuples of this signature have the right length and types."""
        return len(signature) == len(self.pattern) and all(
            p in (WILD, s) for p, s in zip(self.pattern, signature, strict=True)
        )

    def matches(self, fields: Tuple) -> bool:
        """Whether this tuple would be found; for events, which carry whole tuples."""
        if fields[0] != self.tag or not self.accepts(letters(fields)):
            return False
        given = [p for i, p in enumerate(self.positions) if self.mask >> i & 1]
        return all(token_of(fields[p]) == t for p, t in zip(given, self.tokens, strict=True))

    def read(self, payload: object) -> Tuple | None:
        """The tuple that was asked for; None for bytes that are not one.

        A space is shared: others can write bytes under a head that promises something else.
        """
        if not isinstance(payload, bytes) or len(payload) > self.longest:
            return None
        fields = readable(payload)
        return fields if fields is not None and self.matches(fields) else None


def declare(index: Mapping[str, Sequence[int]]) -> Index:
    """The declared fields of each tag, checked and in ascending order; raises TemplateError."""
    declared: dict[str, tuple[int, ...]] = {}
    for tag, positions in index.items():
        ordered = tuple(sorted(set(positions)))
        if len(ordered) != len(positions) or len(ordered) > MAX_INDEXED:
            raise TemplateError(f"tag {tag!r}: at most {MAX_INDEXED} different fields can be declared")
        if ordered and not 1 <= ordered[0] <= ordered[-1] < MAX_FIELDS:
            raise TemplateError(f"tag {tag!r}: declared fields are numbered from 1 to {MAX_FIELDS - 1}")
        if tag == DEAD_LETTER:
            raise TemplateError(f"the tag {DEAD_LETTER!r} is the space's own and has no declared fields")
        declared[tag] = ordered
    return declared


def prepare(fields: Sequence[Field], index: Index, limits: Limits, ttl_s: float | None = None) -> Item:
    """Check and encode one tuple; raises TupleError before anything is sent."""
    whole = tuple(fields)
    if not whole or type(whole[0]) is not str:
        raise TupleError("the first field of a tuple is its tag, a str")
    if len(whole) > MAX_FIELDS:
        raise TupleError(f"a tuple has at most {MAX_FIELDS} fields, not {len(whole)}")
    if ttl_s is not None and not 0 < ttl_s <= LONGEST_S:
        raise TupleError(f"ttl is a number of seconds above 0, a century at most, not {ttl_s!r}")
    signature = signature_of(whole, limits.max_depth)
    payload = encode(whole)
    if len(payload) > limits.max_bytes:
        raise TupleError(
            f"a tuple tagged {whole[0]!r} has {len(payload)} bytes, over the limit of {limits.max_bytes}"
        )
    positions = index.get(whole[0], ())
    tokens = tuple([token_of(whole[p]) if p < len(whole) else b"" for p in positions]) if positions else ()
    return Item(whole, signature, positions, tokens, payload, ttl_s)


def compile_template(fields: Sequence[TemplateField], index: Index, limits: Limits = _LIMITS) -> Template:
    """Turn what the user asked for into one bucket; raises TemplateError when that cannot be."""
    if not fields or type(fields[0]) is not str:
        raise TemplateError("a template starts with a tag, a str")
    tag = fields[0]
    if len(fields) > MAX_FIELDS:
        raise TemplateError(f"a template has at most {MAX_FIELDS} fields, not {len(fields)}")
    positions = index.get(tag, ())
    pattern = ["s"]
    mask = 0
    given: list[Field] = []
    for at, field in enumerate(fields[1:], start=1):
        code, actual = _formal(field, limits.max_depth)
        pattern.append(code)
        if not actual:
            continue
        if at not in positions:
            raise TemplateError(
                f"field {at} of {tag!r} is given as a value, but not declared: "
                f"say index={{{tag!r}: ({at},)}} where the space is opened, or give its type"
            )
        assert not isinstance(field, type | _Any)
        if _has_nan(field):
            raise TemplateError(f"field {at} of {tag!r}: NaN equals nothing, so no tuple can match")
        mask |= 1 << positions.index(at)
        given.append(field)
    try:
        tag_token(tag)
        given_tokens = tuple(token_of(f) for f in given)
        return Template(tag, "".join(pattern), positions, mask, given_tokens, limits.longest)
    except TupleError as error:
        raise TemplateError(str(error)) from None


def _formal(field: TemplateField, max_depth: int) -> tuple[str, bool]:
    """A template field's type letter, and whether it is a value to be compared."""
    if field is ANY:
        return WILD, False
    if isinstance(field, type):
        try:
            return CODES[field], False
        except KeyError:
            raise TemplateError(f"{field.__name__} is not a type of field; these are: {_names()}") from None
    if field is None:
        return "n", False
    try:
        return signature_of((field,), max_depth), True
    except TupleError as error:
        raise TemplateError(str(error)) from None


def _names() -> str:
    return ", ".join("None" if t is type(None) else t.__name__ for t in CODES)


def letters(fields: Sequence[object]) -> str:
    """One letter per field; raises TupleError for a type that no field has."""
    try:
        return "".join([CODES[type(f)] for f in fields])
    except KeyError as error:
        raise TupleError(f"a field cannot be a {error.args[0].__name__}; it can be {_names()}") from None


def signature_of(fields: Sequence[object], max_depth: int) -> str:
    """The letters of a tuple that is sound at every depth; raises TupleError for one that is not."""
    signature = letters(fields)
    if "t" in signature:
        if max_depth <= 0:
            raise TupleError("tuples are nested too deeply")
        for field in fields:
            if type(field) is tuple:
                signature_of(field, max_depth - 1)
    return signature


def encode(fields: Field) -> bytes:
    """A field's bytes; equal values of the same type give the same bytes (but for -0.0)."""
    try:
        packed: bytes = msgpack.packb(fields, default=_wide, use_bin_type=True)
    except UnicodeEncodeError:
        raise TupleError("a str with lone surrogates cannot be written; use bytes") from None
    return packed


def decode(payload: bytes) -> Tuple:
    """The tuple that was encoded."""
    fields: Tuple = msgpack.unpackb(payload, use_list=False, ext_hook=_narrow, strict_map_key=True)
    return fields


def readable(payload: object) -> Tuple | None:
    """The tuple that was encoded; None for whatever else somebody has written."""
    if not isinstance(payload, bytes):
        return None
    try:
        fields: object = decode(payload)
        if not isinstance(fields, tuple) or not fields:
            return None
        signature_of(fields, DEEPEST)
    except (ValueError, TypeError, RecursionError):
        return None
    return fields


def _wide(value: object) -> msgpack.ExtType:
    """MessagePack's integers end at 64 bits; Python's do not."""
    assert isinstance(value, int)
    return msgpack.ExtType(_BIG_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


def _narrow(code: int, data: bytes) -> int:
    if code != _BIG_INTEGER:
        raise TupleError(f"a stored tuple has an unknown extension {code}: it was written by a newer version")
    return int.from_bytes(data, "big", signed=True)


@functools.lru_cache(maxsize=4096)
def tag_token(tag: str) -> bytes:
    """The token of a tag; tags are few and asked for with every call."""
    return token_of(tag)


def token_of(field: Field) -> bytes:
    """Bytes that stand for a value: the same for equal values of one type, different otherwise."""
    encoded = encode(_without_negative_zero(field))
    if len(encoded) <= _LITERAL_BYTES:
        return encoded
    return hashlib.blake2b(encoded, digest_size=_LITERAL_BYTES + 1).digest()


def _without_negative_zero(field: Field) -> Field:
    """0.0 == -0.0, so they share a token."""
    if type(field) is float:
        return field + 0.0
    if type(field) is tuple:
        return tuple(_without_negative_zero(f) for f in field)
    return field


def _has_nan(field: Field) -> bool:
    if type(field) is tuple:
        return any(_has_nan(f) for f in field)
    return type(field) is float and math.isnan(field)
